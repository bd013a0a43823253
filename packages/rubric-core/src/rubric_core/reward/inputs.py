"""Checks of what rewards and advantages are computed from."""

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from rubric_core import arrays
from rubric_core.arrays import BoolArray, FloatArray
from rubric_core.effective import shares
from rubric_core.errors import RewardError, RewardShapeError

Std = Literal["sample", "population", "leave_one_out", "none"]
"""Divisor of a group's centred rewards."""

_STDS = get_args(Std)


def check_scale(std: str, *, delta: float) -> None:
    """Refuse a divisor that is not known, and a stabiliser that is negative or not finite.

    Raises:
        RewardError: either.
    """
    arrays.check_number(delta, name="delta")
    if std not in _STDS:
        raise RewardError(
            f"std must be 'sample', 'population', 'leave_one_out' or 'none', not {std!r}"
        )


def check_buffer(buffer: int, *, max_length: int) -> None:
    """Refuse a number of penalised tokens that is not in (0, max_length].

    Raises:
        RewardError: it is not, or one of the two is not a number from 0 up.
    """
    arrays.check_number(max_length, name="max_length")
    arrays.check_number(buffer, name="buffer")
    if not 0 < buffer <= max_length:
        raise RewardError(
            f"buffer must be in (0, max_length = {max_length}], not {buffer}"
        )


def check_share(share: float, *, name: str) -> None:
    """Refuse a factor that is not in [0, 1).

    Raises:
        RewardError: it is not.
    """
    arrays.check_number(share, name=name)
    if not share < 1:
        raise RewardError(f"{name} must be in [0, 1), not {share!r}")


def checked_lengths(lengths: ArrayLike) -> FloatArray:
    """Return numbers of tokens, of any shape.

    Raises:
        RewardError: one is negative, or no finite number.
    """
    tokens = arrays.float_array(lengths, name="lengths", axes=None)
    is_number = (tokens >= 0) & (tokens < np.inf)
    if not is_number.all():
        raise RewardError(
            f"lengths must be numbers from 0 up, one is {tokens[~is_number][0]}"
        )
    return tokens


def checked_endings(
    rewards: ArrayLike, ended: ArrayLike
) -> tuple[FloatArray, BoolArray]:
    """Return rewards, nan where masked, and whether their responses have a stop token.

    Raises:
        RewardShapeError: arrays of different shape.
        RewardError: a reward that is negative, infinite or no number, or endings that are not
            booleans.
    """
    values = arrays.float_array(rewards, name="rewards", axes=None)
    complete = arrays.bool_array(ended, name="ended")
    if values.shape != complete.shape:
        raise RewardShapeError(
            f"rewards have shape {values.shape}, ended has {complete.shape}"
        )
    if (values < 0).any():
        raise RewardError(
            f"rewards must not be negative, the smallest is {np.nanmin(values)}"
        )
    arrays.check_each(values, ~np.isinf(values), name="rewards", problem=", not finite")
    return values, complete


def checked_scores(
    z_PGM: ArrayLike, weights_PM: ArrayLike, valid_PG: ArrayLike | None
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the scores of criteria, with the criteria's shares and the mask of responses.

    Args:
        z_PGM: shape [P, G, M], finite where valid and w_j > 0.
        weights_PM: shape [P, M], every w_j ≥ 0 and finite, each row with a positive sum.
        valid_PG: bool, shape [P, G]; None: all take part.

    Returns:
        z, 0 where it must not be read; α; and the mask.

    Raises:
        RewardShapeError: axes that do not fit, G < 2, or a mask of another shape.
        RewardError: a valid z_j that is not finite, or weights that no reward can be computed from.
    """
    z = arrays.float_array(z_PGM, name="z_PGM", axes="PGM")
    alpha = shares(weights_PM, axes="PM")
    if (z.shape[0], z.shape[2]) != alpha.shape:
        raise RewardShapeError(
            f"z_PGM has shape {z.shape}, weights_PM has {alpha.shape}"
        )
    valid = arrays.valid_members(valid_PG, z.shape[:2])
    z = np.where(valid[:, :, None] & (alpha > 0)[:, None, :], z, 0.0)
    # Scores that are corrected for a judge's errors leave [0, 1]; see `unbiased_z`.
    arrays.check_each(z, np.isfinite(z), name="z_PGM", problem=", not finite")
    return z, alpha, valid
