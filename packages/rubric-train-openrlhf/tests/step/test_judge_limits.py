import pickle

import pytest

from rubric_core import Criterion, JudgeResult, Reason, Rubric
from rubric_train_openrlhf.config.sections import JudgingConfig
from rubric_train_openrlhf.errors import JudgeAbortError
from rubric_train_openrlhf.step.credit import check_judge

LIMITS = JudgingConfig(max_invalid_frac=0.25, max_unavailable_frac=0.5)


def results_of(*, scored: int, refused: int, timeouts: int) -> list[JudgeResult]:
    rubric = Rubric(criteria=(Criterion(id="a", weight=1.0),))
    return [
        *[JudgeResult.scored(rubric, {"a": 1.0}, judge="j")] * scored,
        *[JudgeResult.invalid(Reason.REFUSED)] * refused,
        *[JudgeResult.unavailable(Reason.TIMEOUT)] * timeouts,
    ]


def test_rates_at_the_limit_pass() -> None:
    check_judge([results_of(scored=1, refused=1, timeouts=2)], config=LIMITS, step=1)


@pytest.mark.parametrize(
    ("refused", "timeouts", "words"),
    [
        (2, 0, r"invalid judgements 50.0% > judge.max_invalid_frac=0.25"),
        (0, 3, r"unavailable judgements 75.0% > judge.max_unavailable_frac=0.5"),
    ],
)
def test_a_rate_above_its_limit_stops_the_run(
    refused: int, timeouts: int, words: str
) -> None:
    results = results_of(
        scored=4 - refused - timeouts, refused=refused, timeouts=timeouts
    )

    with pytest.raises(JudgeAbortError, match=words) as caught:
        check_judge([results], config=LIMITS, step=5)

    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.step == 5
    assert copy.invalid_frac == refused / 4
    assert copy.unavailable_frac == timeouts / 4
    assert copy.reasons == {"refused": 2} if refused else {"timeout": 3}
    assert str(copy) == str(caught.value)
