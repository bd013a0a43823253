"""Advantage estimators as settings: the kinds that `advantage.estimator` may name.

The formulas are functions in `advantage` and `attribution`; the classes here have their keys. A
package adds an estimator under the entry point `rubric.advantages`; `estimates` calls it.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, SerializeAsAny

from rubric_core.arrays import BoolArray, FloatArray
from rubric_core.plugins.variants import Variant, chosen
from rubric_core.reward.advantage import group_advantages
from rubric_core.reward.attribution import criterion_attribution, decoupled_advantages
from rubric_core.reward.inputs import Std  # pydantic resolves it at runtime

ADVANTAGES = "rubric.advantages"


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


AdvantageConfig = Annotated[
    SerializeAsAny[AdvantageEstimator], chosen(AdvantageEstimator, default="group")
]
"""Type of a field that takes any installed estimator; a mapping that names none is of `group`."""
