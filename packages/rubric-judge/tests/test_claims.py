"""What an answer says of a claim: stated in other words, contradicted, or left out."""

import json
import textwrap
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from rubric_core import (
    Criterion,
    CriterionKind,
    Grounding,
    Outcome,
    Reason,
    Rubric,
    Task,
    write_tasks,
)
from rubric_judge import ClaimConfig, ClaimJudge, LexicalJudge, load_judge
from rubric_judge.cli import main
from rubric_judge.judges.claims import lexicon
from rubric_judge.judges.claims.claim import claim_of, is_empty
from rubric_judge.judges.claims.reading import sentences

LATTICE = "the lattice energy increases as the charges of the ions increase"
PASSAGE = (
    "The lattice energy increases as the charges of the ions increase. "
    "Melting the crystal takes 769 kJ per mole. "
    "By default `side` is 'left'. Only one package may be given for a model. "
    "The first two dimensions of the input must be square."
)


def scored(
    claim: str, answer: str, *required: str, kind: CriterionKind | None = None
) -> float:
    criterion = Criterion(
        id="c",
        weight=1,
        description=f"Says that {claim}.",
        required_elements=required,
        kind=kind,
    )
    task = Task(
        question="What should one know about `sort` with `side`?",
        grounding=Grounding(PASSAGE),
        rubric=Rubric(criteria=(criterion,)),
    )
    result = ClaimJudge().judge_now(task.judge_view(answer))
    assert result.scores is not None
    return result.scores["c"]


@pytest.mark.parametrize(
    ("claim", "right", "wrong", "required"),
    [
        (
            "the lattice energy increases as the charges of the ions increase",
            "The lattice energy grows when the ions have larger charges.",
            "The lattice energy decreases as the charges of the ions increase.",
            (),
        ),
        (
            "melting the crystal takes 769 kJ per mole",
            "One needs about 769 kJ to melt a mole of the crystal.",
            "Melting the crystal takes 43 kJ per mole.",
            ("769",),
        ),
        (
            "by default `side` is 'left'",
            "`side` is 'left' unless you say otherwise, which is the default.",
            "By default `side` is 'right'.",
            ("'left'",),
        ),
        (
            "only one package may be given for a model",
            "A model may be given only a single package.",
            "Several packages may be given for a model.",
            (),
        ),
        (
            "the first two dimensions of the input must be square",
            "The input must be square in its first two dimensions.",
            "The last two dimensions of the input must be square.",
            (),
        ),
        (
            "the first two dimensions of the input must be square",
            "The input must be square in its first two dimensions.",
            "The first two dimensions of the input must not be square.",
            (),
        ),
    ],
)
def test_other_words_are_right_and_the_same_words_can_be_wrong(
    claim: str, right: str, wrong: str, required: tuple[str, ...]
) -> None:
    assert scored(claim, right, *required) > 0.5
    assert scored(claim, wrong, *required) == 0


def test_an_element_with_alternatives_leaves_the_words_of_the_claim_alone() -> None:
    claim = "by default `side` is False"
    assert scored(claim, "By default `side` is False.", "False|off") == 1


@pytest.mark.parametrize("value", ["zeros", "onesided", "hamming", "magnitude"])
def test_a_string_is_the_required_word_with_quotes_and_without(value: str) -> None:
    claim = f"by default `padding` is '{value}'"

    assert scored(claim, f"By default `padding` is '{value}'.", value) == 1
    assert scored(claim, f"By default `padding` is {value}.", value) == 1
    assert scored(claim, "By default `padding` is 'edge'.", value) == 0


def test_an_answer_that_only_names_things_earns_nothing() -> None:
    claim = "melting the crystal takes 769 kJ per mole"
    assert scored(claim, "`sort` and `side` are widely used in practice.", "769") == 0


def test_the_result_says_what_contradicts() -> None:
    claim = "the lattice energy increases as the charges of the ions increase"
    rubric = Rubric(
        criteria=(Criterion(id="c", weight=1, description=f"Says that {claim}."),)
    )
    task = Task(question="Why?", grounding=Grounding(PASSAGE), rubric=rubric)
    answer = "The lattice energy decreases as the charges of the ions increase."
    result = ClaimJudge().judge_now(task.judge_view(answer))
    assert "contradicted" in (result.reasoning or "")
    assert "decreases" in (result.reasoning or "")


def test_the_same_text_gets_the_same_score() -> None:
    claim = "only one package may be given for a model"
    answer = "A model may be given one package."
    assert len({scored(claim, answer) for _ in range(3)}) == 1


def test_a_configuration_names_the_judge() -> None:
    assert isinstance(load_judge(ClaimConfig()), ClaimJudge)


def test_the_fingerprint_is_of_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ClaimJudge().fingerprint
    assert ClaimJudge().fingerprint == before
    monkeypatch.setattr(lexicon, "_TABLES", ("grammar.toml",))
    lexicon.fingerprint.cache_clear()
    try:
        assert ClaimJudge().fingerprint != before
    finally:
        monkeypatch.undo()
        lexicon.fingerprint.cache_clear()


def test_reasons_name_the_sentence_what_is_missing_and_what_is_wrong() -> None:
    criteria = (
        Criterion(
            id="more", weight=1,
            description=f"Says that {LATTICE}.",
        ),
        Criterion(
            id="melting", weight=1,
            description="Says that melting the crystal takes 769 kJ per mole.",
            required_elements=("769",),
        ),
        Criterion(id="side", weight=1, description="Says that by default `side` is 'left'."),
        Criterion(id="why", weight=1, description="Explains sorts.", required_elements=("sort",)),
    )  # fmt: skip
    task = Task(
        question="What should one know?",
        grounding=Grounding(PASSAGE),
        rubric=Rubric(criteria=criteria),
    )
    answer = (
        "The lattice energy decreases as the charges of the ions increase. "
        "Melting a mole of crystal takes energy."
    )
    reasons = dict(
        line.split(": ", 1)
        for line in (
            ClaimJudge().judge_now(task.judge_view(answer)).reasoning or ""
        ).splitlines()
    )
    assert reasons["more"].startswith(
        "contradicted 0.00 in “The lattice energy decreases"
    )
    assert "“decreases” against “increases”" in reasons["more"]
    assert reasons["melting"].startswith("stated 0.")
    assert "without the required 769" in reasons["melting"]
    assert reasons["side"] == "absent 0.00"
    assert reasons["why"] == "states no claim, scored by its words"
    (against,) = [
        why for what, why in reasons.items() if what.startswith("against the source")
    ]
    assert "“decreases” against “increases”" in against


def test_the_command_shows_the_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    criterion = Criterion(
        id="c", weight=1, description="Says that by default `side` is 'left'."
    )
    rubric = Rubric(criteria=(criterion,))
    task = Task(question="What is `side`?", grounding=Grounding(PASSAGE), rubric=rubric)
    write_tasks(tmp_path / "tasks.jsonl", [task])
    response = json.dumps(
        {"task_id": task.task_id, "response": "`side` is 'left' by default."}
    )
    (tmp_path / "answers.jsonl").write_text(f"{response}\n")
    (tmp_path / "judge.yaml").write_text("type: claims\n")
    files = [str(tmp_path / name) for name in ("tasks.jsonl", "answers.jsonl")]
    more = [
        "--judge",
        str(tmp_path / "judge.yaml"),
        "--out",
        str(tmp_path / "judged.jsonl"),
    ]
    monkeypatch.setattr(
        "sys.argv", ["rubric-judge", "score", *files, *more, "--show", "1"]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    shown = capsys.readouterr().out
    assert (
        "line 1: reward 1.0000\nc: stated 1.00 in “`side` is 'left' by default.”"
        in shown
    )


def test_phrases_of_bounds_are_opposites() -> None:
    claim = "the array needs at least three axes"
    assert scored(claim, "The array needs three axes or more.") > 0.5
    assert scored(claim, "The array needs at most three axes.") == 0


def test_failing_to_do_something_denies_it_and_failing_alone_does_not() -> None:
    claim = "the search returns an index for an empty list"
    assert scored(claim, "The search returns an index where the list is empty.") > 0.5
    assert scored(claim, "The search fails to return an index for an empty list.") == 0


@pytest.mark.parametrize(
    ("claim", "denied"),
    [
        (
            "if `side` is not given, the last side is used",
            "if `side` is not given, the last side is not used",
        ),
        (
            "if `side` is None, the image has a single side",
            "if `side` is None, the image does not have a single side",
        ),
        (
            "unlike lead, tin takes no coat of lead in damp air",
            "unlike lead, tin takes a coat of lead in damp air",
        ),
        (
            "an annex is a house that is not part of the main house",
            "an annex is a house that is part of the main house",
        ),
        (
            "the flag tells whether or not the pump is a tidal pump",
            "the flag does not tell whether the pump is a tidal pump",
        ),
    ],
)
def test_a_sentence_that_denies_a_part_does_not_deny_itself(
    claim: str, denied: str
) -> None:
    task = Task(
        question="What should one know about it?",
        grounding=Grounding(f"{claim[0].upper()}{claim[1:]}."),
        rubric=Rubric(
            criteria=(Criterion(id="c", weight=1, description=f"Says that {claim}."),)
        ),
    )
    result = ClaimJudge().judge_now(task.judge_view(f"{claim}."))
    assert result.scores == {"c": 1.0}, result.reasoning
    other = ClaimJudge().judge_now(task.judge_view(f"{denied}."))
    assert other.scores == {"c": 0.0}, other.reasoning


@pytest.mark.parametrize(
    ("description", "is_claim", "empty"),
    [
        ("Says that the search ends at the first match.", True, False),
        ("States that `axis` is 0.", True, False),
        ("Says that it is so.", True, True),
        ("Says that it matters.", True, True),
        ("Explains why the search ends.", False, False),
    ],
)
def test_a_criterion_states_a_claim_or_an_empty_one_or_none(
    description: str, *, is_claim: bool, empty: bool
) -> None:
    claim = claim_of(Criterion(id="c", weight=1, description=description))
    assert bool(claim) == is_claim
    assert (bool(claim) and is_empty(claim)) == empty


def _mixed(*criteria: Criterion) -> Task:
    claim = Criterion(id="claim", weight=1, description=f"Says that {LATTICE}.")
    return Task(
        question="What melts the salt?",
        grounding=Grounding(PASSAGE),
        rubric=Rubric(criteria=(claim, *criteria)),
    )


@pytest.mark.parametrize(
    ("method", "holds"),
    [
        ("numeric: 769 ± 1", "It is 769."),
        ("regex: 76\\d", "It is 769."),
        ("contains_all: heat | mole", "The heat of a mole is not known to me."),
    ],
)
def test_what_a_program_can_check_is_checked_whatever_its_description_says(
    method: str, holds: str
) -> None:
    checked = Criterion(
        id="checked",
        weight=1,
        description="Says that melting the crystal takes 769 kJ per mole.",
        verification_method=method,
    )
    task = _mixed(checked)

    for answer, score in (
        (holds, 1.0),
        ("Melting the crystal takes much energy.", 0.0),
    ):
        view = task.judge_view(answer)
        found, words = ClaimJudge().judge_now(view), LexicalJudge().judge_now(view)
        assert found.scores["checked"] == words.scores["checked"] == score


@pytest.mark.anyio
@pytest.mark.parametrize(
    "says", ["Says that the heat is 769 kJ per mole.", "Gives the heat."]
)
async def test_a_check_that_cannot_be_executed_makes_no_number(says: str) -> None:
    broken = Criterion(
        id="broken", weight=1, description=says, verification_method="numeric: much"
    )
    view = _mixed(broken).judge_view("The heat is 769 kJ per mole.")

    for found in (ClaimJudge().judge_now(view), await ClaimJudge().judge(view)):
        assert (found.outcome, found.reason) == (
            Outcome.UNAVAILABLE,
            Reason.JUDGE_ERROR,
        )
        assert (found.judge, "broken" in (found.detail or "")) == ("claims_v2", True)


@pytest.mark.anyio
async def test_a_slow_pattern_scores_zero_and_holds_up_nobody() -> None:
    slow = Criterion(id="slow", weight=1, verification_method="regex: (a+)+$")
    judge = ClaimJudge(ClaimConfig(regex_timeout_s=0.05))
    view = _mixed(slow).judge_view(f"{LATTICE.capitalize()}. {'a' * 3000}!")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        found = await judge.judge(view)
        assert (found.scores["slow"], found.scores["claim"] > 0.5) == (0.0, True)
        group.cancel_scope.cancel()

    assert ticks > 5  # the event loop went on while another process searched


def test_other_settings_of_what_reads_words_are_another_judge() -> None:
    one, other = (
        ClaimJudge(ClaimConfig(regex_timeout_s=t)).fingerprint for t in (0.25, 1.0)
    )
    assert one != other


@pytest.mark.parametrize(
    "said",
    [
        "Lattice energy, charges, ions, increase, as, salt, melting, package.",
        "- lattice energy\n- charges\n- ions\n- increase",
        "The increases of as the the ions energy lattice charges of increase.",
        "It is not true that the lattice energy increases as the charges of the ions increase.",
        "It is a common mistake to think that the lattice energy increases with the charges.",
        "None of the following is right. The lattice energy increases as the charges increase.",
    ],
    ids=["list", "items", "no order", "not true", "mistake", "none"],
)
def test_lists_words_in_no_order_and_what_is_taken_back_state_nothing(
    said: str,
) -> None:
    assert scored(LATTICE, said) == 0


@pytest.mark.parametrize(
    ("said", "credit"),
    [
        ("`--quiet` disables SMTP chat logging.", 1),
        ("- `--quiet`: disables SMTP chat logging", 1),
        ("`--quiet` enables SMTP chat logging.", 0),
        ("`--quiet`, SMTP, chat logging, disables, mailer.", 0),
        ("`--quiet` disables SMTP, chat, logging, mailer, server.", 0),
        ("SMTP chat disables logging `--quiet` mailer.", 0),
        ("SMTP chat logging mailer server.", 0),
        ("`--quiet` SMTP chat mailer disables logging.", 0),
    ],
)
def test_a_name_and_its_verb_are_a_sentence_without_function_words(
    said: str, credit: float
) -> None:
    assert scored("`--quiet` disables SMTP chat logging", said) == credit


_KEY = "`--key` takes the hexadecimal (no leading 0x) shared secret of the lock"
_SIZE = "`--size` must be a multiple of the sector, but not larger than 64KiB"


@pytest.mark.parametrize(
    ("claim", "said", "credit"),
    [
        (_KEY, "`--key` is the shared secret of the lock, in digits with no 0x.", 1),
        ("by default `--depth` is 0", "The key has no leading 0x.", 0),
        (_SIZE, "`--size` is a multiple of the sector and at most 64 KiB.", 1),
        (_SIZE, "`--size` is a multiple of the sector and at least 64 KiB.", 0),
        (_SIZE, "`--size` is a multiple of the sector, but not larger than 16 KiB.", 0),
        ("by default `-s` is 1", "By default `-r` is 1.", 0),
        ("by default `-s` is 1", "By default `-s` is 1.", 1),
        (
            "`-r` runs many sessions in parallel",
            "`-s` runs many sessions in parallel.",
            0,
        ),
    ],
)
def test_options_are_names_and_prefixes_no_numbers(
    claim: str, said: str, credit: float
) -> None:
    kept = (
        "By default `-s` is 1. By default `-r` is 1. "
        "The default of `--size` is 16 KiB, and sizes are not larger than one page. "
    )
    criteria = (
        Criterion(id="c", weight=1, description=f"Says that {claim}."),
        Criterion(id="s", weight=1, description="Says that `-s` shows sizes."),
    )
    task = Task(
        question="What do the options do?",
        grounding=Grounding(f"{kept}{claim}."),
        rubric=Rubric(criteria=criteria),
    )
    result = ClaimJudge().judge_now(task.judge_view(said))
    assert result.scores["c"] == credit


def test_an_answer_of_which_half_is_no_prose_earns_nothing() -> None:
    right = "The lattice energy grows when the ions have larger charges. "
    jumble = "The is of a the with packages one salt to. "
    others = "Salt is a solid at room temperature. It dissolves in water. "

    assert scored(LATTICE, right + jumble) == 0
    assert (
        scored(LATTICE, right + others + jumble)
        == scored(LATTICE, right + others)
        > 0.5
    )


def test_a_quarter_out_of_order_and_the_rest_came_out_by_chance() -> None:
    right = "The lattice energy grows when the ions have larger charges. "
    jumble = "The is of a the with packages one salt to. "
    others = "Salt is a solid at room temperature. It dissolves in water. It tastes of the sea. "

    assert scored(LATTICE, right + others + jumble) > 0.5
    assert scored(LATTICE, right + others + jumble * 2) == 0
    assert scored(LATTICE, right + others * 2 + jumble * 3) == 0
    assert scored(LATTICE, right + others * 3 + jumble * 2) > 0.5


_TERMS = (
    "lattice energy",
    "charges",
    "ions",
    "increase",
    "melting point",
    "bond",
    "metal",
    "size",
)


def test_a_form_that_is_filled_with_terms_and_a_long_list_state_nothing() -> None:
    form = " ".join(
        f"This is about {one}, and it is an important thing." for one in _TERMS
    )
    assert scored(LATTICE, form) == 0
    listed = f"The answer has to do with {', '.join(_TERMS)} and salt."
    assert scored(LATTICE, listed) == 0
    right = "The lattice energy grows when the ions have larger charges."
    assert scored(LATTICE, f"{right} {listed}") == scored(LATTICE, right) > 0.5
    assert scored(LATTICE, " ".join([right] * 6)) == scored(LATTICE, right)


@pytest.mark.parametrize("width", [50, 60, 72, 100])
def test_a_wrapped_answer_earns_what_it_earns_in_one_line(width: int) -> None:
    said = (
        "In a crystal of salt the lattice energy, which holds the ions at their places, grows "
        "when the ions have larger charges, and NumPy can add up what it amounts to. It is given "
        "in kilojoules for each mole of the solid."
    )
    whole = scored(LATTICE, said)
    assert whole > 0.5
    assert scored(LATTICE, textwrap.fill(said, width)) == whole
    items = "\n".join(f"- {textwrap.fill(one, width)}" for one in (said, said))
    assert scored(LATTICE, items) == scored(LATTICE, f"{said} {said}")


def test_short_lines_stay_lines() -> None:
    assert sentences("`axis`\nis the axis\nof the sum") == [
        "`axis`",
        "is the axis",
        "of the sum",
    ]
    listed = "It has these parts, each of which is needed for the sum\n2) the axis\n- the order"
    assert len(sentences(listed)) == 3


def test_a_value_alone_is_an_answer_and_a_claim_may_deny_as_a_sentence_does() -> None:
    assert (
        scored("by default `side` is 'left'", "`side` defaults to 'left'.", "'left'")
        > 0.5
    )
    denied = (
        "it is a mistake to think that the charges of the ions lower the lattice energy"
    )
    assert scored(denied, f"{denied.capitalize()}.") > 0.5


def test_the_reasons_say_which_sentence_can_state_nothing() -> None:
    said = (
        f"{LATTICE.capitalize()}. It melts late. It is a myth that the salt is a metal."
    )
    result = ClaimJudge().judge_now(_mixed().judge_view(said))
    assert "cannot state a claim: disowned in “It is a myth that" in result.reasoning


def test_the_question_given_back_states_nothing() -> None:
    claim = "the memory layout of the output array is kept when the order is left out"
    criterion = Criterion(id="c", weight=1, description=f"Says that {claim}.")
    task = Task(
        question="What is the memory layout of the output array when the order is left out?",
        grounding=Grounding(PASSAGE),
        rubric=Rubric(criteria=(criterion,)),
    )
    echo = "The memory layout of the output array when the order is left out."
    assert ClaimJudge().judge_now(task.judge_view(echo)).scores["c"] == 0
    assert (
        ClaimJudge().judge_now(task.judge_view(f"{claim.capitalize()}.")).scores["c"]
        > 0.5
    )
