"""From what was measured of a criterion to what to do with it, by rules that are stated here.

| interval of J | people | verdict | factor |
|---|---|---|---|
| above the bound | | admit | 1 |
| below the bound | agree (α ≥ .667) | stronger_judge | slope, or 0 if J may be 0 |
| below the bound | do not agree | rewrite | slope, or 0 if J may be 0 |
| below the bound, above 0 | one rater | weigh_down | slope |
| below the bound, may be 0 | one rater | mask | 0 |
| above 0, holds the bound | | weigh_down | slope |
| holds both, or there is no J | | more_labels | 0 |

An interval that ends at or below 0 is masked whoever agrees: it teaches the opposite.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple, cast

from scipy import stats

from rubric_judge.calibration.record import KEPT, Verdict, is_whole
from rubric_judge.estimates import Estimate
from rubric_judge.page.tables import counted
from rubric_judge.reliability.rates import Rates

PEOPLE_AGREE: Final = 0.667
"""Krippendorff's least α for tentative conclusions."""
_BLIND_WIDTH: Final = 0.35
"""Half width of J's interval that is planned for where there is no J yet."""
_LEAST_WIDTH: Final = 0.05
"""No plan asks for more precision: a J this near a bound will not be told from it."""
_ABOUT_TEN: Final = 15
"""Labels up to which a plan says ten."""


class Evidence(NamedTuple):
    """What a verdict is made of."""

    rates: Rates
    positives: int
    negatives: int
    slope: float
    """Of the label on the judge's z, within [0, 1]: by what their best linear prediction of the
    label multiplies a difference of scores."""
    people: Estimate
    """α between raters; without a value where there is one."""
    bound: float
    confidence: float
    unsure: int = 0
    """Labels that say that the rater cannot tell, where there are no others."""


class Decision(NamedTuple):
    """A verdict, why, and what follows from it."""

    verdict: Verdict
    reason: str
    labels_needed: int | None
    factor: float


def decide(seen: Evidence) -> Decision:
    """Return the verdict by the table above, with its figures."""
    j = seen.rates.youden_j
    if j.value is None or j.low is None or j.high is None:
        return _without_j(seen)
    low, high, bound = j.low, j.high, seen.bound
    told = f"J is {j.text()}"
    if low > bound:
        return Decision(Verdict.ADMIT, f"{told}, above {bound:g}.", None, 1.0)
    if high < bound:
        return _weak(seen, low, high, told)
    if low > 0:
        nearest = max(abs(j.value - bound), _LEAST_WIDTH)
        count, wanted = _wanted(seen, nearest)
        reason = (
            f"{told}, above 0 and perhaps not above {bound:g}: {_weighed(seen.slope)}; "
            f"it may take {wanted} to settle it."
        )
        return Decision(Verdict.WEIGH_DOWN, reason, count, seen.slope)
    count, wanted = _wanted(seen, max(j.value, bound - j.value, _LEAST_WIDTH))
    reason = f"{told}, which holds both 0 and {bound:g}: it may take {wanted} to settle it."
    return Decision(Verdict.MORE_LABELS, reason, count, 0.0)


def _weak(seen: Evidence, low: float, high: float, told: str) -> Decision:
    """Decide on a J that is below the bound, as sure as the interval is."""
    factor = seen.slope if low > 0 else 0.0
    below = f"{told}, below {seen.bound:g}"
    meanwhile = f"until then {_weighed(factor)}" if factor else "until then mask it"
    if high <= 0:
        reason = f"{told}, not above 0: the judge tells the opposite of people, or nothing."
        return Decision(Verdict.MASK, reason, None, 0.0)
    alpha = seen.people.value
    if alpha is not None and alpha >= PEOPLE_AGREE:
        why = f"people agree with each other (α {seen.people.text()}), this judge does not"
        return Decision(Verdict.STRONGER_JUDGE, f"{below}; {why}: {meanwhile}.", None, factor)
    if alpha is not None:
        why = f"people do not agree with each other either (α {seen.people.text()})"
        return Decision(Verdict.REWRITE, f"{below}; {why}: {meanwhile}.", None, factor)
    if factor:
        reason = f"{below} and above 0: {_weighed(factor)}."
        return Decision(Verdict.WEIGH_DOWN, reason, None, factor)
    reason = f"{below} and not surely above 0: a policy would learn noise from it."
    return Decision(Verdict.MASK, reason, None, 0.0)


def _without_j(seen: Evidence) -> Decision:
    """Say how many labels of which class make a J."""
    total = seen.positives + seen.negatives
    count, wanted = _wanted(seen, _BLIND_WIDTH)
    if not total and seen.unsure:
        so_far = (
            f"Every label, {seen.unsure:,} of them, says that the rater cannot tell: if the "
            "wording is why, word it anew; else"
        )
        return Decision(
            Verdict.MORE_LABELS, f"{so_far} it may take {wanted} to get a J.", count, 0.0
        )
    if not total:
        so_far = "No response has both a label and a score of the judge"
    elif seen.negatives:
        so_far = f"Met in none of {counted(total, 'label')}, so that there is no TPR and no J"
    else:
        so_far = f"Met in all of {counted(total, 'label')}, so that there is no FPR and no J"
    return Decision(Verdict.MORE_LABELS, f"{so_far}: it may take {wanted} to get one.", count, 0.0)


def _wanted(seen: Evidence, half_width: float) -> tuple[int, str]:
    """Return how many more labels make J so precise, and in words of which class."""
    more1, more0 = labels_needed(
        seen.rates, (seen.positives, seen.negatives), half_width, confidence=seen.confidence
    )
    # A plan that holds already was made of a rounder figure than the interval.
    more1 = max(more1, 1) if not more0 else more1
    met, unmet = (f"of responses that {what}" for what in ("meet it", "do not meet it"))
    if more1 and more0:
        return more1 + more0, f"{_roughly(more1)} {met} and {_roughly(more0)} {unmet}"
    return more1 + more0, f"{_roughly(more1 or more0)} {met if more1 else unmet}"


def _roughly(count: int) -> str:
    """Return a count's order: rates move with every label, and the count with them."""
    if count <= _ABOUT_TEN:
        return "about 10 more labels"
    return f"{('tens', 'hundreds', 'thousands')[min(len(str(count)) - 2, 2)]} of labels more"


def _weighed(factor: float) -> str:
    return KEPT if is_whole(factor) else f"weigh it by {factor:.2f}"


def labels_needed(
    rates: Rates, counts: tuple[int, int], half_width: float, *, confidence: float = 0.95
) -> tuple[int, int]:
    """Return the fewest more labels of what is met and of what is not for a J of this precision.

        v₁ / (n₁ + a₁) + v₀ / (n₀ + a₀) ≤ (h / z)²,   v = p̃ (1 − p̃) deff,   p̃ = (n p̂ + 2) / (n + 4)

    a₁ + a₀ is least where the classes are as √v₁ to √v₀, or where one class has more than that.

    Args:
        rates: what the labels say so far.
        counts: labels of what is met, and of what is not.
        half_width: h, of the interval of J.
        confidence: of it.

    Returns:
        (a₁, a₀). Without a label yet, ½ is taken for both rates: (16, 16) for h = 0.35.
    """
    z = float(cast("Any", stats).norm.ppf((1 + confidence) / 2))
    target = (half_width / z) ** 2
    v1, v0 = (
        _planned_variance(rate, n, worth)
        for rate, n, worth in zip((rates.tpr, rates.fpr), counts, rates.worth, strict=True)
    )
    n1, n0 = counts
    both = math.sqrt(v1 * v0)
    best1, best0 = (v1 + both) / target, (v0 + both) / target
    if n1 > best1:
        best0 = v0 / (target - v1 / n1)
    elif n0 > best0:
        best1 = v1 / (target - v0 / n0)
    more1, more0 = (max(math.ceil(round(best - n, 6)), 0) for best, n in ((best1, n1), (best0, n0)))
    return more1, more0


def _planned_variance(rate: Estimate, n: int, worth: float) -> float:
    p = ((rate.value or 0.0) * n + 2) / (n + 4)
    return p * (1 - p) * (n / worth if worth else 1.0)
