"""Facts and questions of options, settings and variables, as manuals describe them."""

import pytest

from rubric_synth import Document
from rubric_synth.document import ApiEntry, ApiForm, ApiItem, parse_entry
from rubric_synth.stages.extractive.corpus_terms import CorpusTerms
from rubric_synth.stages.extractive.facts import api
from rubric_synth.stages.extractive.facts.drafts import api_fact_drafts
from rubric_synth.stages.stages import StageRefusal


def _entry(form: ApiForm = "settings", **texts: str) -> ApiEntry:
    items = [ApiItem(name=name, description=text) for name, text in texts.items()]
    return ApiEntry(qualified_name="Canal", form=form, parameters=tuple(items))


def _sentences(name: str, text: str, form: ApiForm = "settings") -> list[str]:
    entry = _entry(form, **{name: text})
    return [fact.sentence for fact in api.api_facts(entry)]


@pytest.mark.parametrize(
    ("form", "name"),
    [("options", "git clone"), ("settings", "Coverage.py"), ("variables", "pip")],
)
def test_an_entry_of_a_manual_is_read_back(form: ApiForm, name: str) -> None:
    item = ApiItem(name="[run] branch", kind="list[str]", description="A: `b`.")
    entry = ApiEntry(qualified_name=name, form=form, parameters=(item, item))

    assert parse_entry(entry.rendered()) == entry
    assert (entry.name, entry.is_of_manual) == (name, True)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "Skip boats that are longer than the lock.",
            "`--x` skips boats that are longer than the lock.",
        ),
        (
            "This option tells the keeper to open the gates at once.",
            "`--x` tells the keeper to open the gates at once.",
        ),
        (
            "Prefix to put before the name of a boat.",
            "`--x` is the prefix to put before the name of a boat.",
        ),
        (
            "With this option, old boats are painted before the lock opens.",
            "If `--x` is given, old boats are painted before the lock opens.",
        ),
        (
            "Count the boats at the gate and exit.",
            "`--x` counts the boats at the gate and exits.",
        ),
        (
            "Specify the version of the language used to parse and check the target.",
            "`--x` specifies the version of the language used to parse and check the target.",
        ),
        (
            "If this is set, the keeper closes the gates at night.",
            "If `--x` is set, the keeper closes the gates at night.",
        ),
        (
            "Do not open or close the gates of the lock.",
            "`--x` does not open or close the gates of the lock.",
        ),
        (
            "Prompt for the name of each boat at the gate.",
            "`--x` prompts for the name of each boat at the gate.",
        ),
        (
            "If given, the lower gate stays closed.",
            "If `--x` is given, the lower gate stays closed.",
        ),
        (
            "Time limit for boats that go up.",
            "`--x` is the time limit for boats that go up.",
        ),
        (
            "Wait for the last boat of the day.",
            "`--x` waits for the last boat of the day.",
        ),
        (
            "Enable the night mode of the lock and attempt to wake the keeper.",
            "`--x` enables the night mode of the lock and attempts to wake the keeper.",
        ),
        (
            "Use the pump of the lock to empty it and recalculate levels.",
            "`--x` uses the pump of the lock to empty it and recalculate levels.",
        ),
    ],
)
def test_what_an_option_does_is_a_fact(text: str, sentence: str) -> None:
    assert _sentences("--x", text, "options") == [sentence]


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ("Default: `False`.", "False"),
        ("Default: `'green'`.", "'green'"),
        ("Default: `info`.", "`info`"),
        ("Defaults to `info`.", "`info`"),
        ("The default is 10 seconds.", "10 seconds"),
        ("The default is 10 by day.", ""),
        ("Default: `a`, `b`.", ""),
        ("Default: `'a'`, `'b'` or `'c'`.", ""),
        ("Default: `5` on Windows.", ""),
        ("Default: `3`. The default is 4 for boats.", ""),
        ("If the wall is dry, then the default is 4.", ""),
        ("If unset, the default is 4.", "4"),
        ("Default: `N/A`.", ""),
        ("Default: `'-'`.", ""),
        ("Default: the level of the sea.", ""),
        ("With Canal 2.8 and earlier the default is `ipv4`.", ""),
        ("Before version 3 the default is 7.", ""),
        ("The default is 7. Before version 3 gates were of wood.", "7"),
        ("Default: `5` (`20` on Windows).", ""),
        ("Default: `5` (20 if the lock is deep).", ""),
        ("Default: `1800` (30 minutes).", "1800"),
        ("It is like `bell`, whose default is `10`.", ""),
        ("Defaults to the value of `bell`, by default `low`.", ""),
        ("The mark. Default: `gate_mark`.", ""),
    ],
)
def test_a_default_is_one_value_that_the_text_states(text: str, default: str) -> None:
    expected = [f"By default `gate_mark` is {default}."] if default else []

    assert _sentences("gate_mark", text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Bind to a socket, for example `--uds /tmp/ a.sock`.",  # a repair would cut the code
        "Close the gate after `X` boats have passed the lock.",
        "Be quiet after a boat has passed the lock.",
        "Silent mode.",
        "Optionally set by the keeper to hold the names of the boats.",
        "Paint the walls that are old, but which become dry at night.",
        "Set to false to leave out the bell of the lock.",
        "Commit objects record the colour of the wall in their header.",
        "If given, rename detection is disabled.",
        "Should the names of boats saved as text or as marks.",
        "If it is set, the name of the lock comes from the wall.",
        "Gongs boats that wait at the upper gate.",
        "Paint the wall of the lock in green, but only if it is dry.",
        "Consider a boat as lost, when it does not come back, and a week has passed.",
        "The limit for a boat to pass the lock, or zero (as long as it takes).",
        "The width of a new gate, do not touch the old gates of the lock.",
        "Write the names of all boats, and one line of key: value output for each.",
    ],
)
def test_half_a_meaning_or_code_that_is_cut_makes_no_fact(text: str) -> None:
    assert _sentences("--x", text, "options") == []


def test_the_question_names_the_program_and_the_objects() -> None:
    entry = _entry(
        gate_width="The distance between the walls at the narrow end. Default: `7`.",
        bell="Open the upper gate before the boats arrive. Default: `true`.",
    )
    document = Document(
        title="Settings of Canal: gate_width to bell",
        text=entry.rendered(),
        source="docs/settings.rst#gate_width",
        kind="api",
    )
    (draft,) = api_fact_drafts(document, CorpusTerms([document]), 3)

    assert draft.question == (
        "Among the settings of Canal, what do `gate_width` and `bell` mean? "
        "What are the defaults of `gate_width` and `bell`?"
    )
    assert draft.reference_answer == (
        "`gate_width` is the distance between the walls at the narrow end. "
        "By default `gate_width` is 7. "
        "`bell` opens the upper gate before the boats arrive. By default `bell` is `true`."
    )
    assert [criterion.required_elements for criterion in draft.criteria] == [
        (),
        ("7",),
        (),
        ("true",),
    ]


def test_defaults_with_one_meaning_make_no_question() -> None:
    entry = _entry(
        a="The distance between the walls at the narrow end. Default: `7`.",
        b="Default: `8`.",
        c="Default: `9`.",
    )
    document = Document(title="a", text=entry.rendered(), source="a", kind="api")

    with pytest.raises(StageRefusal, match="too_few_facts"):
        api_fact_drafts(document, CorpusTerms([document]), 3)
