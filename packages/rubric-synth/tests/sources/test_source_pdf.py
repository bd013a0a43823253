from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rubric_synth import CollectConfig, Document, Rejection, SourceError
from rubric_synth.sources import raw_text, read_source

if TYPE_CHECKING:
    from collections.abc import Callable

_PROSE = (
    "The moon raises a bulge of water on the near side of the planet, and",
    "inertia raises a second bulge on the opposite side. A station on the",
    "coast passes through both bulges every day and records two high waters.",
)


def test_a_pdf_becomes_headings_and_paragraphs(
    tmp_path: Path, read: Callable, pdf: Callable
) -> None:
    page = [
        ("Tides along a coast", 20),
        "",
        *_PROSE,
        "",
        ("1.1 Neap tides", 14),
        *_PROSE,
    ]
    (tmp_path / "tides.pdf").write_bytes(pdf([page]))
    (found,) = read(tmp_path / "tides.pdf")
    prose = "\n".join(_PROSE)
    assert (
        found.text
        == f"## Tides along a coast\n\n{prose}\n\n## 1.1 Neap tides\n\n{prose}"
    )
    assert found.title == "Tides along a coast"
    assert found.source == f"{tmp_path.name}/tides.pdf"


def test_running_lines_and_page_numbers_go_and_sentences_cross_pages(
    tmp_path: Path, read: Callable, pdf: Callable
) -> None:
    pages = [
        [
            f"Journal of Tides {number}",
            *_PROSE,
            f"water rises {word}",
            f"Page {number} of 4",
        ]
        for number, word in enumerate(("slowly", "fast", "twice", "late"), start=1)
    ]
    pages[1][1:1] = ["in the morning."]
    (tmp_path / "tides.pdf").write_bytes(pdf(pages))
    (found,) = read(tmp_path / "tides.pdf")
    assert "Journal" not in found.text
    assert "of 4" not in found.text
    assert "water rises slowly\nin the morning." in found.text


def test_words_parted_at_the_end_of_a_line_are_whole_again(
    tmp_path: Path, read: Callable, pdf: Callable
) -> None:
    lines = [
        "A well-known bulge follows the moon. The gravi-",
        "tational pull is weak, which is a well-",
        "known fact of ASTRO-",
        "NOMY that every harbour pilot has to know.",
    ]
    (tmp_path / "a.pdf").write_bytes(pdf([lines]))
    (found,) = read(tmp_path / "a.pdf")
    assert "gravitational pull" in found.text
    assert "a well-known fact" in found.text
    assert "ASTRONOMY" in found.text


def test_contents_and_references_are_left_out(
    tmp_path: Path, read: Callable, pdf: Callable
) -> None:
    page = [
        "1 Tides . . . . . . . . . 3",
        *_PROSE,
        "",
        *_PROSE,
        "",
        *_PROSE,
        "",
        "References",
        "",
    ]
    page += ["[1] A. Author, A book on tides, Publisher, 1999."]
    (tmp_path / "a.pdf").write_bytes(pdf([page]))
    (found,) = read(tmp_path / "a.pdf")
    assert "Author" not in found.text
    assert ". . ." not in found.text


def test_a_pdf_without_text_that_can_be_read_is_counted_with_its_reason(
    tmp_path: Path, reasons: Callable, pdf: Callable
) -> None:
    root = tmp_path / "in"
    root.mkdir()
    whole = pdf([_PROSE])
    (root / "cut.pdf").write_bytes(whole[:300])
    (root / "empty.pdf").write_bytes(b"")
    (root / "junk.pdf").write_bytes(os.urandom(5000))
    (root / "locked.pdf").write_bytes(pdf([_PROSE], encrypted=True))
    (root / "long.pdf").write_bytes(pdf([_PROSE * 10] * 3))
    (root / "no_pages.pdf").write_bytes(pdf([]))
    (root / "scan.pdf").write_bytes(pdf([["7"], [], []]))
    assert reasons(root, max_document_bytes=3000) == {
        "in/cut.pdf": "broken_pdf",
        "in/empty.pdf": "empty",
        "in/junk.pdf": "broken_pdf",
        "in/locked.pdf": "encrypted",
        "in/long.pdf": "too_long",
        "in/no_pages.pdf": "broken_pdf",
        "in/scan.pdf": "no_text_layer",
    }


def test_the_name_of_a_pdf_may_be_no_text(
    tmp_path: Path, read: Callable, pdf: Callable
) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.pdf")).write_bytes(
        pdf([_PROSE])
    )
    (found,) = read(tmp_path)
    assert found.text == "\n".join(_PROSE)


def test_any_damage_to_a_pdf_ends_in_a_document_or_a_reason(
    tmp_path: Path, read: Callable, pdf: Callable
) -> None:
    root = tmp_path / "in"
    root.mkdir()
    whole = pdf([_PROSE] * 2)
    for place in range(0, len(whole), 40):
        damaged = whole[:place] + bytes(
            byte ^ 0x55 for byte in whole[place : place + 8]
        )
        (root / f"{place:05}.pdf").write_bytes(damaged + whole[place + 8 :])
    assert len(read(root)) == len(range(0, len(whole), 40))


def test_a_reader_that_is_killed_costs_one_document(
    tmp_path: Path, pdf: Callable, kill_reader: Callable
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.pdf").write_bytes(pdf([_PROSE]))
    found = read_source(tmp_path, config=CollectConfig(languages=()))
    assert isinstance(next(found), Document)
    kill_reader()
    second = next(found)
    assert isinstance(second, Rejection)
    assert second.reason == "conversion_failed"
    assert isinstance(next(found), Document)


def test_without_its_library_a_pdf_is_counted_and_named_alone_it_is_an_error(
    tmp_path: Path, reasons: Callable, pdf: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "in"
    root.mkdir()
    (root / "a.pdf").write_bytes(pdf([_PROSE]))
    monkeypatch.setitem(raw_text._MODULES, "pdf", "no_such_library")
    assert reasons(root) == {"in/a.pdf": "missing_extra"}
    with pytest.raises(
        SourceError, match=r"pip install --no-sources './packages/rubric-synth\[pdf\]'"
    ):
        reasons(root / "a.pdf")
