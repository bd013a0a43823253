"""Letters, exponents and columns of PDFs: what their fonts and places say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PLAIN = (
    b"The moon raises a bulge of water on the near side of the planet, and",
    b"inertia raises a second bulge on the opposite side. A station on the",
    b"coast passes through both bulges every day and records two high waters.",
)
_TIMES = b"/Type /Font /Subtype /Type1 /BaseFont /Times-Roman"


@pytest.fixture
def read_runs(tmp_path: Path, read: Callable, typeset: Callable) -> Callable:
    """Read a page of runs."""

    def of(runs: list[tuple[float, float, int, bytes]], **settings: bytes) -> object:
        (tmp_path / "a.pdf").write_bytes(typeset(runs, **settings))
        (found,) = read(tmp_path / "a.pdf")
        return found

    return of


def _lines(*texts: bytes, left: float = 60, top: float = 780) -> list:
    return [(left, top - 14 * row, 11, text) for row, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("codes", "seen"),
    [
        (
            b"The \x1crst e\x1ecient di\x1berence \x1dows 2\x153 months",
            "The first efficient",
        ),
        (b"so \x10called\x11 o\x1fine \x16 now", "so “called” offline — now"),
        (
            b"The \x0crst e\x0ecient di\x0berence \x0dows 2{3 months",
            "The first efficient",
        ),
        (
            b"It lasts 2\x963 months, \x93so\x94 it\x92s said",
            "It lasts 2–3 months, “so” it’s said",
        ),
    ],
)
def test_codes_of_one_meaning_are_letters(
    read_runs: Callable, codes: bytes, seen: str
) -> None:
    text = read_runs(_lines(*_PLAIN, codes)).text
    assert seen in text
    if "first" in seen:
        assert "The first efficient difference flows 2–3 months" in text


@pytest.mark.parametrize(
    "codes", [b"The \x1crst e\x0ecient di\x0berence", b"\x01bc d\x04f g\x05h"]
)
def test_codes_of_two_meanings_are_refused(read_runs: Callable, codes: bytes) -> None:
    found = read_runs(_lines(*_PLAIN, codes))
    assert found.reason == "no_unicode_map"
    assert "of fonts without a Unicode map" in found.detail


def test_a_font_whose_codes_are_no_unicode_is_refused(read_runs: Callable) -> None:
    shifted = [bytes(c - 29 if c > 64 else c for c in line) for line in _PLAIN * 2]
    assert read_runs(_lines(*shifted)).reason == "no_unicode_map"


def test_a_sign_that_nobody_can_tell_makes_no_passage(read_runs: Callable) -> None:
    from rubric_synth.sources.cleaning.markup import sections

    other = _lines(b"The range is 5 \x03 2 metres at the head of the bay.", top=700)
    found = read_runs([*_lines(*_PLAIN), *other])
    assert "5 \ufffd 2 metres" in found.text
    assert "5 " not in "".join(
        text for part in sections(found.text) for text in part.paragraphs
    )


def _typed(*parts: tuple[int, float, bytes], left: float = 60.0, top: float) -> list:
    """Set parts of a line one after another: each with its size, how high it stands, its text."""
    runs = []
    for size, rise, text in parts:
        runs.append((left, top + rise, size, text))
        left += 0.6 * size * len(text)
    return runs


def test_raised_digits_are_exponents_and_marks_of_notes_go(read_runs: Callable) -> None:
    runs = [
        *_lines(*_PLAIN),
        *_typed((9, 0, b"About 10"), (6, 4, b"6"), (9, 0, b" litres of CO"), (6, -2, b"2"),
                (9, 0, b" fill 250"), (6, 4, b"9"), (9, 0, b" tanks of 3 m"), (6, 3, b"3"),
                (9, 0, b" each, 10"), (6, 4, b"-3"), (9, 0, b" l."), top=738),
        *_typed((6, 3, b"9"), (8, 0, b"Counted by hand in the winter of 1998 alone."), top=97),
        *_typed((8, 0, b"The others were counted by a machine."), top=86),
    ]  # fmt: skip
    text = read_runs(runs, font=b"/Type /Font /Subtype /Type1 /BaseFont /Courier").text
    assert "About 10^6 litres of CO2 fill 250 tanks of 3 m^3 each, 10^-3 l." in text
    assert "Counted" not in text
    assert "machine" not in text


def test_columns_that_were_drawn_line_by_line_are_read_one_by_one(
    read_runs: Callable,
) -> None:
    right = [b"Steam enters the evaporator from above", b"and gives up its heat to the brine that",
             b"flows through a wall of bronze tubes to", b"the pot below the boiler, and",
             b"is led back from there."]  # fmt: skip
    left = [b"Brine leaves the evaporator at the", b"lower end and is cooled in a jacket",
            b"before it reaches the pump. It raises", b"it to the tank on the roof of the plant",
            b"where it settles for a day."]  # fmt: skip
    title = [
        (
            60.0,
            790.0,
            16,
            b"An evaporator of brine and what it is made of in this plant",
        )
    ]
    rows = [
        run
        for pair in zip(
            _lines(*left, top=740), _lines(*right, left=330, top=740), strict=True
        )
        for run in pair
    ]
    words = " ".join(read_runs(title + rows).text.split())
    assert b" ".join(left).decode() in words
    assert b" ".join(right).decode() in words
    assert words.index("Brine") < words.index("Steam")


def test_rows_of_a_table_stay_rows(read_runs: Callable) -> None:
    names = [b"Sodium", b"Argon", b"Helium", b"Steel", b"Water"]
    values = [
        b"melts at 98 C",
        b"boils at -186 C",
        b"boils at -269 C",
        b"melts at 1500 C",
        b"12",
    ]
    cells = zip(
        _lines(*names, top=700), _lines(*values, left=330, top=700), strict=True
    )
    text = read_runs([*_lines(*_PLAIN), *(run for pair in cells for run in pair)]).text
    assert "Sodium melts at 98 C" in text


def test_a_row_of_a_table_is_neither_heading_nor_prose(read_runs: Callable) -> None:
    from rubric_synth.sources.cleaning.markup import sections

    cells = [b"1", b"NA", b"Basalt NA", b"NA"]
    rows = [
        (60.0 + 90 * n, 700.0 - 14 * r, 11, c)
        for r in range(3)
        for n, c in enumerate(cells)
    ]
    heading = [(60.0, 640.0, 11, b"2"), (90.0, 640.0, 11, b"Tides of the coast")]
    found = read_runs([*_lines(*_PLAIN), *rows, *heading, *_lines(*_PLAIN, top=600)])
    said = sections(found.text)
    assert "NA" not in "".join(s.heading + "".join(s.paragraphs) for s in said)
    assert said[1].heading == "2 Tides of the coast"


@pytest.mark.parametrize(
    ("parted", "whole"),
    [
        (b"a water-/cooled jacket", "a water-cooled jacket"),
        (b"the long-/term store", "the long-term store"),
        (b"in steady-/state flow", "in steady-state flow"),
        (b"the gravi-/tational pull", "the gravitational pull"),
        (b"is dis-/covered late", "is discovered late"),
        (b"its longi-/tude was", "its longitude was"),
        (b"of 10-/20 metres", "of 10-20 metres"),
    ],
)
def test_a_hyphen_at_the_end_of_a_line(
    read_runs: Callable, parted: bytes, whole: str
) -> None:
    filling = b"Tides are the slow rise and fall of the surface of the sea; in "
    first, second = parted.split(b"/")
    text = read_runs(_lines(filling + first, second + b" that the moon causes.")).text
    assert whole in " ".join(text.split())
