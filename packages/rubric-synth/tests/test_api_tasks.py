import anyio
import pytest

from rubric_core import CriterionKind, DocumentAnalysis, normalized_reward
from rubric_judge import ClaimJudge
from rubric_judge.quality.wrong_answers import fixed_template
from rubric_synth import (
    Document,
    Draft,
    ExtractiveConfig,
    StageRefusal,
    extractive_stages,
)
from rubric_synth.document import ApiEntry, ApiItem, parse_entry
from rubric_synth.quality.draft import to_task
from rubric_synth.sources.docstrings import read_docstring
from rubric_synth.stages.extractive.facts import api, defaults, wording

_ENTRY = ApiEntry(
    qualified_name="sea.gauges.tidal_range",
    summary=(
        "Compute the mean spring amplitude of a coastal station from gauge levels.",
    ),
    parameters=(
        ApiItem(
            name="levels", kind="array_like", description="Water heights of every hour."
        ),
        ApiItem(
            name="datum",
            kind="{'chart', 'mean'}, optional",
            description="Reference surface of the heights. If 'mean', the mean of a year is used. "
            "Default is 'chart'.",
        ),
        ApiItem(name="axis", kind="int", description=""),
        ApiItem(name="gap", kind="float", description="Of all."),
    ),
    returns=(
        ApiItem(
            name="range", kind="float", description="The vertical excursion in metres."
        ),
    ),
    raises=(
        ApiItem(name="ValueError", description="If the record is shorter than a day."),
    ),
    notes=(
        "Storm surges are not removed, because they belong to the record of the station.",
    ),
)


_PURPOSE = "computes the mean spring amplitude of a coastal station from gauge levels"


def _document(entry: ApiEntry) -> Document:
    name = entry.qualified_name
    return Document(
        title=name, text=entry.rendered(), source=f"python:{name}", kind="api"
    )


def _drafts(entry: ApiEntry, config: ExtractiveConfig | None = None) -> list[Draft]:
    document = _document(entry)
    stages = extractive_stages([document], config or ExtractiveConfig())

    async def make() -> list[Draft]:
        analysis = await stages.analyst.analyse(document)
        drafts = await stages.synthesiser.synthesise(document, analysis)
        return [draft for draft in drafts if isinstance(draft, Draft)]

    return anyio.run(make)


def _draft(entry: ApiEntry) -> Draft:
    return _drafts(entry)[0]


def _sentences(**change: object) -> list[str]:
    return [fact.sentence for fact in api.api_facts(_ENTRY.model_copy(update=change))]


def _of(name: str, description: str, kind: str = "") -> list[str]:
    """Return the facts of one parameter."""
    item = ApiItem(name=name, kind=kind, description=description)
    others = (ApiItem(name="x", description="."), ApiItem(name="y_0", description="."))
    return _sentences(
        summary=(), parameters=(item, *others), returns=(), raises=(), notes=()
    )


def test_the_question_asks_by_name_for_what_the_criteria_want() -> None:
    draft = _draft(_ENTRY)
    assert draft.question == (
        "What does `tidal_range` from sea.gauges do? What do `levels` and `datum` mean? What is "
        "the default of `datum`? Which values may `datum` take? What happens if `datum` is "
        "'mean'? What does `tidal_range` return? Which error does it raise, and when?"
    )
    assert "`axis`" not in draft.question  # nothing is said of it


def test_every_criterion_states_a_claim() -> None:
    draft = _draft(_ENTRY)
    assert [criterion.description for criterion in draft.criteria] == [
        f"Says that `tidal_range` {_PURPOSE}.",
        "Says that `levels` holds the water heights of every hour.",
        "Says that `datum` is the reference surface of the heights.",
        "Says that by default `datum` is 'chart'.",
        "Says that `datum` is one of 'chart' or 'mean'.",
        "Says that if `datum` is 'mean', the mean of a year is used.",
        "Says that `tidal_range` returns, as a float, the vertical excursion in metres.",
        "Says that `tidal_range` raises ValueError if the record is shorter than a day.",
    ]
    kinds = {criterion.kind for criterion in draft.criteria}
    assert {
        CriterionKind.DEFAULT,
        CriterionKind.CHOICES,
        CriterionKind.CONDITION,
    } <= kinds


def test_the_reference_answer_earns_all_and_a_template_next_to_nothing() -> None:
    draft = _draft(_ENTRY)
    task = to_task(_document(_ENTRY), DocumentAnalysis(), draft)

    def reward(answer: str) -> float:
        return normalized_reward(
            ClaimJudge().judge_now(task.judge_view(answer)), task.rubric
        )

    assert reward(draft.reference_answer) >= 0.9
    assert reward("") == 0.0
    assert reward(fixed_template(draft.question)) <= 0.2


def test_facts_beyond_those_of_one_question_make_another() -> None:
    more = tuple(
        ApiItem(
            name=f"part_{n}",
            kind="int, optional",
            description=f"{word} of the record that enters the mean. If None, all {word.lower()}s "
            "are used. Default is None.",
        )
        for n, word in enumerate(("Year", "Month", "Week"))
    )
    entry = _ENTRY.model_copy(update={"parameters": (*_ENTRY.parameters, *more)})
    first, second = _drafts(entry)
    described = {c.description for c in first.criteria} & {
        c.description for c in second.criteria
    }
    assert not described
    assert len(_drafts(entry, ExtractiveConfig(questions_per_document=1))) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"parameters": (), "raises": ()}, "no_parameters"),
        ({"summary": (), "notes": ()}, "too_few_facts"),
    ],
)
def test_an_entry_that_says_too_little_is_refused(
    change: dict[str, object], reason: str
) -> None:
    few = {"parameters": _ENTRY.parameters[2:], "raises": (), **change}
    with pytest.raises(StageRefusal) as caught:
        _draft(_ENTRY.model_copy(update=few))
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("description", "told"),
    [
        (
            "Tolerance of the residual per step.",
            "is the tolerance of the residual per step",
        ),
        ("A list of the years to leave out.", "is a list of the years to leave out"),
        ("Whether to remove the trend.", "says whether to remove the trend"),
        ("Specifies how gaps are filled.", "specifies how gaps are filled"),
        ("Should be sorted and positive.", "should be sorted and positive"),
    ],
)
def test_descriptions_become_sentences(description: str, told: str) -> None:
    assert _of("w", description) == [f"`w` {told}."]


@pytest.mark.parametrize(
    ("description", "told"),
    [
        ("If True, return the phase.", "If `w` is True, `tidal_range` returns the phase."),
        ("If this is set to False, no mean is removed.", "If `w` is False, no mean is removed."),
        ("If an integer, represents the number of years.",
         "If `w` is an integer, `w` represents the number of years."),
    ],
)  # fmt: skip
def test_conditions_get_their_subjects(description: str, told: str) -> None:
    assert _of("w", description) == [told]


@pytest.mark.parametrize(
    "description",
    [
        "W.",  # its own name
        "Input array.",
        "Return a reader of the lines.",  # a command, and no phrase
        "Raise if an accessor does not exist.",
        "See the notes of the other function.",
        "Suppose that the callable has another signature.",
        "Used in this case only.",
        "If you know them, the levels of the gauges.",
        "Value h of the surface between two samples.",  # a letter of the page
        "If x.shape is known, the rest follows.",
    ],
)
def test_what_a_description_does_not_say_is_no_fact(description: str) -> None:
    assert _of("w", description) == []


@pytest.mark.parametrize(
    "description",
    [
        "Sort a list of stations by their height.",  # commands
        "Enable/disable grid in the chart of depths.",
        "Re-chart the depth of every buoy.",
        "Once the tide has turned, try to read the gauge.",
        "Only keep every nth gauge of the record.",
        "False (default) read the gauge by radio; True read the paper rolls.",  # choices
        "'rolls' for paper records of the station.",
        "Weather record, as told by.",  # a cut
        "Codes of the older stations/and so on",
        "Records of :class:Station kept since the war.",  # marks of the source
        "Apply w to perform the operation.",  # light words
    ],
)
def test_commands_cuts_and_choices_say_no_meaning(description: str) -> None:
    assert not [
        told for told in _of("w", description) if not told.startswith("By default")
    ]


@pytest.mark.parametrize(
    ("name", "description"),
    [
        ("pad_mode", "Padding mode for centered analysis."),
        ("reg", "The regularisation operator."),
        ("sigmas", "The sigma-levels to find."),
        ("estimate_gap", "Whether to perform gap estimation."),
    ],
)
def test_a_name_said_again_is_no_meaning(name: str, description: str) -> None:
    assert _of(name, description) == []


def test_a_default_behind_by_default_is_a_fact_of_its_own() -> None:
    assert _of(
        "w", "Part of the coast where gauges stand, by default the northern shore"
    ) == [
        "`w` is the part of the coast where gauges stand.",
        "By default `w` is the northern shore.",
    ]


def test_a_default_of_none_and_what_none_does_are_two_facts() -> None:
    told = _of("w", "If None, the gauges of every harbour are read. Default is None.")
    assert told == [
        "By default `w` is None.",
        "If `w` is None, the gauges of every harbour are read.",
    ]


def test_values_in_a_description_are_choices() -> None:
    told = _of("w", "Must be 'rolls', 'radio' or 'diver'.")
    assert "`w` is one of 'rolls', 'radio' or 'diver'." in told


def test_several_results_are_told_with_their_places() -> None:
    results = (
        ApiItem(name="a", description="The heights of the spring tides."),
        ApiItem(name="b", description="The moments of the neap tides."),
    )
    told = _sentences(summary=(), parameters=(), returns=results, raises=(), notes=())
    assert told == [
        "`tidal_range` returns the heights of the spring tides, as the first of two results.",
        "`tidal_range` returns the moments of the neap tides, as the second of two results.",
    ]


def test_a_label_before_a_result_is_not_the_result() -> None:
    results = (
        ApiItem(
            name="a", description="Newlyn's method: Heights of the gauges in metres."
        ),
    )
    told = _sentences(summary=(), parameters=(), returns=results, raises=(), notes=())
    assert told == ["`tidal_range` returns the heights of the gauges in metres."]


@pytest.mark.parametrize(
    ("description", "told"),
    [
        ("The record is shorter than a day.", ["if the record is shorter than a day"]),
        ("If needed.", []),
        ("Wrong input.", []),
    ],
)
def test_an_error_needs_a_clause_of_its_own(description: str, told: list[str]) -> None:
    raises = (ApiItem(name="ValueError", description=description),)
    found = _sentences(summary=(), parameters=(), returns=(), raises=raises, notes=())
    assert found == [f"`tidal_range` raises ValueError {one}." for one in told]


@pytest.mark.parametrize(
    "note",
    ["If needed, the record is downloaded.", "When using a diver, one day is enough."],
)
def test_a_condition_has_a_subject_and_a_verb(note: str) -> None:
    assert not _sentences(
        summary=(), parameters=(), returns=(), raises=(), notes=(note,)
    )


def test_a_page_for_nobody_makes_no_task() -> None:
    note = "You should never need to instantiate it directly."
    with pytest.raises(StageRefusal, match="directly"):
        _draft(_ENTRY.model_copy(update={"notes": (note,)}))


@pytest.mark.parametrize(
    ("description", "kind", "default"),
    [
        ("Default is 0.5.", "", "0.5"),
        ("Default (True).", "", "True"),
        ("", "{'linear' (default), 'cubic'}", "'linear'"),
        ("", "float, default: 1e-3", "1e-3"),
        ("", "str, default='full'", "'full'"),
        ("Defaults to w=-1.", "", "-1"),
        ("Defaults to axis=-1.", "", ""),  # of another parameter
        ("Default is 100*eps.", "", ""),  # no value cut out of an expression
        ("Default is the last axis.", "", ""),
        ("Options of the solver. tol : float (default: 1e-8)", "dict", ""),  # of a key
    ],
)
def test_a_default_is_a_whole_value(description: str, kind: str, default: str) -> None:
    assert (
        defaults.default_of(ApiItem(name="w", kind=kind, description=description))
        == default
    )


def test_parameters_with_one_description_are_one_item() -> None:
    text = "Lower and upper limits of the search."
    items = (
        ApiItem(name="lo_0", description=text),
        ApiItem(name="hi_0", description=text),
    )
    (told,) = _sentences(summary=(), parameters=items, returns=(), raises=(), notes=())
    assert (
        told
        == "`lo_0` and `hi_0` are the lower and upper limits of the search, in this order."
    )


def test_what_a_page_says_twice_is_one_fact() -> None:
    told = _sentences(
        summary=("Return the least-squares solution of a linear system.",),
        returns=(ApiItem(name="x", description="Least-squares solution of the linear system."),),
        parameters=(), raises=(), notes=(),
    )  # fmt: skip
    assert len(told) == 1


def test_a_second_result_needs_a_first() -> None:
    results = (
        ApiItem(name="a", description="An object with the following attributes:"),
        ApiItem(name="b", description="The number of iterations of the search."),
    )
    assert not _sentences(
        summary=(), parameters=(), returns=results, raises=(), notes=()
    )


@pytest.mark.parametrize(
    ("summary", "predicate"),
    [
        ("Compute the range of a tide", "computes the range of a tide"),
        ("Computes the range of a tide", "computes the range of a tide"),
        ("Find, sort and return the peaks", "finds, sorts and returns the peaks"),
        ("Efficiently apply a filter", "efficiently applies a filter"),
        ("Bessel function of the first kind", ""),
    ],
)
def test_a_summary_becomes_a_predicate(summary: str, predicate: str) -> None:
    assert wording.as_predicate(summary) == predicate


@pytest.mark.parametrize(
    "summary",
    [
        "Tidal range.",
        "Forward 1D harmonic analysis.",
        "State space to transfer function.",
        "See the other function.",
    ],
)
def test_a_summary_without_a_statement_is_no_fact(summary: str) -> None:
    assert not _sentences(
        summary=(summary,), parameters=(), returns=(), raises=(), notes=()
    )


def test_names_of_parameters_are_marked_unless_they_are_words() -> None:
    names = frozenset({"y_0", "xdata", "order", "a"})
    told = wording.marked("the order of xdata and of a, as y_0", names)
    assert told == "the order of `xdata` and of `a`, as `y_0`"


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (
            "{None, 'armijo' (default), 'wolfe'}, optional",
            "one of None, 'armijo' or 'wolfe'",
        ),
        ("str, optional (default='a')", None),
        ("{True, False, 'upper'}", "one of True, False or 'upper'"),
        ("{'2-point', '3-point', callable}", None),  # a callable may stand there too
        ("{None, array_like, 'jac'}", None),
        ("{0, 1, 'a', 'b'}", None),
        ("'r' | 'w'", "one of 'r' or 'w'"),
        ("{'k', '.', '-'}", None),  # no answer can be searched for a full stop
    ],
)
def test_allowed_values_are_all_that_the_type_allows(
    kind: str, told: str | None
) -> None:
    found = [one for one in _of("search", "", kind) if "one of" in one]
    assert found == ([] if told is None else [f"`search` is {told}."])


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("None or str", "None or a str"),
        ("int or tuple of ints, optional", "an int or a tuple of ints"),
        (
            "array_like, float, or ndarray",
            "an array-like object, a float or an ndarray",
        ),
    ],
)
def test_types_are_told_with_their_articles(kind: str, told: str) -> None:
    assert f"`search` is {told}." in _of("search", "", kind)


def test_an_error_that_is_told_as_a_condition_too_is_one_fact() -> None:
    told = _sentences(
        summary=(),
        raises=(
            ApiItem(name="CycleError", description="If no negative cycle is found."),
        ),
        notes=("If the graph has no negative cycle, a CycleError is raised.",),
    )
    assert sum("negative cycle" in one for one in told) == 1


@pytest.mark.parametrize(
    ("summary", "told"),
    [
        (
            "Utility for creating a random expander graph.",
            "`tidal_range` is a utility for",
        ),
        (
            "Digital filter order selection.",
            "performs the digital filter order selection",
        ),
        (
            "Spring amplitude of a coastal station.",
            "`tidal_range` gives the spring amplitude of",
        ),
        (
            "The Anderson test of many samples.",
            "performs the Anderson test of many samples",
        ),
        (
            "Locally Optimal Block Method of station data.",
            "is a Locally Optimal Block Method",
        ),
    ],
)
def test_a_title_gets_the_verb_that_fits_its_noun(summary: str, told: str) -> None:
    assert told in _sentences(summary=(summary,))[0]


def test_it_stands_for_what_the_condition_is_about() -> None:
    told = "When y_0 has dimension greater than 1, it is viewed as a collection of vectors."
    (found,) = _of("caxis", f"Axis to use. {told}")[-1:]
    assert found.startswith(
        "When `y_0` has dimension greater than 1, `y_0` is viewed as"
    )


def test_what_a_generator_yields_is_not_what_it_returns() -> None:
    item = ApiItem(name="dict", description="Mapping between the nodes of two graphs.")
    entry = _ENTRY.model_copy(update={"returns": (), "yields": (item,)})
    assert "## Yields" in entry.rendered()
    assert parse_entry(entry.rendered()) == entry
    assert not any("returns" in fact.sentence for fact in api.api_facts(entry))


@pytest.mark.parametrize(
    "docstring",
    [
        "Walk.\n\nParameters\n----------\nn : int\n    Steps.\n\nYields\n------\nint\n    Places.",
        "Walk.\n\nArgs:\n    n (int): Steps.\n\nYields:\n    int: Places.\n",
        "Walk.\n\n:param n: Steps.\n:yields: Places.\n",
    ],
)
def test_every_layout_of_docstrings_has_what_is_yielded(docstring: str) -> None:
    entry = read_docstring(docstring, qualified_name="a.walk", form="function")
    assert entry.returns == ()
    assert [item.description for item in entry.yields] == ["Places."]


@pytest.mark.parametrize(
    "description",
    [
        "Scale of the values. Must be chosen carefully.",
        "Edges shared by the nodes of each respective group.",
        "An undirected version of the original graph.",
        "The estimated slope slope of a line.",
    ],
)
def test_what_says_nothing_or_points_elsewhere_is_no_fact(description: str) -> None:
    told = _of("value", description)
    assert not any(
        word in one
        for one in told
        for word in ("carefully", "respective", "original", "slope")
    )
