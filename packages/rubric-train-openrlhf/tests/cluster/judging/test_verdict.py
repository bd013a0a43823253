import pickle

import pytest

from rubric_core import Reason, Unanswered
from rubric_train_openrlhf.cluster.sampling.samples import JudgementId, Verdict


@pytest.mark.parametrize(
    "judgement",
    [
        JudgementId("0" * 16, key="f" * 64),
        JudgementId.failed("0" * 16, Reason.RATE_LIMITED),
        JudgementId("0" * 16, unanswered=Unanswered.UNCLOSED_THOUGHT),
    ],
)
def test_a_judgement_is_named_by_a_text(judgement: JudgementId) -> None:
    assert JudgementId.read(judgement.text) == judgement


def test_two_judgements_that_did_not_happen_have_two_names() -> None:
    assert JudgementId.failed("t", Reason.TIMEOUT) != JudgementId.failed(
        "t", Reason.TIMEOUT
    )


@pytest.mark.parametrize("text", ["", "task", "task!timeout", "task!sulking!1"])
def test_any_other_text_is_no_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"name of a judgement|sulking"):
        JudgementId.read(text)


def test_a_verdict_that_never_came_is_unavailable_and_no_number() -> None:
    verdict = pickle.loads(pickle.dumps(Verdict.unreachable("task", Reason.CONNECTION)))

    assert verdict.reward is None
    assert JudgementId.read(verdict.judgement).reason is Reason.CONNECTION
