"""Verdicts: every line of the table of rules, and the figures in their reasons."""

from __future__ import annotations

import pytest

from rubric_judge.calibration.rates import UNKNOWN, youden
from rubric_judge.calibration.record import Interval, Verdict
from rubric_judge.calibration.verdicts import Decision, Evidence, decide

AGREE, DISAGREE = Interval(value=0.8, low=0.7, high=0.9), Interval(value=0.2, low=0.0, high=0.4)


def _decide(tp: int, fp: int, fn: int, tn: int, people: Interval = UNKNOWN) -> Decision:
    rates = youden(tp, fp, fn, tn)
    return decide(Evidence(rates, tp + fn, fp + tn, 0.4, people, 0.3, 0.95))


@pytest.mark.parametrize(
    ("matrix", "people", "verdict", "factor"),
    [
        ((90, 10, 10, 90), UNKNOWN, Verdict.ADMIT, 1.0),
        ((90, 10, 10, 90), DISAGREE, Verdict.ADMIT, 1.0),
        ((1500, 1300, 500, 700), UNKNOWN, Verdict.WEIGH_DOWN, 0.4),
        ((1500, 1300, 500, 700), AGREE, Verdict.STRONGER_JUDGE, 0.4),
        ((1500, 1300, 500, 700), DISAGREE, Verdict.REWRITE, 0.4),
        ((60, 40, 40, 60), UNKNOWN, Verdict.WEIGH_DOWN, 0.4),
        ((60, 40, 40, 60), DISAGREE, Verdict.WEIGH_DOWN, 0.4),
        ((500, 500, 500, 500), UNKNOWN, Verdict.MASK, 0.0),
        ((500, 500, 500, 500), AGREE, Verdict.STRONGER_JUDGE, 0.0),
        ((500, 500, 500, 500), DISAGREE, Verdict.REWRITE, 0.0),
        ((100, 400, 400, 100), AGREE, Verdict.MASK, 0.0),
        ((8, 5, 5, 8), AGREE, Verdict.MORE_LABELS, 0.0),
        ((0, 5, 0, 8), UNKNOWN, Verdict.MORE_LABELS, 0.0),
        ((0, 0, 0, 0), UNKNOWN, Verdict.MORE_LABELS, 0.0),
    ],
)
def test_every_rule(
    matrix: tuple[int, int, int, int], people: Interval, verdict: Verdict, factor: float
) -> None:
    found = _decide(*matrix, people)

    assert (found.verdict, found.factor) == (verdict, factor)
    may_change = verdict is Verdict.MORE_LABELS or matrix == (60, 40, 40, 60)
    assert (found.labels_needed is not None) == may_change


def test_reasons_hold_their_figures() -> None:
    assert _decide(90, 10, 10, 90).reason == "J is 0.80 [0.69, 0.86], above 0.3."
    assert _decide(500, 500, 500, 500, DISAGREE).reason == (
        "J is 0.00 [−0.04, 0.04], below 0.3; people do not agree with each other either "
        "(α 0.20 [0.00, 0.40]): until then mask it."
    )
    assert "(α 0.80 [0.70, 0.90]), this judge does not: until then weigh it by 0.40" in (
        _decide(1500, 1300, 500, 700, AGREE).reason
    )
    assert _decide(100, 400, 400, 100).reason == (
        "J is −0.60 [−0.65, −0.55], not above 0: the judge tells the opposite of people, or "
        "nothing."
    )


def test_one_class_only_says_how_many_of_which_are_missing() -> None:
    none_met, all_met, nothing = _decide(0, 5, 0, 35), _decide(35, 0, 5, 0), _decide(0, 0, 0, 0)

    assert none_met.reason == (
        "Met in none of 40 labels, so that there is no TPR and no J: 9 more labels of responses "
        "that meet it would give one."
    )
    assert none_met.labels_needed == 9
    assert "Met in all of 40 labels, so that there is no FPR and no J" in all_met.reason
    assert "9 more labels of responses that do not meet it" in all_met.reason
    assert nothing.reason.startswith("No response has both a label and a score of the judge: 16 ")
    assert nothing.labels_needed == 32
