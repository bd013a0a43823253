import re

import anyio
import pytest

from rubric_core import DocumentAnalysis, normalized_reward
from rubric_judge import LexicalJudge, parse_verification
from rubric_judge.lexical.words import stem
from rubric_judge.wrong_answers import fixed_template
from rubric_synth import Document, Draft, ExtractiveConfig, StageRefusal, extractive_stages
from rubric_synth.document import ApiEntry, ApiItem
from rubric_synth.extractive.api_tasks import purpose_sentence
from rubric_synth.extractive.criteria import given_away
from rubric_synth.quality.draft import to_task
from rubric_synth.tables import read_table

_ENTRY = ApiEntry(
    qualified_name="sea.gauges.tidal_range",
    summary=("Compute the mean spring amplitude of a coastal station from gauge levels.",),
    parameters=(
        ApiItem(name="levels", kind="array_like", description="Water heights recorded every hour."),
        ApiItem(name="a", kind="int", description="A name that is a stop word."),
        ApiItem(name="datum", kind="str, optional", description="Reference surface of the chart."),
        ApiItem(name="axis", kind="int", description=""),
    ),
    returns=(ApiItem(name="range", kind="float", description="The vertical excursion in metres."),),
    notes=(
        "`tidal_range` has experimental support for Python Array API Standard compatible backends.",
        "Storm surges are not removed, so that extreme weather raises the range.",
    ),
)
_NOTES = (
    "Harmonic analysis separates the lunar constituent from the solar constituent of the record.",
    "A least squares solver adjusts the phase of each constituent until the residual vanishes.",
    "Shallow estuaries distort the wave and create overtides with twice the lunar frequency.",
    "Nodal corrections follow the slow precession of the lunar orbit through two decades.",
    "Meteorological forcing spreads energy over a continuum that no constituent explains.",
    "Radiational tides come from the daily heating of the atmosphere by the sun.",
)


def _document(entry: ApiEntry) -> Document:
    name = entry.qualified_name
    return Document(title=name, text=entry.rendered(), source=f"python:{name}", kind="api")


def _drafts(entry: ApiEntry, config: ExtractiveConfig | None = None) -> list[Draft]:
    document = _document(entry)
    stages = extractive_stages([document], config or ExtractiveConfig())

    async def make() -> list[Draft]:
        analysis = await stages.analyst.analyse(document)
        drafts = await stages.synthesiser.synthesise(document, analysis)
        return [
            await stages.enricher.enrich(document, analysis, draft)
            for draft in drafts
            if isinstance(draft, Draft)
        ]

    return anyio.run(make)


def _draft(entry: ApiEntry) -> Draft:
    (draft,) = _drafts(entry)
    return draft


def _reward(entry: ApiEntry, answer: str) -> float:
    task = to_task(_document(entry), DocumentAnalysis(), _draft(entry))
    return normalized_reward(LexicalJudge().judge_now(task.judge_view(answer)), task.rubric)


def test_the_question_names_the_object_its_module_and_its_parameters() -> None:
    question = _draft(_ENTRY).question
    assert "`tidal_range` from sea.gauges with `levels`, `datum`" in question
    assert "`a`" not in question
    assert "`axis`" not in question  # nothing is said of it
    assert "what it returns and its caveats" in question


def test_the_criteria_are_those_that_the_entry_supports() -> None:
    draft = _draft(_ENTRY)
    by_id = {criterion.id: criterion for criterion in draft.criteria}
    assert list(by_id) == ["purpose", "parameter_1", "parameter_2", "returns_1", "caveat_1"]
    assert "levels" in by_id["parameter_1"].verification_method
    terms = {*by_id["caveat_1"].required_elements, *by_id["caveat_1"].expected_keywords}
    assert "extreme" in terms
    for criterion in draft.criteria:
        assert parse_verification(criterion.verification_method) is not None
        assert criterion.name
        assert criterion.description
        assert criterion.scoring_guide
        assert criterion.required_elements
        assert criterion.expected_keywords
    assert any(criterion.expected_concepts for criterion in draft.criteria)


def test_an_id_asks_for_one_kind_of_thing_in_every_task() -> None:
    kinds = read_table("criteria")
    entry = _ENTRY.model_copy(update={"notes": _NOTES})
    criteria = [criterion for draft in _drafts(entry) for criterion in draft.criteria]
    assert len({criterion.id for criterion in criteria}) > 5
    for criterion in criteria:  # calibration pools by id: docs/judge/calibrate.md
        row = kinds[re.sub(r"_\d+$", "", criterion.id)]
        assert criterion.weight == row["weight"]
        assert criterion.scoring_guide.startswith(row["scoring_guide"])


def test_beside_its_names_no_word_of_the_question_earns_and_they_earn_little() -> None:
    draft = _draft(_ENTRY)
    given = given_away(draft.question)
    assert {"tidal", "gaug", "level"} <= given  # of `tidal_range`, sea.gauges and `levels`
    for criterion in draft.criteria:
        named, terms = criterion.required_elements[:-1], criterion.expected_keywords
        assert set(named) <= {"levels", "datum"}
        assert given.isdisjoint(map(stem, (criterion.required_elements[-1], *terms)))
    assert _reward(_ENTRY, fixed_template(draft.question)) <= 0.15


def test_notes_that_say_enough_have_a_question_of_their_own() -> None:
    entry = _ENTRY.model_copy(update={"notes": _NOTES})
    first, second = _drafts(entry)
    assert {"supporting_point_1", "central_idea"}.isdisjoint(c.id for c in first.criteria)
    assert "Explain `tidal_range`" in second.question or "`tidal_range`" in second.question
    assert len(second.criteria) == 5
    assert second.passage == "\n\n".join(_NOTES)
    (only,) = _drafts(entry, ExtractiveConfig(questions_per_document=1))
    assert "the role of " in only.question
    assert "supporting_point_2" in {criterion.id for criterion in only.criteria}


def test_what_the_entry_does_not_say_is_not_asked_for() -> None:
    entry = _ENTRY.model_copy(update={"returns": (), "notes": _ENTRY.notes[:1]})
    draft = _draft(entry)
    assert {c.id for c in draft.criteria} == {"purpose", "parameter_1", "parameter_2"}
    assert "returns" not in draft.question
    assert "caveat" not in draft.question


@pytest.mark.parametrize("summary", ["Tides.", "Compute the tidal range of the gauges."])
def test_a_purpose_that_the_name_gives_away_is_told_but_not_asked_for(summary: str) -> None:
    draft = _draft(_ENTRY.model_copy(update={"summary": (summary,)}))
    assert "purpose" not in {criterion.id for criterion in draft.criteria}
    assert "what it does" not in draft.question
    assert draft.reference_answer.startswith("The function `tidal_range` ")


def test_parameters_that_say_too_little_alone_share_a_criterion() -> None:
    items = (
        ApiItem(name="north", description="Moorings."),
        ApiItem(name="east", description="Seasonal ice charts."),
        ApiItem(name="west", description="Seasonal ice charts."),
        ApiItem(name="south", description="Sandbanks."),
    )
    draft = _draft(_ENTRY.model_copy(update={"parameters": items}))
    methods = [c.verification_method for c in draft.criteria if c.id.startswith("parameter")]
    assert [method.splitlines()[0] for method in methods] == [
        "sentences: with(east|west)",
        "sentences: with(north|south)",
    ]
    assert "`east` and `west` (seasonal ice charts)." in draft.reference_answer
    assert "`north` (moorings) and `south` (sandbanks)." in draft.reference_answer


def test_the_reference_answer_reads_as_prose_and_satisfies_the_rubric() -> None:
    answer = _draft(_ENTRY).reference_answer
    assert answer == (
        "The function `tidal_range` is used to compute the mean spring amplitude of a coastal "
        "station from gauge levels. It takes `levels` (water heights recorded every hour). It "
        "also takes `datum` (reference surface of the chart). It returns the vertical excursion "
        "in metres. Note that storm surges are not removed, so that extreme weather raises the "
        "range."
    )
    assert _reward(_ENTRY, answer) == 1.0


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
