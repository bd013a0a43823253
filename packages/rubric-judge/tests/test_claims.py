"""What an answer says of a claim: stated in other words, contradicted, or left out."""

import pytest

from rubric_core import Criterion, CriterionKind, Grounding, Rubric, Task
from rubric_judge import ClaimConfig, ClaimJudge, load_judge

PASSAGE = (
    "The lattice energy increases as the charges of the ions increase. "
    "Melting the crystal takes 769 kJ per mole. "
    "By default `side` is 'left'. Only one package may be given for a model. "
    "The first two dimensions of the input must be square."
)


def scored(claim: str, answer: str, *required: str, kind: CriterionKind | None = None) -> float:
    criterion = Criterion(
        id="c", weight=1, description=f"Says that {claim}.", required_elements=required, kind=kind
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


def test_an_answer_that_only_names_things_earns_nothing() -> None:
    claim = "melting the crystal takes 769 kJ per mole"
    assert scored(claim, "`sort` and `side` are widely used in practice.", "769") == 0


def test_the_result_says_what_contradicts() -> None:
    claim = "the lattice energy increases as the charges of the ions increase"
    rubric = Rubric(criteria=(Criterion(id="c", weight=1, description=f"Says that {claim}."),))
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
