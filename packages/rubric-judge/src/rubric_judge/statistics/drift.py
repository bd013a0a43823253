"""Evidence that a mean has risen since the start, valid however often one looks.

An e-process is money that a fair bettor makes by betting against a hypothesis: if the hypothesis is
true, the bets have no expected gain, and the money ever reaches 1/α with a probability of at most
α (Ville's inequality), whenever one looks and for whatever reason one stops.
"""

from collections.abc import Sequence
from math import ceil, isfinite, log

import numpy as np

from rubric_core.arrays import FloatArray
from rubric_judge.errors import SampleShapeError

_STAKES_K = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 0.95])[:, None]
"""Shares of the money that are staked on each value; the money begins divided among them evenly.

That costs at most log 7 of evidence, whichever stake turns out to be the best: a seventh of the
money was on it."""
_CELLS = 400
"""Number of cells that the range of the means is cut into; each is rejected by its two ends."""
_EVEN = 1000
"""Looks among which half of the money is divided evenly; a run seldom has more."""
_ROUNDING = 1e-9


class DriftTest:
    """Test that the expected value of later looks rises above that of every look of the start.

        H₀    there is an m with   E[x | start] ≥ m   and   E[x | later] ≤ m + τ
        E_t   = min_m  S(m) · L_t(m + τ)                        rejected at α when E_t ≥ 1/α

        S(m)  = Σ_k (1/K) Π_{x of the start} (1 − f_k + f_k (h − x) / (h − m))
        L_t(m) = Σ_{s≤t} w_s Σ_k (1/K) Π_{x of looks s…t} (1 − f_k + f_k (x − l) / (m − l))
                 + Σ_{s>t} w_s
        w_s   = ½ / (s (s + 1)) + ½ / 1000 · 1[s ≤ 1000]

    Values are in [l, h]. S bets that the start is below m, L that a look from s on is above: m is
    not known, so its error is part of the test. The w_s, which sum to 1, divide the money among the
    looks at which a drift may begin, so that a late one is not drowned by a long quiet time; the
    money for looks to come is kept until then. Under the hypothesis each product has a conditional
    expectation of at most 1. That holds too where the values of one look are drawn without
    replacement: E[Π a_i] ≤ (mean a)ⁿ by Maclaurin's inequality. With a lower m, S falls and L
    rises, so that S at the lower end of a cell of means and L at its upper end reject all of the
    cell: the grid adds no error.

    Values of one look must be exchangeable given all looks before it: one for each question, not
    one for each of several answers to a question.

    Source: arXiv 2010.09686 (betting), §4: the products, and their mixture.
    Source: arXiv 2203.03532 (e-detectors), §4: the sum over the looks at which a change may begin.
    Theirs has weight 1 each and bounds the time between false alarms; with weights that sum to 1
    it bounds the probability that there is ever one.
    """

    def __init__(
        self, *, tolerance: float, low: float = -1.0, high: float = 1.0
    ) -> None:
        """Begin without values.

        Args:
            tolerance: rise that is allowed, τ ≥ 0, in the unit of the values; rounded up to a
                400th of their range.
            low: least possible value, l.
            high: greatest possible value, h.

        Raises:
            ValueError: the bounds are not finite or not in order, or the tolerance is negative.
        """
        if not (isfinite(low) and isfinite(high) and low < high):
            raise ValueError(f"low={low} and high={high} must be finite and in order")
        if not 0 <= tolerance <= high - low:
            raise ValueError(f"tolerance={tolerance} must be in [0, {high - low}]")
        self._low = low
        self._range = high - low
        self._tolerance_cells = ceil(
            tolerance / self._range * _CELLS - _ROUNDING * _CELLS
        )
        edges = np.linspace(0.0, 1.0, _CELLS + 1)
        self._lower_ends = edges[:-1]
        self._upper_ends = edges[1:]
        self._start_KM = np.zeros((len(_STAKES_K), _CELLS))
        """log of the products of S, at the lower ends."""
        self._later_KM = np.full((len(_STAKES_K), _CELLS), -np.inf)
        """log of Σ_s w_s Π of L, at the upper ends."""
        self._start: list[FloatArray] = []
        self._looks: list[FloatArray] = []

    @property
    def start_values(self) -> int:
        """Number of values of the start."""
        return sum(len(units_N) for units_N in self._start)

    @property
    def later_values(self) -> int:
        """Number of values of the looks after it."""
        return sum(len(units_N) for units_N in self._looks)

    def add_start(self, values_N: Sequence[float] | FloatArray) -> None:
        """Add the values of a look of the start, which the later looks are compared with.

        Raises:
            SampleShapeError: a value is out of the bounds, or comes after a later look.
        """
        units_N = self._units(values_N)
        if self._looks:
            raise SampleShapeError("values of the start come before all later looks")
        self._start.append(units_N)
        self._start_KM += _log_products(1.0 - units_N, 1.0 - self._lower_ends)

    def add_look(self, values_N: Sequence[float] | FloatArray) -> None:
        """Add the values of a later look; without values it does not count as one.

        Raises:
            SampleShapeError: a value is out of the bounds.
        """
        units_N = self._units(values_N)
        if not units_N.size:
            return
        self._looks.append(units_N)
        entering = log(_weight(len(self._looks)))
        self._later_KM = np.logaddexp(self._later_KM, entering) + _log_products(
            units_N, self._upper_ends
        )

    def _units(self, values_N: Sequence[float] | FloatArray) -> FloatArray:
        """Return values on the scale from 0, their least possible, to 1."""
        units_N = (np.asarray(values_N, dtype=np.float64) - self._low) / self._range
        inside = (units_N >= -_ROUNDING) & (units_N <= 1 + _ROUNDING)
        if units_N.ndim != 1 or not inside.all():
            high = self._low + self._range
            raise SampleShapeError(
                f"values of a look must be along one axis and in [{self._low}, {high}], got "
                f"shape {units_N.shape} with {int((~inside).sum())} out of the bounds; a missing "
                "one is left out"
            )
        return np.clip(units_N, 0.0, 1.0)

    @property
    def log_evidence(self) -> float:
        """Log E_t; 0 before the first look. An alarm at α is where it reaches log(1/α)."""
        return self._log_evidence(self._tolerance_cells)

    def _log_evidence(self, cells: int) -> float:
        """Return the log evidence against a tolerance, given in cells."""
        start_M = _log_mean(self._start_KM)
        kept = _log_kept(len(self._looks))
        later_M = np.logaddexp(_log_mean(self._later_KM), kept)
        above = np.minimum(np.arange(_CELLS) + cells, _CELLS - 1)
        return float((start_M + later_M[above]).min())

    def drift_low(self, alpha: float) -> float | None:
        """Return a rise that some later look surely had at least.

        It is the largest tolerance whose hypothesis is rejected at α. With a probability of at
        least 1 − α it is, at every look, no larger than the largest rise so far.

        Returns:
            The rise in the unit of the values, a multiple of a 400th of their range; None where not
            even a rise above 0 is sure.
        """
        wanted = -log(alpha)
        if self._log_evidence(0) < wanted:
            return None
        low = 0
        high = _CELLS
        while high - low > 1:
            middle = (low + high) // 2
            if self._log_evidence(middle) >= wanted:
                low = middle
            else:
                high = middle
        return low * self._range / _CELLS

    @property
    def start_mean(self) -> float | None:
        """Mean of the values of the start; None without any."""
        if not self.start_values:
            return None
        return self._low + self._range * float(np.concatenate(self._start).mean())

    def onset(self) -> int | None:
        """Return the later look, counted from 0, since which there is most evidence of a rise.

        The mean of the start is taken as known; None while there is no evidence since any look.
        """
        if not self._looks or not self._start:
            return None
        mean = float(np.concatenate(self._start).mean())
        limit = np.array([min(mean + self._tolerance_cells / _CELLS, 1.0)])
        if limit[0] <= 0:
            limit[0] = 1 / _CELLS
        steps_TK = np.array(
            [_log_products(units_N, limit)[:, 0] for units_N in self._looks]
        )
        since_TK = np.cumsum(steps_TK[::-1], axis=0)[::-1]
        since_T = _log_mean(since_TK.T)
        best = int(np.argmax(since_T))
        return best if since_T[best] > 0 else None


def _weight(look: int) -> float:
    """Return w_s: the share of the money that bets on a drift from a look on, counted from 1."""
    return 0.5 / (look * (look + 1)) + (0.5 / _EVEN if look <= _EVEN else 0.0)


def _log_kept(looks: int) -> float:
    """Return log of the share of the money that is still kept after this many looks."""
    return log(0.5 / (looks + 1) + 0.5 * max(1 - looks / _EVEN, 0.0))


def _log_products(units_N: FloatArray, means_M: FloatArray) -> FloatArray:
    """Return log Π (1 − f + f u / m) for each stake and mean, [K, M]."""
    total_KM = np.zeros((len(_STAKES_K), len(means_M)))
    for unit in units_N.tolist():
        total_KM += np.log1p(_STAKES_K * (unit / means_M - 1.0))
    return total_KM


def _log_mean(logs_KM: FloatArray) -> FloatArray:
    """Return log of the mean of the exponentials over the stakes, [M]."""
    highest_M = logs_KM.max(axis=0)
    highest_M = np.where(np.isfinite(highest_M), highest_M, 0.0)
    means_M = np.exp(logs_KM - highest_M).mean(axis=0)
    with np.errstate(divide="ignore"):
        return highest_M + np.log(means_M)
