"""Draws of several means at once, where some are over the same clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rubric_eval.statistics.bootstrap import DRAWS_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rubric_eval.statistics.bootstrap import FloatArray


@dataclass(frozen=True)
class Sample:
    """Values of one mean, and what each belongs to by names that all samples share."""

    values_N: FloatArray
    clusters_N: Sequence[str]

    @property
    def clusters_count(self) -> int:
        """Clusters apart."""
        return len(set(self.clusters_N))


def joint_draws(samples: Sequence[Sample], *, resamples: int, seed: int) -> FloatArray:
    """Draw Σ_b x̄_b, the sum of the means of several samples.

        Σ_b x̄*_b,   x̄*_b = Σ_c S_bc / Σ_c n_bc   over clusters c drawn from all those of the group

    Samples that share a cluster are a group: one draw of clusters gives all their means, so that
    what an item does to one it does to the others, as GPQA Diamond's do to Main. Groups are drawn
    apart. A draw that leaves a sample without any value is no draw of its mean, and is left out.

    Args:
        samples: at least one, each of at least two clusters.
        resamples: draws.
        seed: of the draws.

    Returns:
        The sums, in the order drawn.
    """
    rng = np.random.default_rng(seed)
    total_R = np.zeros(resamples)
    for group in _groups(samples):
        total_R = total_R + _group_draws(group, resamples=resamples, rng=rng)
    return total_R[~np.isnan(total_R)]


def _groups(samples: Sequence[Sample]) -> Iterator[list[Sample]]:
    """Put together what is linked by shared clusters, directly or by another sample."""
    left = list(samples)
    while left:
        group = [left.pop(0)]
        names = set(group[0].clusters_N)
        while linked := [one for one in left if names & set(one.clusters_N)]:
            group += linked
            names.update(name for one in linked for name in one.clusters_N)
            left = [one for one in left if not any(one is other for other in linked)]
        yield group


def _group_draws(
    group: Sequence[Sample], *, resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Draw how often each cluster counts; NaN where a sample got no value."""
    names = sorted({name for one in group for name in one.clusters_N})
    place = {name: at for at, name in enumerate(names)}
    sums_BC, counts_BC = (np.zeros((len(group), len(names))) for _ in range(2))
    for at, one in enumerate(group):
        of_N = np.array([place[name] for name in one.clusters_N])
        np.add.at(sums_BC[at], of_N, one.values_N)
        np.add.at(counts_BC[at], of_N, 1.0)
    share_C = np.full(len(names), 1 / len(names))
    parts: list[FloatArray] = []
    for start in range(0, resamples, DRAWS_AT_ONCE):
        drawn = min(DRAWS_AT_ONCE, resamples - start)
        times_RC = rng.multinomial(len(names), share_C, size=drawn)
        counts_RB = times_RC @ counts_BC.T
        known_RB = np.where(counts_RB > 0, counts_RB, np.nan)
        parts.append(np.sum(times_RC @ sums_BC.T / known_RB, axis=1))
    return np.concatenate(parts)
