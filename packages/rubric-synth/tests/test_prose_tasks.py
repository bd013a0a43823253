import re

import anyio
import pytest

from rubric_judge import parse_verification
from rubric_judge.lexical.words import stem
from rubric_synth import Document, Draft, ExtractiveConfig, StageRefusal, extractive_stages
from rubric_synth.extractive.claims import passages
from rubric_synth.extractive.criteria import given_away

_CONFIG = ExtractiveConfig()


def _drafts(document: Document, config: ExtractiveConfig = _CONFIG) -> list[Draft]:
    stages = extractive_stages([document], config)

    async def make() -> list[Draft]:
        analysis = await stages.analyst.analyse(document)
        drafts = await stages.synthesiser.synthesise(document, analysis)
        return [await stages.enricher.enrich(document, analysis, draft) for draft in drafts]

    return anyio.run(make)


def _article(articles: dict[str, str], name: str) -> Document:
    title = articles[name].splitlines()[0].removeprefix("# ")
    return Document(title=title, text=articles[name], source=f"{name}.md")


@pytest.mark.parametrize("name", ["tides", "dough", "steel"])
def test_a_question_names_its_subject_and_the_rubric_asks_for_its_claims(
    articles: dict[str, str], name: str
) -> None:
    document = _article(articles, name)
    (draft,) = _drafts(document)
    ids = [criterion.id for criterion in draft.criteria]
    assert ids[0] == "central_idea"
    assert "supporting_point_2" in ids
    assert 5 <= len(ids) <= 10
    for criterion in draft.criteria:
        assert parse_verification(criterion.verification_method) is not None
        terms = (*criterion.required_elements, *criterion.expected_keywords)
        assert criterion.required_elements
        assert criterion.expected_keywords
        assert all(t.lower() in draft.reference_answer.lower() for t in terms)
        own = terms[1:] if criterion.id.startswith("supporting_point") else terms
        assert given_away(draft.question).isdisjoint(map(stem, own))
        assert all(term in criterion.scoring_guide for term in terms)
    assert any(criterion.expected_concepts for criterion in draft.criteria)
    heading = document.text.split("## ")[1].splitlines()[0].lower()
    assert heading in draft.question.lower()


def test_the_reference_answer_consists_of_sentences_of_the_passage(
    articles: dict[str, str],
) -> None:
    (draft,) = _drafts(_article(articles, "tides"))
    passage = " ".join(draft.passage.split())
    sentences = re.split(r"(?<=\.) ", draft.reference_answer)
    assert len(sentences) >= 4
    assert all(sentence in passage for sentence in sentences)


def test_figures_and_limits_are_asked_for_where_the_text_has_them(
    articles: dict[str, str],
) -> None:
    by_id = {c.id: c for c in _drafts(_article(articles, "steel"))[0].criteria}
    assert by_id["evidence"].required_elements == ("80 %",)
    assert "limitation" in by_id


def test_several_passages_give_several_questions(articles: dict[str, str]) -> None:
    text = "# Three things\n\n" + "\n\n".join(t.split("\n\n", 1)[1] for t in articles.values())
    document = Document(title="Three things", text=text, source="all.md")
    assert len(_drafts(document, ExtractiveConfig(questions_per_document=1))) == 1
    assert len({draft.question for draft in _drafts(document)}) == 3


def test_headings_are_written_as_they_stand_in_a_sentence() -> None:
    words = "The level of the Atlantic rises. " * 30
    text = f"# Chapter 2: The Level\n\n## 2.1 Rise of the Atlantic Level\n\n{words}"
    document = Document(title="The Level", text=text, source="a.md")
    (passage,) = passages(document, _CONFIG)
    assert (passage.subject, passage.context) == ("rise of the Atlantic level", "")


def test_sections_without_claims_are_left_out_and_short_ones_joined() -> None:
    words = "The level of the sea rises. " * 12
    text = f"## References\n\n{words}{words}\n\n## Rise\n\n{words}\n\n## Fall\n\n{words}"
    (passage,) = passages(Document(title="Sea", text=text, source="a.md"), _CONFIG)
    assert len(passage.paragraphs) == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("# Title\n\nOne short line.", "no_passage"),
        ("# Title\n\n" + "It is so. " * 80, "no_question"),
        ("# Title\n\n" + "$x$ is y, see [ref] for the table of it. " * 60, "no_question"),
    ],
)
def test_a_document_that_says_too_little_is_refused(text: str, reason: str) -> None:
    with pytest.raises(StageRefusal) as caught:
        _drafts(Document(title="Title", text=text, source="a.md"))
    assert caught.value.reason == reason
