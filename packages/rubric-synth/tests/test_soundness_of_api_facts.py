"""What is repaired in the facts of a page, and which are refused."""

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
    tidying,
    wording,
)
from rubric_synth.stages.extractive.facts.drafts import api_fact_drafts
from rubric_synth.stages.extractive.facts.fact import Fact

_NAME = "sea.gauges.tidal_range"
_MEANING = CriterionKind.DEFINITION


def _entry(**change: object) -> ApiEntry:
    return ApiEntry(qualified_name=_NAME).model_copy(update=change)


def _facts(**change: object) -> list[Fact]:
    return api.api_facts(_entry(**change))


def _told(**change: object) -> list[str]:
    return [fact.sentence for fact in _facts(**change)]


def _of(
    name: str, description: str, kind: str = "", others: tuple[str, ...] = ()
) -> list[str]:
    items = [ApiItem(name=name, kind=kind, description=description)]
    items += [ApiItem(name=other, description=".") for other in others]
    return _told(parameters=tuple(items))


def _document(entry: ApiEntry) -> Document:
    name = entry.qualified_name
    return Document(
        title=name, text=entry.rendered(), source=f"python:{name}", kind="api"
    )


@pytest.mark.parametrize(
    ("name", "description"),
    [
        ("self_gauges", "If True, self-gauges are allowed."),
        ("padding", "If 'periodic', periodic padding is used."),
        ("full_record", "If True, return optional records."),
        ("G", "A NetworkX graph."),  # its type, and no more
        ("graph", "The input graph, an array."),
    ],
)
def test_a_key_that_says_the_name_or_value_again_is_refused(
    name: str, description: str
) -> None:
    assert _of(name, description) == []


@pytest.mark.parametrize(
    ("qualified_name", "summary"),
    [
        ("sea.lognormal", "Draw samples from a log-normal distribution."),
        ("sea.tidal_range", "Compute the range of all tidal nodes."),
    ],
)
def test_a_summary_that_says_the_name_again_is_refused(
    qualified_name: str, summary: str
) -> None:
    assert _told(qualified_name=qualified_name, summary=(summary,)) == []


def test_a_result_that_says_the_name_again_is_refused() -> None:
    item = ApiItem(
        name="out", description="Drawn samples from the parameterized tidal range."
    )
    assert _told(returns=(item,)) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Must be non- negative.", "Must be non-negative."),
        ("within- and inter-cluster", "within- and inter-cluster"),
        ("symmetric/ hermitian", "symmetric/hermitian"),
        ("of the range..", "of the range."),
        ("is empty or If it is directed", "is empty or if it is directed"),
        ("a OptimizeResult, a unit, a one-dimensional array, a and b",
         "an OptimizeResult, a unit, a one-dimensional array, a and b"),
    ],
)  # fmt: skip
def test_what_line_breaks_left_is_repaired(before: str, after: str) -> None:
    assert tidying.tidied(_entry(notes=(before,))).notes == (after,)


def test_a_removed_default_leaves_one_full_stop() -> None:
    told = _of("w", "Mean height of the spring tide. (default 1)")
    assert told == [
        "`w` is the mean height of the spring tide.",
        "By default `w` is 1.",
    ]


def test_a_meaning_that_asks_is_refused() -> None:
    assert _of("offset", "The fixed displacement from the shore of a gauge?.") == []


@pytest.mark.parametrize(
    ("summary", "told"),
    [
        ("Calculate quantiles for a probability plot, and optionally show the plot",
         "calculates quantiles for a probability plot, and optionally shows the plot"),
        ("Compute parameters for a normality plot, optionally show it",
         "computes parameters for a normality plot, optionally shows it"),
        ("Find the lag that maximizes the likelihood function and return it",
         "finds the lag that maximizes the likelihood function and returns it"),
        ("Convert the input to a table of depths, but pass charts through",
         "converts the input to a table of depths, but passes charts through"),
        ("Find the places of peaks in a record and of order",
         "finds the places of peaks in a record and of order"),
    ],
)  # fmt: skip
def test_every_verb_of_a_summary_takes_its_ending(summary: str, told: str) -> None:
    assert wording.as_predicate(summary) == told


def test_a_word_half_in_capitals_is_refused() -> None:
    assert _of("w", "Largest squares of the gauges along the coast.") != []
    assert _of("w", "Largest SQuares of the gauges along the coast.") == []


def test_a_word_one_letter_off_another_of_the_page_is_refused() -> None:
    summary = ("Evaluate a cubic curve at every gauge of a coast.",)
    wrong = ApiItem(name="cj", description="Sorted cublic weights of the gauges.")
    right = ApiItem(name="cj", description="Sorted cubic weights of the gauges.")
    assert len(_told(summary=summary, parameters=(wrong,))) == 1
    assert "`cj` holds the sorted cubic weights of the gauges." in _told(
        summary=summary, parameters=(right,)
    )


@pytest.mark.parametrize(
    ("description", "told"),
    [
        ("If True, all gauges are visible while if False no gauges are visible.",
         "If `w` is True, all gauges are visible."),
        ("If True, gauges are read in turn, and the mean is subtracted.",
         "If `w` is True, gauges are read in turn."),
        ("If 'mean', the mean is subtracted, if set to 'line', the trend is removed.",
         "If `w` is 'mean', the mean is subtracted."),
        ("If True, gauges are read in turn; otherwise nothing happens.",
         "If `w` is True, gauges are read in turn."),
    ],
)  # fmt: skip
def test_a_second_fact_behind_the_first_is_cut_off(description: str, told: str) -> None:
    assert _of("w", description) == [told]


def test_results_are_not_counted_where_one_is_optional() -> None:
    results = (
        ApiItem(name="a", description="The heights of the spring tides."),
        ApiItem(name="b", description="The moments of the neap tides."),
        ApiItem(name="c", description="Lengths of both cables. Present if wanted."),
        ApiItem(name="d", description="An integer flag of the tidal record."),
    )
    assert _told(returns=results) == [
        "`tidal_range` returns the heights of the spring tides.",
        "`tidal_range` returns the moments of the neap tides.",
    ]


def test_a_result_that_shares_most_words_with_the_purpose_is_refused() -> None:
    told = _told(
        summary=("Return the Discrete Fourier Transform sample heights.",),
        returns=(ApiItem(name="f", description="Array holding the sample heights."),),
    )
    assert told == [
        "`tidal_range` returns the Discrete Fourier Transform sample heights."
    ]


@pytest.mark.parametrize(
    ("text", "names", "told"),
    [
        ("whether to extrapolate to points", {"extrapolate"}, "whether to extrapolate to points"),
        ("a symmetric/hermitian matrix", {"hermitian"}, "a symmetric/hermitian matrix"),
        ("the dtypes argument and n_rows", {"dtypes", "n_rows"},
         "the `dtypes` argument and `n_rows`"),
        ("names, data and dtypes are lists", {"names", "data", "dtypes"},
         "`names`, `data` and `dtypes` are lists"),
        ("gamma and n_rows are used", {"n_rows"}, "gamma and `n_rows` are used"),
        ("the Student t distribution at t", {"t"}, "the Student t distribution at `t`"),
    ],
)  # fmt: skip
def test_marks_stand_about_names_and_no_words(
    text: str, names: set[str], told: str
) -> None:
    assert wording.marked(text, frozenset(names)) == told


def test_the_name_of_the_object_has_no_marks_within_its_summary() -> None:
    told = _told(
        qualified_name="sea.barycenter",
        summary=("Plot the barycenter of a coastal record.",),
    )
    assert told == ["`barycenter` plots the barycenter of a coastal record."]


@pytest.mark.parametrize(
    ("description", "kind"),
    [
        ("A name of the chart that stores depths. Or a function to be called.", ""),
        (
            "A name of the chart that stores depths. Alternatively, a list of depths.",
            "",
        ),
        ("Specifies whether the upper tides should be sorted.", "{callable, 'lhp'}"),
        (
            "Must have the length of the record. The gauges must also lie in order, i.e. rise.",
            "",
        ),
    ],
)
def test_a_part_of_a_meaning_is_refused(description: str, kind: str) -> None:
    assert not [told for told in _of("w", description, kind) if "one of" not in told]


def test_a_word_one_letter_off_a_common_one_of_the_collection_is_refused() -> None:
    item = ApiItem(
        name="w", description="Number of the requred gauges along the coast."
    )
    page = _entry(parameters=(item,))
    others = [
        _document(
            _entry(
                qualified_name=f"sea.f{at}", notes=(f"Required gauges: {at} or less.",)
            )
        )
        for at in range(30)
    ]
    few, many = CorpusTerms(others[:29]), CorpusTerms(others)
    assert many.is_slip("requred")
    assert not few.is_slip("requred")
    assert not many.is_slip("coast")
    assert api.api_facts(page, few)
    assert not api.api_facts(page, many)


def test_what_must_hold_is_read_with_the_name_before_it() -> None:
    assert _of("w", "w must be sorted and positive.") == [
        "`w` must be sorted and positive."
    ]


@pytest.mark.parametrize(
    "description",
    [
        "Indicator of the random state of the waves.",
        "Used for drawing random waves.",
        "Expert option for relaxing the tolerances of gauges.",
        "Directed coasts of the harbour only.",
    ],
)
def test_boilerplate_is_no_meaning(description: str) -> None:
    assert _of("w", description) == []


def test_what_three_pages_say_of_a_parameter_is_no_meaning() -> None:
    item = ApiItem(
        name="w", description="Largest number of tides to read before giving up."
    )
    pages = [
        _document(_entry(qualified_name=f"sea.f{at}", parameters=(item,)))
        for at in range(3)
    ]
    few, many = CorpusTerms(pages[:2]), CorpusTerms(pages)
    assert not few.glosses.is_common(item.name, item.description)
    assert many.glosses.is_common(item.name, item.description)
    assert not many.glosses.is_common("v", item.description)
    assert api.api_facts(_entry(parameters=(item,)), few)
    assert not api.api_facts(_entry(parameters=(item,)), many)


def test_two_errors_are_asked_for_in_the_plural_and_a_warning_apart() -> None:
    raises = (
        ApiItem(name="ValueError", description="If the record is shorter than a day."),
        ApiItem(name="TideError", description="If the harbour has no gauges."),
        ApiItem(
            name="ComplexWarning", description="If the heights have imaginary parts."
        ),
    )
    facts = _facts(raises=raises)
    assert facts[2].sentence == (
        "`tidal_range` gives a ComplexWarning if the heights have imaginary parts."
    )
    assert questions.question_of(_entry(), facts) == (
        "In a call to `tidal_range` from sea.gauges, which errors does `tidal_range` raise, and "
        "when? Which warning does `tidal_range` give, and when?"
    )
    assert "which error does" in questions.question_of(_entry(), facts[:1])


@pytest.mark.parametrize(
    "note",
    [
        "Covariance indicates the level to which two gauges vary together.",  # relation
        "While a record of ten years is exact, a tide of one day is less precise than it.",
        "Waves between the coasts cause errors, because a gauge of the harbour drifts.",
        "If a single gauge is appended, the names need not be lists.",
        "For the default window an overlap of gauges is a reasonable compromise of two aims.",
        "The resulting matrix is a symmetric table of depths without gaps.",
    ],
)
def test_running_text_gives_no_reasons_relations_or_comparisons(note: str) -> None:
    entry = _entry(notes=(note,))
    assert not api.note_facts(entry)
    assert not api.api_facts(entry)


def test_running_text_says_what_a_term_means() -> None:
    (fact,) = api.note_facts(
        _entry(notes=("A neap tide is a tide that has the smallest range.",))
    )
    assert fact.question == "what is a neap tide"


@pytest.mark.parametrize(
    ("description", "told"),
    [
        ("If True, then allow use of paper records.",
         ["If `w` is True, `tidal_range` allows use of paper records."]),
        ("If None, it is assumed that the harbour has no gauge.", []),
        ("If True, records are read in turn, and only the gauges of one coast will be present.",
         ["If `w` is True, records are read in turn."]),
        ("Inserts new lines of depths between records.", []),
        ("Weather to remove the ticks from the chart of depths.", []),
    ],
)  # fmt: skip
def test_a_verb_is_said_of_what_does_it(description: str, told: list[str]) -> None:
    assert _of("w", description) == told


def test_what_only_may_be_is_no_consequence() -> None:
    assert _of("w", "If True, the names may be any lists of depths.") == []


@pytest.mark.parametrize(
    "sentence",
    [
        "If `w` is given, the shape is equal to that of `y`.",
        "In any case, a warning of the harbour is printed.",
        "`x0` is the old origin of the record.",
        "If `w` is omitted, as many as needed are read.",
        "While the record is exact, waves add up.",
    ],
)
def test_what_points_at_nothing_named_is_refused(sentence: str) -> None:
    assert not soundness.is_clear(Fact(_MEANING, sentence))


def test_it_is_no_parameter_that_is_not_given() -> None:
    assert _of("w", "If w is None, then it must be sorted by height.") == []
    told = _of("w", "If w is None, then it is estimated from gauges.")
    assert told == ["If `w` is None, `w` is estimated from gauges."]


def test_a_condition_of_one_method_says_nothing_of_the_object() -> None:
    item = ApiItem(name="bounds", description=".")
    note = "If bounds are not provided, a free line search is used."
    assert len(_told(parameters=(item,), notes=(note,))) == 1
    assert (
        _told(parameters=(item,), notes=(f"Method Powell searches by lines. {note}",))
        == []
    )


def test_two_articles_or_a_way_of_doing_make_no_fact() -> None:
    assert _of("w", "If True, a the contraction of the coast is copied.") == []
    assert _of("w", "Pre-center tidal values by subtracting heights.") == []


def test_the_function_and_the_result_get_their_names() -> None:
    told = _of("w", "If True, the algorithm favors larger harbours.")
    assert told == ["If `w` is True, `tidal_range` favors larger harbours."]
    told = _of("w", "If True, the result is a table of depths.")
    assert told == ["If `w` is True, the result of `tidal_range` is a table of depths."]


@pytest.mark.parametrize(
    ("name", "kind", "description", "default"),
    [
        ("edge_width", "str (default='width')", "", ""),  # a part of the name
        ("node_edge_color", "str (default='edge_color')", "", ""),
        ("loc", "float, default: 0", "Default is 1.", ""),  # two
        (
            "width",
            "str",
            "Default is 'w'. Edges without it have a default width of 1.0.",
            "",
        ),
        ("width", "str", "Default is 1 for a record of one year.", ""),  # of some cases
        ("rtol", "float", "Cannot be smaller than its default value of 4*eps.", ""),
        ("tol", "float, default: 1e-3", "Default is 0.001.", "1e-3"),  # the same twice
    ],
)
def test_a_default_that_the_page_disputes_is_refused(
    name: str, kind: str, description: str, default: str
) -> None:
    item = ApiItem(name=name, kind=kind, description=description)
    assert defaults.default_of(item) == default


def test_a_case_of_a_type_is_asked_for_what_it_means() -> None:
    item = ApiItem(
        name="pad",
        kind="{bool, 'periodic'}",
        description="If bool, determines whether to pad records of the coast.",
    )
    (fact,) = _facts(parameters=(item,))
    assert (
        fact.sentence
        == "If `pad` is a bool, `pad` determines whether to pad records of the coast."
    )
    assert fact.question == "what does `pad` mean if it is a bool"


def test_a_case_of_a_type_that_the_parameter_has_not_is_refused() -> None:
    item = ApiItem(name="values", kind="list", description=".")
    note = "If values is a set of depths, every gauge is read in turn."
    assert _told(parameters=(item,), notes=(note,)) == []


def test_a_class_is_asked_for_what_it_is() -> None:
    entry = _entry(form="class", summary=("Piecewise curve of coastal heights.",))
    facts = api.api_facts(entry)
    assert [fact.sentence for fact in facts] == [
        "`tidal_range` is a piecewise curve of coastal heights."
    ]
    assert (
        questions.question_of(entry, facts)
        == "What is the class `tidal_range` from sea.gauges?"
    )


@pytest.mark.parametrize(
    ("description", "told"),
    [
        ("Array of the sorted heights.", "`w` is an array of the sorted heights."),
        ("Number of the sorted gauges.", "`w` is the number of the sorted gauges."),
    ],
)
def test_what_there_are_many_of_has_the_indefinite_article(
    description: str, told: str
) -> None:
    assert _of("w", description) == [told]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("tuple of int, optional", ["`w` is a tuple of ints."]),
        (
            "float array_like or None",
            ["`w` is an array-like object of floats or None."],
        ),
        ("complex or None", ["`w` is a complex number or None."]),
        (
            "sequence of array_like or int",
            ["`w` is a sequence of array-like objects or an int."],
        ),
        ("bool or list of", []),
        ("list of list of floats", []),
        ("ints", []),
        ("bool", []),  # says little
    ],
)
def test_one_type_is_a_fact_where_it_is_whole(kind: str, told: list[str]) -> None:
    assert _of("w", "", kind) == told


def test_what_a_generator_yields_is_a_fact() -> None:
    item = ApiItem(name="list", description="A list of gauges along the coast.")
    (fact,) = _facts(yields=(item,))
    assert fact.sentence == "`tidal_range` yields a list of gauges along the coast."
    assert fact.question == "what does `tidal_range` yield"


@pytest.mark.parametrize(
    "change",
    [
        {"qualified_name": "sea.distutils.build"},
        {"qualified_name": "sea._gauges.build"},
        {
            "notes": (
                "The class is kept for old code, it is not recommended for new development.",
            )
        },
        {"summary": ("This function is deprecated and its name will go.",)},
    ],
)
def test_a_page_of_an_old_or_private_object_is_left_out(
    change: dict[str, object],
) -> None:
    document = _document(_entry(**change))
    with pytest.raises(StageRefusal) as caught:
        api_fact_drafts(document, CorpusTerms([document]), 1)
    assert caught.value.reason == "not_for_use"


def test_a_note_on_old_input_leaves_the_page_in() -> None:
    note = "Matrices (not recommended for new code) are converted to arrays."
    assert not api.is_unused(_entry(notes=(note,)))
