"""Advantage estimators as settings: the kinds that `advantage.estimator` may name.

The formulas are functions in `advantage` and `attribution`; the classes here have their keys. A
package adds an estimator under the entry point `rubric.advantages`.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ConfigDict, Field, SerializeAsAny

from rubric_core.arrays import BoolArray, FloatArray
from rubric_core.errors import PluginError, RubricError
from rubric_core.plugins.variants import Variant, chosen

# pydantic resolves Std at runtime.
from rubric_core.reward.advantage import Std, group_advantages
from rubric_core.reward.attribution import criterion_attribution, decoupled_advantages

ADVANTAGES: Final = "rubric.advantages"


@dataclass(frozen=True)
class JudgedGroups:
    """P groups of G judged responses, with up to M criteria each; the arrays are read-only."""

    rewards_PG: FloatArray
    """Rewards that the policy is trained on: the judge's, after any enabled penalties; nan where
    masked."""
    valid_PG: BoolArray
    """False for responses that are left out, such as those that no judge could be reached for."""
    z_PGM: FloatArray
    """Criterion scores, without penalties; nan where there is no score. In [0, 1], unless they are
    corrected for the judge's errors."""
    weights_PM: FloatArray
    """Criterion weights, padded with 0; 0 where a criterion is masked."""

    def __post_init__(self) -> None:
        """Make the arrays read-only, because they are written to disk after the estimator ran."""
        for name, array in vars(self).items():
            view = array.view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)


class AdvantageEstimator(Variant):
    """A function from rewards to advantages.

    A subclass gives `estimator` the name of its entry point, as
    `estimator: str = "acme-rank"`, declares its settings as fields, and overrides
    `advantages`.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(allow_inf_nan=False)

    group: ClassVar[str] = ADVANTAGES
    key: ClassVar[str] = "estimator"
    reads_rewards: ClassVar[bool] = True
    """Whether the estimator uses `rewards_PG`. If not, a configuration with penalties is refused:
    they would have no effect."""
    estimator: str
    """Name of the estimator: an entry point `rubric.advantages`."""

    @abstractmethod
    def advantages(self, groups: JudgedGroups) -> FloatArray:
        """Return one advantage for each response, [P, G].

        Finite for every valid response; the values of the others are not read. A group in which
        nothing differs teaches nothing and should get exact zeros.
        """

    def attribution(self, groups: JudgedGroups) -> FloatArray | None:
        """Split each advantage into its criteria's parts, [P, G, M]; None where there is no split.

        The groups hold the judge's own rewards here: the part of penalties is reported separately.
        """
        del groups
        return None


class GroupAdvantages(AdvantageEstimator):
    """A = (R − mean of the other responses' R) / (σ + δ); 0 for groups whose rewards are equal.

    Source: paper, §3.2.
    """

    estimator: str = "group"
    std: Std = "sample"
    """Divisor of a group's centred rewards."""
    delta: Annotated[float, Field(gt=0.0)] = 1e-8
    """Stabiliser δ added to the standard deviation."""

    def advantages(self, groups: JudgedGroups) -> FloatArray:
        """Return each reward relative to its siblings, by `group_advantages`."""
        return group_advantages(
            groups.rewards_PG, std=self.std, delta=self.delta, valid_PG=groups.valid_PG
        )

    def attribution(self, groups: JudgedGroups) -> FloatArray | None:
        """Split each advantage by `criterion_attribution`.

        The split is exact, because the advantage is linear in the scores.
        """
        return criterion_attribution(
            groups.z_PGM,
            groups.weights_PM,
            std=self.std,
            delta=self.delta,
            valid_PG=groups.valid_PG,
        )


class DecoupledAdvantages(AdvantageEstimator):
    """Each criterion normalised in its group, then weighted, then scaled over the batch.

    Source: GDPO, group-wise decoupled normalisation.
    """

    reads_rewards: ClassVar[bool] = False
    estimator: str = "decoupled"
    std: Std = "sample"
    """Not read: configurations that name it, as they may for `group`, stay valid."""
    delta: Annotated[float, Field(gt=0.0)] = 1e-8
    """Stabiliser δ added to the standard deviation of the batch."""

    def advantages(self, groups: JudgedGroups) -> FloatArray:
        """Return the weighted sum of each criterion's advantages, by `decoupled_advantages`."""
        return decoupled_advantages(
            groups.z_PGM, groups.weights_PM, delta=self.delta, valid_PG=groups.valid_PG
        )


AdvantageConfig: TypeAlias = Annotated[
    SerializeAsAny[AdvantageEstimator], chosen(AdvantageEstimator, default="group")
]
"""Type of a field that takes any installed estimator; a mapping that names none is of `group`."""


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
    """Return an estimator's output as an array; refuse other types, numbers and shapes."""
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
