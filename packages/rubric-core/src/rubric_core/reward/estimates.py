"""Calls of an advantage estimator, which may be of another package, and checks of what it gives."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rubric_core.arrays import FloatArray
from rubric_core.errors import PluginError, RubricError
from rubric_core.reward.estimators import AdvantageEstimator, JudgedGroups


def estimated_advantages(
    estimator: AdvantageEstimator, groups: JudgedGroups
) -> FloatArray:
    """Call an estimator and check its advantages.

    Returns:
        Shape [P, G], float64, finite; 0 for masked responses.

    Raises:
        PluginError: it raises, or gives another shape or a number that is not finite.
        RewardError: the rewards or scores cannot be used.
    """
    valid_PG = groups.valid_PG
    output = _call_plugin(estimator, estimator.advantages, groups)
    advantages_PG = _checked_array(
        output, estimator, shape=valid_PG.shape, what="advantages"
    )
    bad_PG = valid_PG & ~np.isfinite(advantages_PG)
    if bad_PG.any():
        p, g = np.argwhere(bad_PG)[0].tolist()
        raise PluginError(
            f"advantage.estimator={estimator.estimator!r} gave {advantages_PG[p, g]} for response "
            f"{g} of group {p}: an advantage must be a finite number"
        )
    return np.where(valid_PG, advantages_PG, 0.0)


def estimated_attribution(
    estimator: AdvantageEstimator, groups: JudgedGroups
) -> FloatArray | None:
    """Call an estimator and check the criteria's parts of its advantages.

    Returns:
        Shape [P, G, M], float64; None where it has no such split.

    Raises:
        PluginError: it raises, or gives another shape.
        RewardError: the scores cannot be used.
    """
    output = _call_plugin(estimator, estimator.attribution, groups)
    if output is None:
        return None
    return _checked_array(
        output, estimator, shape=groups.z_PGM.shape, what="an attribution"
    )


def _call_plugin(
    estimator: AdvantageEstimator,
    method: Callable[[JudgedGroups], object],
    groups: JudgedGroups,
) -> object:
    try:
        return method(groups)
    except RubricError:
        raise
    # An estimator is third-party code: any error is reported as the plugin's. It sees only numbers,
    # so its message cannot hold text of a task.
    except Exception as error:
        raise PluginError(
            f"advantage.estimator={estimator.estimator!r} raised {type(error).__name__}: {error}"
        ) from error


def _checked_array(
    output: object, estimator: AdvantageEstimator, *, shape: tuple[int, ...], what: str
) -> FloatArray:
    """Return an estimator's output as float64, or refuse it: its type, numbers or shape.

    `what` names the output in the error.
    """
    kind = type(output).__name__
    if isinstance(output, np.ndarray | list | tuple):
        array: NDArray[Any] = np.asarray(cast("ArrayLike", output))
        if array.dtype.kind in "fiu" and array.shape == shape:
            return array.astype(np.float64)
        kind = f"{array.dtype} of shape {array.shape}"
    raise PluginError(
        f"advantage.estimator={estimator.estimator!r} gave {kind} for {what}: real numbers of "
        f"shape {shape} are needed"
    )
