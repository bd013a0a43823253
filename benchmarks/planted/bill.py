"""Groups of responses with planted judges: a strong one, and a cheap one that is right so often.

The strong judge's verdicts are drawn from a rate of each prompt and criterion, so that many
criteria are met, or missed, by a whole group. The cheap judge reads each verdict through noise, and
its probability is the calibrated one: of what it calls .8, four in five are met.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from rubric_core.arrays import FloatArray

RATE_SHAPE = 0.6
"""Both parameters of the rates' beta distribution: of 8 verdicts, a third are all equal."""
ALIKE = 1 / (1 + 2 * RATE_SHAPE)
"""Intraclass correlation of the verdicts on a criterion of one prompt."""


class Group(NamedTuple):
    """One group, as both judges see it."""

    strong_GM: FloatArray
    """The strong judge's verdicts, 0 or 1."""
    cheap_GM: FloatArray
    """The cheap judge's calibrated probabilities of them."""
    weights_M: FloatArray


@dataclass(frozen=True)
class Plant:
    """A cheap judge, and what it judges."""

    accuracy: float
    """Share of its verdicts that are the strong judge's."""
    shared: float = 0.0
    """Share of the (prompt, criterion) pairs whose responses are all read with one and the same
    noise: it errs on all of them together, or on none."""
    responses: int = 8
    criteria: int = 6

    def draw(self, groups: int, *, seed: int) -> list[Group]:
        """Draw groups; the verdicts of a seed are the same whatever the cheap judge."""
        rng = np.random.default_rng(seed)
        shape = groups, self.responses, self.criteria
        rate_P1M = rng.beta(RATE_SHAPE, RATE_SHAPE, size=(groups, 1, self.criteria))
        strong_PGM = (rng.random(shape) < rate_P1M).astype(np.float64)
        weights_PM = rng.integers(1, 6, size=(groups, self.criteria)).astype(np.float64)
        own_PGM = rng.standard_normal(shape)
        common_P1M = rng.standard_normal((groups, 1, self.criteria))
        is_shared_P1M = rng.random((groups, 1, self.criteria)) < self.shared
        noise_PGM = np.where(is_shared_P1M, common_P1M, own_PGM)
        # A reading of ±μ with noise of 1 has the right sign with probability Φ(μ).
        mu = float(stats.norm.ppf(self.accuracy))
        side_PGM = 2 * strong_PGM - 1
        # The noise is towards the verdict or away from it: met and unmet are misread together.
        reading_PGM = side_PGM * (mu + noise_PGM)
        cheap_PGM = 1 / (1 + np.exp(-2 * mu * reading_PGM))
        return [
            Group(strong_GM, cheap_GM, weights_M)
            for strong_GM, cheap_GM, weights_M in zip(
                strong_PGM, cheap_PGM, weights_PM, strict=True
            )
        ]
