"""What a page says already, says of a case alone, or says of nothing that can be asked."""

import pytest

from rubric_core import CriterionKind
from rubric_synth import Document, StageRefusal
from rubric_synth.document import ApiEntry, ApiItem
from rubric_synth.stages.extractive.corpus_terms import CorpusTerms
from rubric_synth.stages.extractive.facts import (
    api,
    defaults,
    questions,
    soundness,
    typed,
)
from rubric_synth.stages.extractive.facts.drafts import api_fact_drafts
from rubric_synth.stages.extractive.facts.fact import Fact

_NAME = "sea.gauges.tidal_range"


def _facts(**change: object) -> list[Fact]:
    return api.api_facts(ApiEntry(qualified_name=_NAME).model_copy(update=change))


def _sentences(**change: object) -> list[str]:
    return [fact.sentence for fact in _facts(**change)]


def _of(name: str, description: str, kind: str = "") -> list[str]:
    first = ApiItem(name="levels", description=".")
    return _sentences(
        parameters=(first, ApiItem(name=name, kind=kind, description=description))
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("levels", "array_like of float"),
        ("levels", "float array_like, optional"),
        ("levels", "(n, ) ndarray of int"),
    ],
)
def test_the_first_parameter_is_not_asked_whether_it_is_an_array(
    name: str, kind: str
) -> None:
    item = ApiItem(name=name, kind=kind)
    assert typed.types_of(item, is_first=False)
    assert not typed.types_of(item, is_first=True)


def test_a_starting_point_is_not_asked_whether_it_is_an_array() -> None:
    assert typed.types_of(ApiItem(name="y0", kind="array_like of float"))
    assert not typed.types_of(ApiItem(name="x0", kind="array_like of float"))


@pytest.mark.parametrize(
    ("kind", "description"),
    [
        ("int or None", "Number of gauges. If None, all are read."),
        ("str or None, default: None", "Name of the station."),
        ("float or None, default: 1.0", "If None, nothing is scaled."),
        ("callable or str", "Name of a norm, or a function that returns one."),
        (
            "int or sequence of int",
            "Must be a positive integer, or a sequence of them.",
        ),
        ("dict or None", "Mapping from names to gauges. If None, names are kept."),
        ("float", "Of all."),  # one plain type says little
    ],
)
def test_a_type_that_the_page_says_anyway_is_not_asked_for(
    kind: str, description: str
) -> None:
    assert not typed.types_of(ApiItem(name="w", kind=kind, description=description))


def test_a_type_that_only_stands_beside_the_name_is_asked_for() -> None:
    item = ApiItem(
        name="w", kind="int or tuple of ints", description="Shape of the output."
    )
    assert typed.types_of(item) == "int or tuple of ints"


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("float or (npoints, ) array_like", "float or array_like"),
        ("(n,) array_like or None, optional", "array_like or None"),
        ("array_like (cast to booleans) or None", "array_like or None"),
        ("float or", ""),
        ("MSGS dict", ""),
        ("UNIT table or int", ""),
    ],
)
def test_a_type_is_whole_and_a_type(kind: str, types: str) -> None:
    assert typed.types_of(ApiItem(name="w", kind=kind)) == types


@pytest.mark.parametrize(
    ("description", "default"),
    [
        (
            "Width. If kernel is 'linear' or 'cubic', this defaults to 1 and can be ignored.",
            "",
        ),
        ("If the record is empty or has gaps, defaults to None.", ""),
        ("Width. It defaults to 1 for short records. Otherwise, it must be given.", ""),
        ("When `span` is None, this defaults to 3.", ""),
        ("If None, defaults to 3.", "3"),
        ("Shift of the coast. If part == 'r' (default), it is real.", ""),
        ("Shift of the coast. If part is 'r' (default), it is real.", ""),
        ("Shift of the coast. If w == 'r' (default), it is real.", "'r'"),
        ("If this is 'r' (default), it is real.", "'r'"),
        ("If not given, this defaults to 3.", "3"),
        ("If `w` is None, it defaults to 3.", "3"),
        ("If omitted, default is 3.", "3"),
        ("If None (default), all gauges are read.", "None"),
        ("Width of the window, which defaults to 3.", "3"),
        ("Width; default is 3. Defaults to get_options()['width'].", ""),
        ("Default is 3. If None, defaults to len(levels).", "3"),
        ("If kernel is 'linear', this defaults to 1. Default is 3.", "3"),
    ],
)
def test_a_default_of_one_case_is_no_default(description: str, default: str) -> None:
    assert defaults.default_of(ApiItem(name="w", description=description)) == default


def test_a_requirement_is_asked_for_as_one() -> None:
    (fact,) = _facts(
        parameters=(
            ApiItem(
                name="mesh", description="If a list, its gauges must lie in order."
            ),
        )
    )
    assert fact.question == "what must hold if `mesh` is a list"


def test_what_the_code_must_do_is_no_requirement_of_its_caller() -> None:
    assert _of("copy", "If True, a new record of the coast must be returned.") == []


def test_a_summary_that_says_the_name_again_is_followed_by_the_next_sentence() -> None:
    sentences = _sentences(
        qualified_name="sea.tmax",
        summary=(
            "Compute the trimmed maximum.",
            "This function computes the highest level of a record under a limit. It is fast.",
        ),
    )
    assert sentences == ["`tmax` computes the highest level of a record under a limit."]


@pytest.mark.parametrize(
    ("kind", "behind"),
    [
        ("float", "returns, as a float, the height of the spring tide."),
        ("(n, n) ndarray", "returns, as an ndarray, the height of the spring tide."),
        (
            "float, sequence, or ndarray",
            "returns, as a float, a sequence or an ndarray, the height",
        ),
        ("array, dict, etc.", "returns the height of the spring tide."),
        ("a chart", "returns the height of the spring tide."),
        ("", "returns the height of the spring tide."),
    ],
)
def test_a_result_comes_with_its_type(kind: str, behind: str) -> None:
    item = ApiItem(name="a", kind=kind, description="Height of the spring tide.")
    (sentence,) = _sentences(returns=(item,))
    assert sentence.startswith(f"`tidal_range` {behind}")


def test_the_type_of_a_result_is_nothing_new_about_it() -> None:
    item = ApiItem(name="out", kind="ndarray or scalar", description="The tidal range.")
    assert _sentences(returns=(item,)) == []


def test_a_result_that_is_another_container_than_its_type_is_refused() -> None:
    item = ApiItem(
        name="out", kind="tuple of floats", description="Array of spring tides."
    )
    assert _sentences(returns=(item,)) == []


def test_results_that_share_a_line_are_not_counted() -> None:
    results = (
        ApiItem(name="xa, xb", description="The ends of the tidal record."),
        ApiItem(name="calls", description="The sum of all gauge visits."),
    )
    assert all(
        "of two results" not in sentences for sentences in _sentences(returns=results)
    )


def test_it_stands_for_the_object_only_behind_a_part_about_it() -> None:
    entry = ApiEntry(
        qualified_name=_NAME,
        summary=("Compute the mean spring amplitude of a coastal station.",),
        returns=(ApiItem(name="a", description="Vertical excursion in metres."),),
        raises=(ApiItem(name="ValueError", description="If the record is short."),),
    )
    asked = questions.question_of(entry, api.api_facts(entry))
    assert asked.endswith("What does it return? Which error does it raise, and when?")
    entry = entry.model_copy(
        update={
            "parameters": (ApiItem(name="w", description="Span of years in a record."),)
        }
    )
    asked = questions.question_of(entry, api.api_facts(entry))
    assert asked.endswith(
        "What does `tidal_range` return? Which error does it raise, and when?"
    )


def test_a_parameter_is_named_where_a_sentence_says_it() -> None:
    sentences = _of(
        "pad", "If bool, determines whether to extend the coast.", "{bool, 'a'}"
    )
    assert sentences == [
        "If `pad` is a bool, `pad` determines whether to extend the coast."
    ]


def test_none_and_not_given_are_one_case() -> None:
    sentences = _of(
        "mesh",
        "If None, all gauges are read. If not given, a coastal chart is printed.",
    )
    assert sentences == ["If `mesh` is None, all gauges are read."]


def test_what_is_not_given_has_its_default() -> None:
    sentences = _of(
        "mesh", "If not specified, all gauges are read. Default is 'coarse'."
    )
    assert sentences == ["By default `mesh` is 'coarse'."]
    sentences = _of("mesh", "If None, all gauges are read. Default is 'coarse'.")
    assert len(sentences) == 2


def test_a_condition_behind_an_assumption_is_none_of_the_object() -> None:
    items = (ApiItem(name="n_gauges", description="."),)
    note = "If n_gauges is odd, the middle level is taken."
    assert len(_sentences(parameters=items, notes=(note,))) == 1
    assert (
        _sentences(parameters=items, notes=("Given a record of levels, sort it.", note))
        == []
    )


@pytest.mark.parametrize(
    "description",
    [
        "Any object that the chart of the coast can hold.",
        "Input array, a (subclass of) tidal chart.",
        "An input array with levels of the coast.",
        "The input data, in any form of the coast.",
        "An array in which to search coastal levels.",
    ],
)
def test_that_something_goes_in_is_no_meaning(description: str) -> None:
    assert _of("w", description) == []


def test_an_array_of_something_is_a_meaning() -> None:
    assert _of("w", "An array of hourly levels along the coast.") != []


def test_what_two_parameters_share_is_no_meaning_of_either() -> None:
    names = (
        ("upper", "Limit of the coastal record."),
        ("lower", "Limit of the coastal record, 2."),
    )
    items = [ApiItem(name=name, description=text) for name, text in names]
    apart = ApiItem(name="mesh", description="Default is 1.")
    same = items[1].model_copy(update={"description": items[0].description})
    assert not [
        fact
        for fact in _facts(parameters=(items[0], apart, same))
        if fact.kind == CriterionKind.DEFINITION
    ]


@pytest.mark.parametrize(
    "description",
    [
        "The bit mask of the gauges in the MSGS dict.",
        "The square matrix A will be converted into CSC or CSR form.",
    ],
)
def test_a_name_from_the_source_or_a_second_verb_makes_no_meaning(
    description: str,
) -> None:
    assert _of("w", description) == []


def test_a_summary_of_the_words_of_its_name_is_refused() -> None:
    assert (
        _sentences(
            qualified_name="sea.vontide_mann", summary=("A von Tide-Mann variable.",)
        )
        == []
    )


def test_defaults_alone_make_no_question() -> None:
    items = tuple(
        ApiItem(name=f"{name}_level", kind=f"float, default: {place}")
        for place, name in enumerate(("upper", "lower", "inner", "outer"))
    )
    entry = ApiEntry(qualified_name=_NAME, parameters=items)
    document = Document(
        title=_NAME, text=entry.rendered(), source=f"python:{_NAME}", kind="api"
    )
    with pytest.raises(StageRefusal):
        api_fact_drafts(document, CorpusTerms([document]), 1)


@pytest.mark.parametrize(
    "description",
    [
        "If True, digits of the levels are trimmed, as follows.",
        "Memory condition of gauges: if False, only new levels are read.",
    ],
)
def test_lost_words_and_labels_make_no_fact(description: str) -> None:
    assert _of("mesh", description) == []


def test_a_sentence_that_lost_a_word_is_refused() -> None:
    sentences = "If `mesh` is True, the levels of one record and those of not in a second are read."
    fact = Fact(CriterionKind.CONDITION, sentences)
    assert not soundness.is_clear(fact)
    assert soundness.is_clear(
        fact._replace(sentence=sentences.replace("of not", "not"))
    )


def test_a_command_with_an_adverb_is_no_meaning() -> None:
    assert (
        _of("w", "Terminate successfully if the gradient of the coast is small.") == []
    )


def test_a_limit_that_lists_the_values_again_is_refused() -> None:
    sentences = _of(
        "mesh", "Must be 'coarse', 'fine' or 'none'.", "{'coarse', 'fine', 'none'}"
    )
    assert sentences == ["`mesh` is one of 'coarse', 'fine' or 'none'."]


def test_a_class_is_not_read_as_the_verb_of_its_summary() -> None:
    sentences = _sentences(
        form="class",
        qualified_name="sea.Bounds",
        summary=("Bounds the coastal record.",),
    )
    assert sentences == []
    sentences = _sentences(
        form="class", qualified_name="sea.Gate", summary=("Bounds the coastal record.",)
    )
    assert sentences == ["`Gate` bounds the coastal record."]


def test_a_name_with_its_own_case_takes_no_article() -> None:
    sentences = _sentences(summary=("Newlyn's test of coastal records.",))
    assert sentences == ["`tidal_range` performs Newlyn's test of coastal records."]


def test_an_error_comes_with_all_of_its_conditions() -> None:
    item = ApiItem(
        name="ValueError",
        description="If the record is short. If a gauge has no level.",
    )
    assert _sentences(raises=(item,)) == [
        "`tidal_range` raises ValueError if the record is short, or if a gauge has no level."
    ]


def test_a_condition_about_nothing_is_refused() -> None:
    assert (
        _of("mesh", "If None and `coarse` is not True, the coast will be drawn.") == []
    )
