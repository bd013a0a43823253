"""Which paragraphs of a document are shown, and what is cut out of it."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_synth.stages.llm.prompt import GAP, shown_text

BLOCKS = st.lists(
    st.sampled_from(
        ["# Head", "one two.", "```\ncode\n\nmore\n```", "a\nb", "x" * 4_500, "- i"]
    ),
    max_size=12,
)


def _shown(text: str, limit: int = 100_000) -> list[str]:
    found = shown_text(text, limit=limit)
    return [text[paragraph.start : paragraph.end] for paragraph in found.paragraphs]


def test_paragraphs_are_cut_at_blank_lines_and_take_their_heading() -> None:
    text = "# T\n\n## A\n\nOne\ntwo.\n \n\nThree.\n\n## B\n\n"
    assert _shown(text) == ["# T\n\n## A\n\nOne\ntwo.", "Three.", "## B"]
    assert shown_text(text, limit=100).passage(1, 1) == "One\ntwo."
    assert shown_text(text, limit=100).passage(1, 2) == "One\ntwo.\n \n\nThree."


def test_code_in_a_fence_stays_whole_and_an_open_fence_ends() -> None:
    assert _shown("Text.\n\n```\na\n\nb\n```\n\nMore.\n\nEnd.") == [
        "Text.",
        "```\na\n\nb\n```",
        "More.",
        "End.",
    ]
    assert _shown("1. ```\n   a\n\n   b\n   ```\n\nMore.\n\nEnd.") == [
        "1. ```\n   a\n\n   b\n   ```",
        "More.",
        "End.",
    ]
    pages = ["word " * 500] * 8
    assert len(_shown("```\n\n" + "\n\n".join(pages))) > 4


def test_a_page_without_blank_lines_is_cut_at_lines_sentences_or_words() -> None:
    text = "Many words in a row make a sentence. " * 1_000
    pieces = _shown(text)
    assert all(len(piece) <= 4_000 and piece.endswith(".") for piece in pieces)
    assert " ".join(pieces) == text.strip()
    assert "".join(_shown("x" * 9_500)) == "x" * 9_500


@given(
    blocks=BLOCKS,
    limit=st.integers(500, 30_000),
    first=st.integers(-1, 14),
    n=st.integers(0, 9),
)
def test_what_is_shown_fits_and_every_passage_is_text_of_the_document(
    blocks: list[str], limit: int, first: int, n: int
) -> None:
    text = "\n\n".join(blocks)
    shown = shown_text(text, limit=limit)
    lengths = [p.end - p.start for p in shown.paragraphs]
    assert sum(lengths[1:]) <= limit
    spans = [(p.start, p.end) for p in shown.paragraphs]
    assert spans == sorted(spans)
    passage = shown.passage(first, first + n)
    assert all(part in text for part in passage.split(f"\n\n{GAP}\n\n"))
    assert bool(passage) == (1 <= first <= first + n <= len(spans))
    assert shown == shown_text(text, limit=limit)


def _long() -> str:
    filler = (
        "Some say this and others say that, and it goes on in the same way for a while. "
        * 12
    )
    rich = (
        "The turbine blade fatigue depends on turbine speed and blade temperature. "
        * 12
    )
    return "\n\n".join(
        [
            "# Blades\n\nThe opening says what it is about.",
            *(f"## Part {n}\n\n{filler} {n}" for n in range(20)),
            f"## Fatigue\n\n{rich}",
            "## References\n\n"
            + "Turbine blade fatigue, turbine speed, blade temperature. " * 20,
        ]
    )


def test_a_long_document_is_shown_by_its_opening_and_its_richest_sections() -> None:
    text = _long()
    shown = shown_text(text, limit=4_000)
    rendered = shown.rendered()
    assert rendered.startswith("[1] # Blades")
    assert "## Fatigue" in rendered
    assert "## References" not in rendered
    assert "paragraphs left out here]" in rendered
    everything = shown_text(text, limit=10**6).paragraphs
    assert sum(shown.omitted) + len(shown.paragraphs) == len(everything)
    assert [f"[{n}] " in rendered for n in range(1, len(shown.paragraphs) + 1)]


def test_a_passage_over_a_gap_says_so() -> None:
    shown = shown_text(_long(), limit=4_000)
    gaps = [
        number for number, omitted in enumerate(shown.omitted[1:-1], start=1) if omitted
    ]
    passage = shown.passage(1, len(shown.paragraphs))
    assert passage.count(GAP) == len(gaps) > 0


@pytest.mark.parametrize(
    "text",
    ["a " * 2_500_000, "a\n\n" * 1_600_000, "#" * 5_000_000, "```\n\n" * 1_000_000],
)
def test_five_megabytes_of_anything_are_read_in_seconds(text: str) -> None:
    started_s = time.process_time()
    shown = shown_text(text, limit=50_000)
    assert len(shown.rendered()) < 200_000
    assert time.process_time() - started_s < 10


@pytest.mark.parametrize(
    ("heading", "left_out"),
    [
        ("References", True),
        ("7. Acknowledgments and funding", True),
        ("Index theory", False),
    ],
)
def test_back_matter_is_known_by_its_whole_heading(
    heading: str,
    left_out: bool,  # noqa: FBT001
) -> None:
    words = " ".join(f"turbine blade number {n} fatigue" for n in range(60))
    plain = "and so on and on it goes " * 60
    text = f"Blades.\n\n# {heading}\n\n{words}\n\n# Other\n\n{plain}"
    assert (heading not in shown_text(text, limit=2_100).rendered()) is left_out
