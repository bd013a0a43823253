"""Verdicts: every line of the table of rules, and the figures in their reasons."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_judge.quality.calibration.record import Verdict
from rubric_judge.quality.calibration.verdicts import (
    Decision,
    Evidence,
    decide,
    labels_needed,
)
from rubric_judge.quality.reliability.rates import youden
from rubric_judge.statistics.estimate import UNKNOWN, Estimate

AGREE, DISAGREE = (
    Estimate(value=0.8, low=0.7, high=0.9),
    Estimate(value=0.2, low=0.0, high=0.4),
)
MAY_AGREE = Estimate(value=0.62, low=0.44, high=0.8)

COUNTS = st.integers(0, 60)


def _decide(tp: int, fp: int, fn: int, tn: int, people: Estimate = UNKNOWN) -> Decision:
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
        ((1500, 1300, 500, 700), MAY_AGREE, Verdict.WEIGH_DOWN, 0.4),
        ((500, 500, 500, 500), MAY_AGREE, Verdict.MASK, 0.0),
        ((500, 500, 0, 0), UNKNOWN, Verdict.STRONGER_JUDGE, 0.0),
        ((500, 500, 0, 0), MAY_AGREE, Verdict.STRONGER_JUDGE, 0.0),
        ((0, 0, 500, 500), AGREE, Verdict.STRONGER_JUDGE, 0.0),
        ((500, 500, 0, 0), DISAGREE, Verdict.REWRITE, 0.0),
        ((8, 8, 0, 0), AGREE, Verdict.MORE_LABELS, 0.0),
        ((100, 400, 400, 100), AGREE, Verdict.MASK, 0.0),
        ((8, 5, 5, 8), AGREE, Verdict.MORE_LABELS, 0.0),
        ((0, 5, 0, 8), UNKNOWN, Verdict.MORE_LABELS, 0.0),
        ((0, 0, 0, 0), UNKNOWN, Verdict.MORE_LABELS, 0.0),
    ],
)
def test_every_rule(
    matrix: tuple[int, int, int, int], people: Estimate, verdict: Verdict, factor: float
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
    assert (
        "(α 0.80 [0.70, 0.90]), this judge does not: until then weigh it by 0.40"
        in (_decide(1500, 1300, 500, 700, AGREE).reason)
    )
    assert (
        "a policy would learn noise from it. Whether people agree is open (α 0.62 [0.44, 0.80])"
        in (_decide(500, 500, 500, 500, MAY_AGREE).reason)
    )
    assert (
        "this judge calls every labelled response met" in _decide(500, 500, 0, 0).reason
    )
    assert (
        "this judge calls no labelled response met"
        in _decide(0, 0, 500, 500, AGREE).reason
    )
    assert _decide(100, 400, 400, 100).reason == (
        "J is −0.60 [−0.65, −0.55], not above 0: the judge tells the opposite of people, or "
        "nothing."
    )


def test_one_class_only_says_how_many_of_which_are_missing() -> None:
    none_met, all_met, nothing = (
        _decide(0, 5, 0, 35),
        _decide(35, 0, 5, 0),
        _decide(0, 0, 0, 0),
    )

    assert none_met.reason == (
        "Not met in any label (40 labels), so that there is no TPR and no J: it may take about 10 "
        "more labels of responses that meet it to get one."
    )
    assert none_met.labels_needed == 9
    assert (
        "Met in every label (40 labels), so that there is no FPR and no J"
        in all_met.reason
    )
    assert "about 10 more labels of responses that do not meet it" in all_met.reason
    assert nothing.reason.startswith(
        "No response has both a label and a score of the judge: it may "
    )
    assert (
        "take tens of labels more of responses that meet it and tens of"
        in nothing.reason
    )
    assert nothing.labels_needed == 32


def test_a_factor_of_1_is_kept_and_not_weighed_down() -> None:
    rates = youden(60, 40, 40, 60)
    found = [
        decide(Evidence(rates, 100, 100, of, UNKNOWN, 0.3, 0.95)) for of in (0.997, 0.9)
    ]

    assert [one.verdict for one in found] == [Verdict.WEIGH_DOWN] * 2
    assert "not above 0.3: kept; not proven yet; it may take tens of" in found[0].reason
    assert "not above 0.3: weigh it by 0.90; it may take tens of" in found[1].reason


@given(COUNTS, COUNTS, COUNTS, COUNTS, st.floats(0.05, 0.5))
def test_the_plan_is_just_enough(
    tp: int, fp: int, fn: int, tn: int, half_width: float
) -> None:
    n1, n0 = tp + fn, fp + tn
    more1, more0 = labels_needed(youden(tp, fp, fn, tn), (n1, n0), half_width)

    p1, p0 = (tp + 2) / (n1 + 4), (fp + 2) / (n0 + 4)

    def half(a1: int, a0: int) -> float:
        if not n1 + a1 or not n0 + a0:
            return np.inf
        variance = p1 * (1 - p1) / (n1 + a1) + p0 * (1 - p0) / (n0 + a0)
        return float(1.959964 * np.sqrt(variance))

    assert half(more1, more0) <= half_width + 1e-6
    total = more1 + more0
    # Rounding up both classes costs at most one label more than the least total.
    fewer = [half(a, total - 2 - a) for a in range(max(total - 1, 0))]
    assert min(fewer, default=np.inf) > half_width


def test_a_plan_without_any_label() -> None:
    assert labels_needed(youden(0, 0, 0, 0), (0, 0), 0.35) == (16, 16)
    assert labels_needed(youden(40, 0, 10, 0), (50, 0), 0.35)[0] == 0
