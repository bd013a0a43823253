from __future__ import annotations

import anyio
import pytest

from rubric_core import DocumentAnalysis, normalized_reward
from rubric_judge import LexicalJudge, parse_verification
from rubric_synth import Document, Draft, ExtractiveConfig, StageRefusal, extractive_stages
from rubric_synth.document import ApiEntry, ApiItem, render_entry
from rubric_synth.extractive.api_tasks import purpose_sentence

_ENTRY = ApiEntry(
    qualified_name="sea.gauges.tidal_range",
    summary=("Compute the tidal range of a station from gauge levels.",),
    parameters=(
        ApiItem(
            name="levels", kind="array_like", description="Water levels recorded by the gauge."
        ),
        ApiItem(name="a", kind="int", description="A name that is a stop word."),
        ApiItem(name="datum", kind="str, optional", description="Reference surface of the levels."),
        ApiItem(name="axis", kind="int", description=""),
    ),
    returns=(ApiItem(name="range", kind="float", description="The height between the tides."),),
    notes=(
        "`tidal_range` has experimental support for Python Array API Standard compatible backends.",
        "Storm surges are not removed, so that extreme weather raises the range.",
    ),
)


def _document(entry: ApiEntry) -> Document:
    name = entry.qualified_name
    return Document(title=name, text=render_entry(entry), source=f"python:{name}", kind="api")


def _draft(entry: ApiEntry) -> Draft:
    document = _document(entry)
    stages = extractive_stages([document], ExtractiveConfig())

    async def make() -> Draft:
        analysis = await stages.analyst.analyse(document)
        (draft,) = await stages.synthesiser.synthesise(document, analysis)
        return await stages.enricher.enrich(document, analysis, draft)

    return anyio.run(make)


def _reward(entry: ApiEntry, answer: str) -> float:
    task = _draft(entry).to_task(_document(entry), DocumentAnalysis())
    return normalized_reward(LexicalJudge().judge_now(task.judge_view(answer)), task.rubric)


def test_the_question_names_the_object_its_module_and_its_parameters() -> None:
    question = _draft(_ENTRY).question
    assert "`tidal_range` from sea.gauges with `levels`, `datum`, `axis`" in question
    assert "`a`" not in question
    assert "what it returns and its caveats" in question


def test_the_criteria_are_those_that_the_entry_supports() -> None:
    draft = _draft(_ENTRY)
    by_id = {criterion.id: criterion for criterion in draft.criteria}
    assert list(by_id) == [
        "purpose_named",
        "purpose_terms",
        "parameters_named",
        "parameters_described",
        "returns",
        "caveat",
        "structure",
    ]
    assert by_id["parameters_named"].required_elements == ("levels", "datum", "axis")
    assert "extreme" in by_id["caveat"].expected_keywords
    assert "gauge" not in by_id["purpose_terms"].expected_keywords  # the module's name gives it
    for criterion in draft.criteria:
        assert parse_verification(criterion.verification_method) is not None
        assert criterion.name
        assert criterion.description
        assert criterion.scoring_guide


def test_what_the_entry_does_not_say_is_not_asked_for() -> None:
    entry = _ENTRY.model_copy(update={"returns": (), "notes": _ENTRY.notes[:1]})
    draft = _draft(entry)
    assert {c.id for c in draft.criteria}.isdisjoint({"returns", "caveat"})
    assert "returns" not in draft.question
    assert "caveat" not in draft.question


def test_the_reference_answer_reads_as_prose_and_satisfies_the_rubric() -> None:
    answer = _draft(_ENTRY).reference_answer
    assert answer == (
        "The function `tidal_range` is used to compute the tidal range of a station from gauge "
        "levels. It takes `levels` (water levels recorded by the gauge) and `datum` (reference "
        "surface of the levels). The other parameter is `axis`. It returns the height between the "
        "tides. Note that storm surges are not removed, so that extreme weather raises the range."
    )
    assert _reward(_ENTRY, answer) > 0.95


@pytest.mark.parametrize(
    ("answer", "most"),
    [
        ("", 0.0),
        ("levels datum axis tidal range water storm surges extreme weather height", 0.0),
        ("Note that it must not be used. It returns only what is returned.", 0.15),
        ("I can not say what this function of the module does for its user.", 0.15),
    ],
)
def test_markers_and_terms_without_content_earn_next_to_nothing(answer: str, most: float) -> None:
    assert _reward(_ENTRY, answer) <= most


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"summary": ()}, "no_summary"),
        ({"summary": ("Tides.",)}, "no_summary"),
        ({"parameters": ()}, "no_parameters"),
        ({"parameters": (ApiItem(name="a"), ApiItem(name="tidal_range"))}, "no_parameters"),
    ],
)
def test_an_entry_that_says_too_little_is_refused(change: dict[str, object], reason: str) -> None:
    with pytest.raises(StageRefusal) as caught:
        _draft(_ENTRY.model_copy(update=change))
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("form", "summary", "sentence"),
    [
        ("function", "Computes the range", "The function `f` is used to compute the range."),
        ("function", "Return the range", "The function `f` gives the range."),
        ("function", "Apply, then sort", "The function `f` is used to apply, then sort."),
        ("function", "Bessel function", "The function `f` gives the Bessel function."),
        ("function", "This function sorts rows", "The function `f` sorts rows."),
        ("method", "For all, sort", "The method `f` does the following: for all, sort."),
        ("class", "A tree of rows", "The class `f` is a tree of rows."),
        ("class", "Tree of rows", "The class `f` is used as tree of rows."),
    ],
)  # fmt: skip
def test_summaries_become_sentences(form: str, summary: str, sentence: str) -> None:
    assert purpose_sentence("f", form, summary, frozenset({"Bessel"})) == sentence
