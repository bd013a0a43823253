"""TRL: a `GRPOTrainer` whose advantages are by criterion, where each prompt has its own rubric.

`RubricGRPOTrainer` is bound to TRL when it is first asked for, so it is not in `__all__`. It uses
methods that TRL may change, and so takes one series of releases.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

from rubric_core import ConfigError, RewardShapeError
from rubric_core.reward.estimators import AdvantageEstimator, GroupAdvantages
from rubric_judge.adapters import advantages, scoring
from rubric_judge.adapters.trl import is_rubric_reward
from rubric_judge.quality.criteria.record import JudgementRecord

__all__ = ["trainer_class"]

_STACK = advantages.Stack("TRL", "1.16")
_METHODS = ("_generate_and_score_completions", "_calculate_rewards")


class _RubricGRPOTrainer:
    """A `GRPOTrainer` with one reward, `rubric_reward`, and advantages by criterion.

    Everything else, the arguments and the loss, is TRL's own.
    """

    # What TRL's trainer has.
    args: Any
    accelerator: Any
    model: Any
    num_generations: int
    num_generations_eval: int
    _logs: dict[str, Any]

    def __init__(
        self,
        *args: Any,
        advantage: advantages.Estimator = "decoupled",
        **options: Any,
    ) -> None:
        """Make TRL's trainer.

        Args:
            args: those of `GRPOTrainer`.
            advantage: the estimator: "decoupled"; "group", which is leave-one-out, divided as
                `scale_rewards` says; or settings, or an estimator.
            options: those of `GRPOTrainer`.

        Raises:
            ConfigError: an unknown estimator, other rewards than one `rubric_reward`, or settings
                that would have no effect.
        """
        self._estimator = advantages.estimator_of(advantage)
        self._records: list[JudgementRecord] = []
        _check_arguments(self._estimator, args, options)
        super().__init__(*args, **options)
        self._estimator = advantages.undivided(
            self._estimator, divides=self.args.scale_rewards != "none"
        )

    def take_judgements(self, records: Sequence[JudgementRecord]) -> None:
        """Keep the records of a batch, which the reward hands over."""
        self._records = list(records)

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        """Let TRL sample and judge, and put the advantages in the place of its own."""
        self._records = []
        theirs: Any = super()
        output: dict[str, Any] = theirs._generate_and_score_completions(inputs)  # noqa: SLF001
        mine: Any = output["advantages"]
        local = len(mine)
        size = self.num_generations
        if not self.model.training:
            size = self.num_generations_eval
        if size == 1:  # an evaluation: nothing to compare, and TRL's zeros
            return output
        if len(self._records) != local:
            raise RewardShapeError(
                f"{local} completions and the judgements of {len(self._records)}: the reward has "
                "to judge each of a batch, and to be called by this trainer alone"
            )
        gather = scoring.stack_module("accelerate.utils", install="trl").gather_object
        records: list[JudgementRecord] = gather(self._records)
        prompts = [row // size for row in range(len(records))]
        values = advantages.batch_advantages(
            records, prompts, estimator=self._estimator
        ).advantages_N
        start = self.accelerator.process_index * local
        output["advantages"] = mine.new_tensor(values[start : start + local])
        _replace_last(self._logs["advantages"], values.tolist())
        return output


def _check_arguments(
    estimator: AdvantageEstimator, args: Sequence[Any], options: Mapping[str, Any]
) -> None:
    """Refuse what would have no effect, before a model is loaded."""
    arguments: dict[str, Any] = {**options}
    arguments.update(zip(("model", "reward_funcs", "args"), args, strict=False))
    rewards: object = arguments.get("reward_funcs")
    several = cast("list[object]", rewards) if isinstance(rewards, list) else [rewards]
    if len(several) != 1 or not is_rubric_reward(several[0]):
        raise ConfigError(
            "advantages by criterion are of one `rubric_reward(...)` without `beside`: other "
            "rewards would have no part in them; write them as criteria of the rubrics, or "
            "train with TRL's own GRPOTrainer",
            location="reward_funcs",
        )
    scale = getattr(arguments.get("args"), "scale_rewards", "group")
    if isinstance(estimator, GroupAdvantages) and scale == "batch":
        raise ConfigError(
            "scale_rewards='batch' is TRL's own: the estimator 'group' divides by the deviation "
            "of a group ('group'), or not ('none')",
            location="scale_rewards",
        )


def _replace_last(log: deque[float], values: Sequence[float]) -> None:
    """Put values in the place of the last of a log, which may hold fewer."""
    kept = values[max(0, len(values) - len(log)) :]
    for place, value in enumerate(kept, start=len(log) - len(kept)):
        log[place] = value


@cache
def trainer_class() -> type[Any]:
    """Return the trainer: `from rubric_judge.adapters.trl_advantages import RubricGRPOTrainer`.

    Raises:
        MissingExtraError: TRL is not installed.
        ConfigError: its version is another than the one that this was written for.
    """
    base = _STACK.module("trl").GRPOTrainer
    for method in _METHODS:
        _STACK.function(base, method)
    names = {"__module__": __name__, "__doc__": _RubricGRPOTrainer.__doc__}
    return type("RubricGRPOTrainer", (_RubricGRPOTrainer, base), names)


def __getattr__(name: str) -> type[Any]:
    if name == "RubricGRPOTrainer":
        return trainer_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
