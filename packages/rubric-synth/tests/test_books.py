"""Tasks of a long document: read stretch by stretch, asked with the name of the book."""

from itertools import pairwise

import anyio
import pytest

from rubric_core import CriterionKind
from rubric_synth import (
    Document,
    Draft,
    ExtractiveConfig,
    StageRefusal,
    extractive_stages,
)
from rubric_synth.stages.extractive import stretches as cutting
from rubric_synth.stages.extractive.claims import passages
from rubric_synth.stages.extractive.facts import Fact
from rubric_synth.stages.extractive.facts.opening import needs_section, product_of
from rubric_synth.stages.extractive.facts.shortened import long_form
from rubric_synth.stages.extractive.stretches import stretches

_FILLER = "In it we went up there again and looked at this and at that for a while. "
_FACTS = (
    "A sluice is a gate that holds back the water of a canal.",
    "A weir is a low wall that raises the level of a river.",
    "A fender is a timber that keeps a boat off a wall.",
    "A bollard is a post that holds the rope of a boat.",
    "A culvert is a tunnel that carries a stream below a road.",
    "A towpath is a road that horses walk on beside a canal.",
)


def _book(*chapters: str, title: str = "Canal Handbook") -> Document:
    return Document(title=title, text="\n\n".join(chapters), source="canal.pdf")


def _chapter(number: int, *told: str, words: int) -> str:
    filler = _FILLER * (words // len(_FILLER.split()))
    body = "\n\n".join(f"{sentence} {filler[:600]}" for sentence in told)
    return f"## {number} Notes of year {number}\n\n{body}\n\n{filler}"


def _drafts(document: Document) -> list[Draft]:
    stages = extractive_stages([document], ExtractiveConfig())

    async def make() -> list[Draft]:
        analysis = await stages.analyst.analyse(document)
        drafts = await stages.synthesiser.synthesise(document, analysis)
        return [draft for draft in drafts if isinstance(draft, Draft)]

    return anyio.run(make)


def test_a_document_of_16000_words_is_one_stretch() -> None:
    text = "word " * cutting.LONG
    assert [part.text for part in stretches(_book(text))] == [text]
    assert len(stretches(_book("word\n\n" * 3 * cutting.LONG))) > 1


def test_stretches_are_the_whole_text_and_begin_with_headings() -> None:
    document = _book(*(_chapter(n, words=5_000) for n in range(1, 10)))
    parts = stretches(document)
    assert "".join(part.text for part in parts) == document.text
    assert [part.text[:4] for part in parts] == ["## 1", "## 3", "## 5", "## 7", "## 9"]
    assert {part.source for part in parts} == {"canal.pdf"}


def test_a_heading_inside_a_chapter_ends_a_stretch_only_where_it_is_full() -> None:
    parts = [f"## 1.{n} More\n\n" + _FILLER * 400 for n in range(12)]  # 6,400 words
    starts = [part.text[:6] for part in stretches(_book(*parts))]
    assert starts == ["## 1.0", "## 1.3", "## 1.6", "## 1.9"]


def test_code_is_not_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "LONG", 20)
    code = "```sh\n" + "# 1 Make it all\n\nmake all\n\n" * 30 + "```"
    (before, inside, _) = stretches(_book("word " * 50, code, "## 2 End\n\nword " * 9))
    assert "```" not in before.text
    assert inside.text.count("```") == 2


@pytest.fixture
def short_books(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a book of 2,000 words, which takes less time than one of 16,000."""
    monkeypatch.setattr(cutting, "LONG", 1_000)


@pytest.mark.usefixtures("short_books")
def test_each_stretch_of_a_book_gives_tasks_that_name_the_book() -> None:
    document = _book(
        _chapter(1, *_FACTS[:3], words=900), _chapter(2, *_FACTS[3:], words=900)
    )
    first, second = (draft.question for draft in _drafts(document))
    assert first == "Canal: what is a sluice? What is a weir? What is a fender?"
    assert second == "Canal: what is a bollard? What is a culvert? What is a towpath?"


@pytest.mark.usefixtures("short_books")
def test_a_book_whose_stretches_say_too_little_is_asked_as_a_whole() -> None:
    facts = zip(range(1, 4), _FACTS, strict=False)
    document = _book(*(_chapter(n, fact, words=900) for n, fact in facts))
    (draft,) = _drafts(document)
    assert (
        draft.question == "Canal: what is a sluice? What is a weir? What is a fender?"
    )


@pytest.mark.usefixtures("short_books")
@pytest.mark.parametrize(
    "sentence",
    [
        "The tag is an integer that names the chart of a harbour.",
        "The lines style connects adjacent posts of a fence.",
        "Row name is the symbolic name that a lock has on a chart.",
    ],
)
def test_a_book_is_not_asked_what_only_a_section_tells(sentence: str) -> None:
    chapters = (
        _chapter(1, *_FACTS[:2], sentence, words=900),
        _chapter(2, words=900),
    )
    with pytest.raises(StageRefusal):
        _drafts(_book(*chapters))
    page = _chapter(1, *_FACTS[:2], sentence, words=100)
    assert len(_drafts(_book(page))[0].criteria) == 3


@pytest.mark.parametrize(
    ("question", "needs_one"),
    [("what is the depth argument", True), ("what is a sluice", False)],
)
def test_an_argument_needs_the_section_of_its_call(
    question: str,
    needs_one: bool,  # noqa: FBT001 - a table
) -> None:
    fact = Fact(CriterionKind.DEFINITION, "It is a table.", question=question)
    assert needs_section(fact) is needs_one


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Locksmith Reference Manual", "Locksmith"),
        ("Locksmith Documentation", "Locksmith"),
        ("Locksmith Manual - version 1.1", "Locksmith"),
        ("The Locksmith Handbook", "Locksmith"),
        ("User's Guide to Locksmith", "Locksmith"),
        ("R Internals", "R internals"),
        ("B Proofs", "proofs"),
        ("Locksmith Policy Manual", "Locksmith policy"),
    ],
)
def test_the_title_of_a_manual_is_the_name_of_its_program(
    title: str, name: str
) -> None:
    body = "In it Locksmith and R read the keys of a lock again and again. " * 20
    document = _book(f"## 3\n\n{body}", title=title)
    (passage,) = passages(document, ExtractiveConfig())
    assert passage.subject == name


def test_a_program_of_the_title_comes_before_a_type_of_its_code() -> None:
    part = "In it KEYS of the `lock` hold KEYS, and LOCKS reads them.\n\n"
    text = "".join(f"## Part {n}\n\n{part}" for n in range(8))
    document = _book(text, title="Guide to LOCKS")
    assert product_of(document) == "LOCKS"


def test_a_long_form_is_of_one_where_its_short_form_is() -> None:
    text = "In them hidden bank models (HBMs) move."
    assert long_form("HBM", text) == "hidden bank model"


def test_stretches_cover_a_text_without_headings() -> None:
    text = "\n\n".join(_FILLER * 20 for _ in range(200))
    parts = stretches(_book(text))
    lengths = [len(part.text.split()) for part in parts]
    assert "".join(part.text for part in parts) == text
    assert all(cutting.LONG < length < 3 * cutting.LONG for length in lengths)
    assert all(before.text.endswith("\n\n") for before, _ in pairwise(parts))
