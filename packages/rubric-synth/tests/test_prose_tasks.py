import re

import anyio
import pytest

from rubric_synth import (
    Document,
    Draft,
    ExtractiveConfig,
    StageRefusal,
    extractive_stages,
)
from rubric_synth.document import RejectionReason
from rubric_synth.stages.extractive.claims import passages

_CONFIG = ExtractiveConfig()


def _drafts(document: Document, config: ExtractiveConfig = _CONFIG) -> list[Draft]:
    stages = extractive_stages([document], config)

    async def make() -> list[Draft]:
        analysis = await stages.analyst.analyse(document)
        drafts = await stages.synthesiser.synthesise(document, analysis)
        return [
            await stages.enricher.enrich(document, analysis, draft) for draft in drafts
        ]

    return anyio.run(make)


def _article(articles: dict[str, str], name: str) -> Document:
    title = articles[name].splitlines()[0].removeprefix("# ")
    return Document(title=title, text=articles[name], source=f"{name}.md")


@pytest.mark.parametrize("name", ["tides", "dough", "steel"])
def test_every_criterion_states_a_claim_that_the_question_asks_for(
    articles: dict[str, str], name: str
) -> None:
    (draft,) = _drafts(_article(articles, name))
    assert 5 <= len(draft.criteria) <= 6
    assert draft.question.count("?") == len(draft.criteria)
    for criterion in draft.criteria:
        assert criterion.kind is not None
        assert criterion.id.startswith(criterion.kind)
        assert re.match(r"Says that .{20,}\.$", criterion.description)
        assert criterion.name
        assert criterion.expected_keywords
        claim = criterion.description.removeprefix("Says that ")
        assert claim.lower() in draft.reference_answer.lower()


def test_each_part_of_a_question_has_its_answer_in_the_rubric(
    articles: dict[str, str],
) -> None:
    (draft,) = _drafts(_article(articles, "tides"))
    asked = dict(zip(draft.question.split("? "), draft.criteria, strict=True))
    by_part = {
        part.rstrip("?"): criterion.description for part, criterion in asked.items()
    }
    assert by_part["When do spring tides occur"] == (
        "Says that spring tides occur when the pull of the sun adds to the pull of the moon."
    )
    assert (
        "difference between high water and low water"
        in by_part["Tides along a coast: what is the tidal range"]
    )


def test_the_reference_answer_consists_of_sentences_of_the_passage(
    articles: dict[str, str],
) -> None:
    (draft,) = _drafts(_article(articles, "tides"))
    passage = " ".join(draft.passage.split())
    sentences = re.split(r"(?<=\.) ", draft.reference_answer)
    assert len(sentences) >= 4
    assert all(sentence in passage for sentence in sentences)


def test_several_passages_give_several_questions(articles: dict[str, str]) -> None:
    text = "# Three things\n\n" + "\n\n".join(
        t.split("\n\n", 1)[1] for t in articles.values()
    )
    document = Document(title="Three things", text=text, source="all.md")
    assert len(_drafts(document, ExtractiveConfig(questions_per_document=1))) == 1
    assert len({draft.question for draft in _drafts(document)}) == 3


def test_sections_that_say_too_little_alone_are_asked_about_together() -> None:
    facts = (
        "A weir is a low wall that raises the level of a river.",
        "The height of a weir is determined by the banks of the river.",
        "Fish cannot pass a weir because the fall is too steep.",
        "A fish ladder consists of pools that are joined by short falls.",
        "The flow through a ladder depends on the width of its slots.",
    )
    filler = (
        "So it goes on and on for a while, as everybody there will say to you. " * 9
    )
    parts = [f"## Part {n}\n\n{fact} {filler}" for n, fact in enumerate(facts)]
    document = Document(
        title="Weirs", text="# Weirs\n\n" + "\n\n".join(parts), source="w.md"
    )
    (draft,) = _drafts(document)
    assert [c.kind for c in draft.criteria].count("cause") == 1
    assert "What is a weir?" in draft.question


def test_headings_are_written_as_they_stand_in_a_sentence() -> None:
    words = "The level of the Atlantic rises. " * 30
    text = f"# Chapter 2: The Level\n\n## 2.1 Rise of the Atlantic Level\n\n{words}"
    document = Document(title="The Level", text=text, source="a.md")
    (passage,) = passages(document, _CONFIG)
    assert (passage.subject, passage.context) == ("rise of the Atlantic level", "")


def test_sections_without_claims_are_left_out_and_short_ones_joined() -> None:
    words = "The level of the sea rises. " * 12
    text = (
        f"## References\n\n{words}{words}\n\n## Rise\n\n{words}\n\n## Fall\n\n{words}"
    )
    (passage,) = passages(Document(title="Sea", text=text, source="a.md"), _CONFIG)
    assert len(passage.paragraphs) == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("# Title\n\nOne short line.", "no_passage"),
        ("# Title\n\n" + "It is so. " * 80, "too_few_facts"),
        (
            "# Title\n\n" + "$x$ is y, see [ref] for the table of it. " * 60,
            "too_few_facts",
        ),
    ],
)
def test_a_document_that_says_too_little_is_refused(text: str, reason: str) -> None:
    with pytest.raises(StageRefusal) as caught:
        _drafts(Document(title="Title", text=text, source="a.md"))
    assert caught.value.reason == reason


_GERMAN = (
    "Die Photosynthese ist ein Vorgang, bei dem Pflanzen aus Licht, Wasser und Kohlendioxid Zucker "
    "herstellen. Wenn die Temperatur steigt, läuft der Vorgang schneller ab. Der Sauerstoff "
    "entsteht aus dem Wasser und nicht aus dem Kohlendioxid, weil das Wasser gespalten wird. "
)


def test_the_rules_read_english_and_say_so_of_any_other_language() -> None:
    document = Document(
        title="Blatt", text=_GERMAN * 8, source="blatt.md", kind="prose"
    )
    with pytest.raises(
        StageRefusal, match="its language is de, and the rules read English"
    ) as why:
        _drafts(document)
    assert why.value.reason is RejectionReason.NOT_ENGLISH
