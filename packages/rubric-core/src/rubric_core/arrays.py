"""Rewards in groups, shape [P, G], with a mask of the members that take part."""

from fractions import Fraction
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rubric_core.errors import RewardError, RewardShapeError

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

ROUNDING = 64 * float(np.finfo(np.float64).eps)
"""Rewards no further apart than this, relative to 1 or to the largest, may be equal but for
rounding: .1 + .2 + .3 is not .3 + .2 + .1."""


LARGEST = 1e100
"""Largest absolute reward: the squares of larger ones, or their sum, may not be finite."""


def float_array(values: ArrayLike, *, name: str, axes: str | None) -> FloatArray:
    """Return a float64 copy with as many axes as `axes` has letters; of any shape for None.

    Raises:
        RewardShapeError: another number of axes, or rows of different length.
        RewardError: something that is not a real number, or a masked array.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise RewardError(
            f"{name} must not be a masked array: its mask would be lost; give groups as a plain "
            "array with valid_PG"
        )
    try:
        array = np.asarray(values)
    except ValueError:
        of = "" if axes is None else f" of shape [{', '.join(axes)}]"
        raise RewardShapeError(
            f"{name} must be an array{of}, its rows differ in length"
        ) from None
    if array.dtype.kind not in "fiu":
        raise RewardError(f"{name} must hold real numbers, not {array.dtype}")
    if axes is not None and array.ndim != len(axes):
        raise RewardShapeError(
            f"{name} must have shape [{', '.join(axes)}], not {array.shape}"
        )
    return array.astype(np.float64)


def bool_array(values: ArrayLike, *, name: str) -> BoolArray:
    """Return an array of booleans, of any shape.

    Raises:
        RewardShapeError: rows of different length.
        RewardError: not booleans.
    """
    try:
        array = np.asarray(values)
    except ValueError:
        raise RewardShapeError(
            f"{name} must be an array, its rows differ in length"
        ) from None
    if array.dtype != np.bool_ and array.size:
        raise RewardError(f"{name} must hold booleans, not {array.dtype}")
    return array.astype(np.bool_)


def check_each(
    array: FloatArray, is_good: BoolArray, *, name: str, problem: str
) -> None:
    """Refuse an array with a value that is not good.

    Raises:
        RewardError: there is such a value; the error names the first.
    """
    if not is_good.all():
        first = tuple(int(i) for i in np.argwhere(~is_good)[0])
        raise RewardError(f"{name}{list(first) or ''} is {array[first]}{problem}")


def check_number(value: float | Fraction, *, name: str) -> None:
    """Refuse a value that is not a finite number from 0 up.

    Raises:
        RewardError: the value is negative, not finite or not a number.
    """
    # A comparison of None or a text would be a TypeError, which does not name the argument.
    try:
        good = isinstance(value, Real) and 0 <= float(value) < np.inf  # pyright: ignore[reportUnnecessaryIsInstance]  # a boundary
    except OverflowError:
        raise RewardError(
            f"{name} must be finite and not negative, not an integer or fraction beyond any float"
        ) from None
    if not good:
        raise RewardError(f"{name} must be finite and not negative, not {value!r}")


def valid_members(valid_PG: ArrayLike | None, shape: tuple[int, ...]) -> BoolArray:
    """Return the mask of the members that take part, all of them for None.

    Raises:
        RewardShapeError: not the shape of the rewards, or groups of fewer than two members.
        RewardError: not booleans.
    """
    if shape[1] < 2:  # noqa: PLR2004  # one response has nothing to be compared with
        raise RewardShapeError(f"a group needs at least two responses, G = {shape[1]}")
    if valid_PG is None:
        return np.ones(shape, dtype=np.bool_)
    valid = bool_array(valid_PG, name="valid_PG")
    if valid.shape != shape:
        raise RewardShapeError(
            f"valid_PG has shape {valid.shape}, the rewards have {shape}"
        )
    return valid


def checked_groups(
    rewards_PG: ArrayLike, valid_PG: ArrayLike | None
) -> tuple[FloatArray, BoolArray]:
    """Return rewards, 0 where masked, and the mask.

    Raises:
        RewardShapeError: not [P, G], G < 2, or a mask of another shape.
        RewardError: a valid reward that is not a finite number, or beyond ±1e100.
    """
    rewards = float_array(rewards_PG, name="rewards_PG", axes="PG")
    valid = valid_members(valid_PG, rewards.shape)
    finite = np.isfinite(rewards)
    check_each(
        rewards, ~valid | finite, name="rewards_PG", problem=": mask it with valid_PG"
    )
    small = np.abs(rewards) <= LARGEST
    check_each(
        rewards,
        ~valid | small,
        name="rewards_PG",
        problem=f", beyond ±{LARGEST:g}: scale the rewards",
    )
    return np.where(valid, rewards, 0.0), valid


def spread(rewards_PG: FloatArray, valid_PG: BoolArray) -> FloatArray:
    """Return max − min over the valid members of each group, 0 for fewer than two; shape [P]."""
    high_P = np.max(rewards_PG, axis=1, where=valid_PG, initial=-np.inf)
    low_P = np.min(rewards_PG, axis=1, where=valid_PG, initial=np.inf)
    return np.where(valid_PG.sum(axis=1) > 1, high_P - low_P, 0.0)


def differ(rewards_PG: FloatArray, valid_PG: BoolArray) -> BoolArray:
    """Return which groups have rewards that differ by more than rounding.

        max R − min R > 64 ε · max(1, max |R|)   over the valid members

    Args:
        rewards_PG: shape [P, G]; masked rewards are not read.
        valid_PG: bool, shape [P, G]; False leaves a reward out.

    Returns:
        Shape [P]; False for a group with fewer than two valid members.
    """
    largest_P = np.max(np.abs(rewards_PG), axis=1, where=valid_PG, initial=1.0)
    return spread(rewards_PG, valid_PG) > ROUNDING * largest_P


def std_over_valid(
    rewards_PG: FloatArray, valid_PG: BoolArray, *, ddof: int
) -> FloatArray:
    """Return the standard deviation of the valid members of each group, shape [P].

    0 where there are no more members than `ddof`; whether equal rewards give exactly 0 depends on
    their rounding, so ask `differ` for that.
    """
    count_P = valid_PG.sum(axis=1)
    mean_P = rewards_PG.sum(axis=1, where=valid_PG) / np.maximum(count_P, 1)
    squares_P = ((rewards_PG - mean_P[:, None]) ** 2).sum(axis=1, where=valid_PG)
    return np.sqrt(squares_P / np.maximum(count_P - ddof, 1))
