"""Verdicts on a criterion from its measured figures, by the rules of this table.

| interval of J | people | verdict | factor |
|---|---|---|---|
| above the bound | | admit | 1 |
| below the bound | agree (α above .667) | stronger_judge | slope, or 0 if J may be 0 |
| below the bound | do not agree (α below .667) | rewrite | slope, or 0 if J may be 0 |
| below the bound, above 0 | one rater, or α may be .667 | weigh_down | slope |
| below the bound, may be 0 | one rater, or α may be .667 | mask | 0 |
| above 0, holds the bound | | weigh_down | slope |
| holds both, or there is no J | | more_labels | 0 |

The interval of α counts, too. An interval of J that ends at or below 0 is masked whatever people
say: it teaches the opposite. A judge that says the same of every response (TPR = FPR = 1, or both
0) says nothing about the wording: stronger_judge, unless people are known not to agree.
"""

import math
from typing import NamedTuple

from rubric_judge.quality.calibration.record import KEPT, Verdict, is_whole
from rubric_judge.quality.reliability.rates import Rates
from rubric_judge.statistics.estimate import Estimate
from rubric_judge.statistics.shares import normal_quantile
from rubric_judge.ui.page.tables import counted

PEOPLE_AGREE = 0.667
"""Krippendorff's least α for tentative conclusions."""
_BLIND_WIDTH = 0.35
"""Planned half width of J's interval where there is no J yet."""
_LEAST_WIDTH = 0.05
"""Least planned half width: a J nearer to a bound will not be told from it."""
_ABOUT_TEN = 15
"""Most labels for which a plan says ten."""


class Evidence(NamedTuple):
    """Figures that a verdict is derived from."""

    rates: Rates
    positives: int
    negatives: int
    slope: float
    """Slope of the label on the judge's z, within [0, 1]: the best linear prediction of the label
    multiplies a difference of scores by it."""
    people: Estimate
    """α between raters; without a value where there is one."""
    bound: float
    confidence: float
    unsure: int = 0
    """Number of labels that say that the rater cannot tell, where there are no others."""


class Decision(NamedTuple):
    """A verdict with its reason, the labels still needed, and the factor on the weight."""

    verdict: Verdict
    reason: str
    labels_needed: int | None
    factor: float


def decide(seen: Evidence) -> Decision:
    """Return the verdict by the table above, with its figures."""
    j = seen.rates.youden_j
    bound = seen.bound
    if j.value is None or j.low is None or j.high is None:
        return _unknown(seen)
    if j.low > bound:
        return Decision(Verdict.ADMIT, f"J is {j}, above {bound:g}.", None, 1.0)
    if j.high < bound:
        return _weak(seen, j.low, j.high)
    if j.low > 0:
        count, wanted = _wanted(seen, max(abs(j.value - bound), _LEAST_WIDTH))
        reason = (
            f"J is {j}, above 0 and perhaps not above {bound:g}: {_weighed(seen.slope)}; "
            f"it may take {wanted} to settle it."
        )
        return Decision(Verdict.WEIGH_DOWN, reason, count, seen.slope)
    farthest = max(j.value, bound - j.value, _LEAST_WIDTH)
    count, wanted = _wanted(seen, farthest)
    reason = f"J is {j}, which holds both 0 and {bound:g}: it may take {wanted} to settle it."
    return Decision(Verdict.MORE_LABELS, reason, count, 0.0)


def _unknown(seen: Evidence) -> Decision:
    """Decide where there is no J."""
    count, wanted = _wanted(seen, _BLIND_WIDTH)
    labels = counted(seen.positives + seen.negatives, "label")
    if seen.negatives:
        reason = (
            f"Not met in any label ({labels}), so that there is no TPR and no J: it may "
            f"take {wanted} to get one."
        )
    elif seen.positives:
        reason = (
            f"Met in every label ({labels}), so that there is no FPR and no J: it may "
            f"take {wanted} to get one."
        )
    elif seen.unsure:
        reason = (
            f"Every label, {seen.unsure:,} of them, says that the rater cannot tell: if "
            f"the wording is why, word it anew; else it may take {wanted} to get a J."
        )
    else:
        reason = (
            "No response has both a label and a score of the judge: it may take "
            f"{wanted} to get one."
        )
    return Decision(Verdict.MORE_LABELS, reason, count, 0.0)


def _weak(evidence: Evidence, low: float, high: float) -> Decision:
    """Decide on a J whose interval is below the bound."""
    factor = evidence.slope if low > 0 else 0.0
    people = evidence.people
    rates = evidence.rates
    j = rates.youden_j
    below = f"J is {j}, below {evidence.bound:g}"
    meanwhile = f"until then {_weighed(factor) if factor else 'mask it'}"
    whether = ""
    if people.value is not None:
        whether = (
            f" Whether people agree is open (α {people}): have more responses labelled "
            "twice."
        )
    if high <= 0:
        reason = f"J is {j}, not above 0: the judge tells the opposite of people, or nothing."
        return Decision(Verdict.MASK, reason, None, 0.0)
    if people.high is not None and people.high < PEOPLE_AGREE:
        reason = (
            f"{below}; people do not agree with each other either (α {people}): "
            f"{meanwhile}."
        )
        return Decision(Verdict.REWRITE, reason, None, factor)
    if rates.tpr.value == rates.fpr.value in {0.0, 1.0}:
        calls = "every" if rates.tpr.value else "no"
        reason = (
            f"J is {j}: this judge calls {calls} labelled response met, so it does not "
            "see what people see: until then mask it."
        )
        return Decision(Verdict.STRONGER_JUDGE, reason, None, 0.0)
    if people.low is not None and people.low >= PEOPLE_AGREE:
        reason = (
            f"{below}; people agree with each other (α {people}), this judge does not: "
            f"{meanwhile}."
        )
        return Decision(Verdict.STRONGER_JUDGE, reason, None, factor)
    if factor:
        reason = f"{below} and above 0: {_weighed(factor)}.{whether}"
        return Decision(Verdict.WEIGH_DOWN, reason, None, factor)
    reason = (
        f"{below} and not surely above 0: a policy would learn noise from it.{whether}"
    )
    return Decision(Verdict.MASK, reason, None, 0.0)


def _weighed(factor: float) -> str:
    return KEPT if is_whole(factor) else f"weigh it by {factor:.2f}"


def _wanted(evidence: Evidence, half_width: float) -> tuple[int, str]:
    """Return how many more labels make J so precise, and their classes in words."""
    more1, more0 = labels_needed(
        evidence.rates,
        (evidence.positives, evidence.negatives),
        half_width,
        confidence=evidence.confidence,
    )
    # A plan that holds already was computed from rounder figures than the interval.
    if not more0:
        more1 = max(more1, 1)
    met = "of responses that meet it"
    unmet = "of responses that do not meet it"
    if more1 and more0:
        words = f"{_roughly(more1)} {met} and {_roughly(more0)} {unmet}"
    elif more1:
        words = f"{_roughly(more1)} {met}"
    else:
        words = f"{_roughly(more0)} {unmet}"
    return more1 + more0, words


def _roughly(count: int) -> str:
    """Return a count's order of magnitude: rates move with every label, and the count with them."""
    if count <= _ABOUT_TEN:
        return "about 10 more labels"
    magnitude = min(len(str(count)) - 2, 2)
    return f"{('tens', 'hundreds', 'thousands')[magnitude]} of labels more"


def labels_needed(
    rates: Rates,
    counts: tuple[int, int],
    half_width: float,
    *,
    confidence: float = 0.95,
) -> tuple[int, int]:
    """Return the fewest more labels, met and not met, for a J of this precision.

        v₁ / (n₁ + a₁) + v₀ / (n₀ + a₀) ≤ (h / z)²,   v = p̃ (1 − p̃) deff,   p̃ = (n p̂ + 2) / (n + 4)

    a₁ + a₀ is least where the classes are as √v₁ to √v₀, or where one class has more than that.

    Args:
        rates: rates by the labels so far.
        counts: numbers of labels met, and not met.
        half_width: h, of the interval of J.
        confidence: confidence of the interval.

    Returns:
        (a₁, a₀). Without a label yet, ½ is taken for both rates: (16, 16) for h = 0.35.
    """
    z = normal_quantile(confidence)
    target = (half_width / z) ** 2
    v1 = _planned_variance(rates.tpr, counts[0], rates.worth[0])
    v0 = _planned_variance(rates.fpr, counts[1], rates.worth[1])
    n1, n0 = counts
    both = math.sqrt(v1 * v0)
    best1 = (v1 + both) / target
    best0 = (v0 + both) / target
    if n1 > best1:
        best0 = v0 / (target - v1 / n1)
    elif n0 > best0:
        best1 = v1 / (target - v0 / n0)
    more1 = max(math.ceil(round(best1 - n1, 6)), 0)
    more0 = max(math.ceil(round(best0 - n0, 6)), 0)
    return more1, more0


def _planned_variance(rate: Estimate, n: int, worth: float) -> float:
    p = ((rate.value or 0.0) * n + 2) / (n + 4)
    return p * (1 - p) * (n / worth if worth else 1.0)
