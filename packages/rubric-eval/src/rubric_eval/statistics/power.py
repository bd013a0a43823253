"""How large a difference would have to be for McNemar's exact test to find it."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np
from scipy import optimize, stats

_PRECISION: Final = 1e-4
_SPREADS: Final = 8
"""Standard deviations of the number of items that differ: beyond them lies less than 10⁻¹⁵."""


def mcnemar_power(n: int, delta: float, differ: float, *, alpha: float) -> float:
    """Power of McNemar's exact test, over all numbers of items that may differ.

        Σ_m Binomial(m; n, ψ) · P(test of m items rejects | won ~ Binomial(m, (1 + δ/ψ)/2))

    Args:
        n: items.
        delta: true difference of the accuracies, δ ≥ 0.
        differ: ψ ≥ δ, the share of items that one side has right and the other wrong.
        alpha: level of the test.
    """
    if differ == 0:
        return 0.0
    binom = cast("Any", stats).binom  # scipy has no type stubs
    spread = _SPREADS * np.sqrt(n * differ * (1 - differ)) + 1
    m = np.arange(max(0, int(n * differ - spread)), min(n, int(n * differ + spread)) + 1)
    # Largest number lost whose p-value is below α: 2·P(X ≤ lost) < α.
    at_most = np.asarray(binom.ppf(alpha / 2, m, 0.5), dtype=np.float64)
    most = np.where(2 * binom.cdf(at_most, m, 0.5) < alpha, at_most, at_most - 1)
    share = (1 + delta / differ) / 2
    rejects = binom.cdf(most, m, share) + binom.cdf(most, m, 1 - share)
    return float(np.sum(binom.pmf(m, n, differ) * rejects))


def mcnemar_detectable(
    n: int, differ: float, *, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """Smallest difference of accuracies that McNemar's exact test finds with this power.

    Args:
        n: items.
        differ: share of items that one side has right and the other wrong; more where the
            difference itself is larger.
        alpha: level of the test, correction included.
        power: chance that it is found.

    Returns:
        The difference, in (0, 1]; None where not even 1 would be found.
    """

    def lacking(delta: float) -> float:
        return power - mcnemar_power(n, delta, min(max(differ, delta), 1.0), alpha=alpha)

    if lacking(1.0) > 0:
        return None
    return float(cast("Any", optimize).brentq(lacking, 0.0, 1.0, xtol=_PRECISION))
