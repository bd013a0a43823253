"""What an answer takes back is not paid, where the judge of claims is asked to look."""

import pytest

from rubric_core import Criterion, Grounding, Rubric, Task, normalized_reward
from rubric_judge import ClaimConfig, ClaimJudge
from rubric_judge.judges.claims.retraction import kept_text

RIGHT = (
    "The lattice energy increases as the charges of the ions increase. "
    "Melting the crystal takes 769 kJ per mole."
)
TASK = Task(
    question="What happens to the lattice energy, and how is the salt melted?",
    grounding=Grounding(RIGHT),
    rubric=Rubric(
        criteria=[
            Criterion(id=f"c{n}", weight=1.0, description=f"Says that {claim}.")
            for n, claim in enumerate(
                (
                    "the lattice energy increases as the charges of the ions increase",
                    "melting the crystal takes 769 kJ per mole",
                )
            )
        ]
    ),
)


def reward(text: str, *, retractions: bool = True) -> float:
    judge = ClaimJudge(ClaimConfig(retractions=retractions))
    return normalized_reward(judge.judge_now(TASK.judge_view(text)), TASK.rubric)


@pytest.mark.parametrize(
    ("text", "before"),
    [
        (f"{RIGHT} (this is wrong)", 1.0),
        (rf"{RIGHT} \text{{ is wrong}}", 1.0),
        (f"{RIGHT} That is not true.", 1.0),
        (f"{RIGHT}\nOn reflection that was a mistake.", 1.0),
        (f"One might guess {RIGHT}, but that is incorrect.", 0.0),
        (f"not {RIGHT}", 0.0),
    ],
)
def test_a_right_answer_that_is_taken_back_earns_nothing(
    text: str, before: float
) -> None:
    assert reward(text) == 0.0
    assert reward(text, retractions=False) == before


@pytest.mark.parametrize(
    "text",
    [
        RIGHT,
        f"At first it seems to decrease. That is wrong. {RIGHT}",
        f"Not every salt is the same. {RIGHT}",
        f"{RIGHT} It raises an error if the value is wrong.",
        f"{RIGHT} Whether it is false depends on the input.",
    ],
)
def test_what_is_not_taken_back_is_paid_as_before(text: str) -> None:
    assert reward(text) == pytest.approx(reward(kept_text(text), retractions=False))
    assert reward(text) > 0.9


def test_empty_lines_are_read_once() -> None:
    lines = "\n" * 200_000

    assert kept_text(f"{RIGHT}{lines}{RIGHT}") == f"{RIGHT}{lines}{RIGHT}"
    assert kept_text(f"{RIGHT}{lines} That is wrong.{lines}It is so.") == (
        f".{lines}It is so."
    )


def test_a_judge_that_does_not_look_is_the_one_of_before() -> None:
    assert ClaimConfig().model_dump() == {
        "type": "claims",
        "embedding": None,
        "entailment": None,
        "regex_timeout_s": 0.25,
    }
    looking = ClaimJudge(ClaimConfig(retractions=True)).fingerprint
    assert looking != ClaimJudge().fingerprint
