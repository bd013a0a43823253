"""Attribution of a response's advantage to the criteria."""

import numpy as np
from numpy.typing import ArrayLike

from rubric_core import arrays
from rubric_core.arrays import FloatArray
from rubric_core.reward.advantage import advantage_scale
from rubric_core.reward.inputs import Std, checked_scores


def criterion_attribution(
    z_PGM: ArrayLike,
    weights_PM: ArrayLike,
    *,
    std: Std = "sample",
    delta: float = 1e-8,
    valid_PG: ArrayLike | None = None,
) -> FloatArray:
    """Split every advantage into the contributions of the criteria.

        A_i^(g) = Σ_j α_j (z_j^(g) − 1/(G−1) Σ_{g'≠g} z_j^(g')) / (σ_i + δ)

    exact, since the advantage is linear in z once σ is fixed.

    Args:
        z_PGM: shape [P, G, M], finite where valid and w_j > 0; not read elsewhere, so groups with
            fewer criteria than M are padded with nan under weight 0.
        weights_PM: shape [P, M], every w_j ≥ 0 and finite, each row with a positive sum.
        std: as for `group_advantages`.
        delta: as for `group_advantages`.
        valid_PG: bool, shape [P, G]; False leaves a response out. None: all take part.

    Returns:
        Shape [P, G, M]; over M it sums to `group_advantages` of the projected rewards. 0 for
        masked responses, criteria of weight 0, and groups whose rewards agree within rounding:
        there, dividing by δ would blow criteria that cancel each other up to 10⁷.

    Raises:
        RewardShapeError: axes that do not fit, G < 2, or a mask of another shape.
        RewardError: a valid z_j that is not finite, weights that no reward can be computed from, or
            an unknown `std` or `delta`.

    Source: paper, §3.2, Eq. advantage.
    Source: paper, §3.3, Eq. criterion_delta.
    """
    z, alpha, valid = checked_scores(z_PGM, weights_PM, valid_PG)
    weighted_PGM = alpha[:, None, :] * z
    rewards_PG = weighted_PGM.sum(axis=2)
    scale_PG = advantage_scale(rewards_PG, valid, std=std, delta=delta)
    siblings_P11 = np.maximum(valid.sum(axis=1) - 1, 1)[:, None, None]
    others_PGM = weighted_PGM.sum(axis=1, keepdims=True) - weighted_PGM
    deviation_PGM = weighted_PGM - others_PGM / siblings_P11
    informative_PG1 = (valid & arrays.differ(rewards_PG, valid)[:, None])[:, :, None]
    return np.where(informative_PG1, deviation_PGM / scale_PG[:, :, None], 0.0)


def decoupled_advantages(
    z_PGM: ArrayLike,
    weights_PM: ArrayLike,
    *,
    delta: float = 1e-8,
    valid_PG: ArrayLike | None = None,
) -> FloatArray:
    """Normalise each criterion within its group before weighting, then whiten over the batch.

        Â_j^(g) = (z_j^(g) − mean_g z_j) / std_g z_j      0 for a criterion without spread
        A_i^(g) = Σ_j α_j Â_j^(g) / (std over the batch + δ)

    A criterion on which responses differ little counts as much as one on which they differ a lot,
    where `group_advantages` lets the second drown the first.

    Args:
        z_PGM: shape [P, G, M], finite where valid and w_j > 0; not read elsewhere.
        weights_PM: shape [P, M], every w_j ≥ 0 and finite, each row with a positive sum.
        delta: δ ≥ 0, finite.
        valid_PG: bool, shape [P, G]; False leaves a response out. None: all take part.

    Returns:
        Shape [P, G]; 0 for masked responses, and where no criterion has spread. Rows sum to 0, so
        the batch needs no centring.

    Raises:
        RewardShapeError: axes that do not fit, G < 2, or a mask of another shape.
        RewardError: a valid z_j that is not finite, weights that no reward can be computed from, or
            a `delta` that is negative or not finite.

    Source: arXiv 2601.05242 (GDPO), group-wise decoupled normalisation.
    """
    arrays.check_number(delta, name="delta")
    z, alpha, valid = checked_scores(z_PGM, weights_PM, valid_PG)
    count_P = np.maximum(valid.sum(axis=1), 1)
    combined_PG = np.zeros(valid.shape)
    for alpha_P, z_PG in zip(alpha.T, np.moveaxis(z, 2, 0), strict=True):
        # With δ here instead, two criteria that cancel would leave a rest, and the last line would
        # scale that rest up to 1.
        std_P = arrays.std_over_valid(z_PG, valid, ddof=1)
        differ_P = arrays.differ(z_PG, valid)
        gain_P = np.divide(alpha_P, std_P, out=np.zeros_like(std_P), where=differ_P)
        mean_P = z_PG.sum(axis=1) / count_P
        combined_PG += gain_P[:, None] * (z_PG - mean_P[:, None])
    combined_PG[~valid] = 0.0
    batch_std_1 = arrays.std_over_valid(
        combined_PG.reshape(1, -1), valid.reshape(1, -1), ddof=1
    )
    batch_std = float(batch_std_1[0])
    if batch_std <= 0:
        return combined_PG
    return combined_PG / (batch_std + delta)
