"""SkyRL: advantages by criterion, registered in the driver and in the process of the trainer.

SkyRL hands an estimator of its registry rewards and keys of prompts, and no scores beside them. So
two methods of its trainer are wrapped: one keeps the records that `RubricEnv` gave among the
metrics of each episode, the other holds them for the estimator.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rubric_core import ConfigError, SchemaError
from rubric_core.reward.estimators import AdvantageEstimator
from rubric_judge.adapters import advantages

__all__ = ["register"]

_STACK = advantages.Stack("SkyRL", "0.3")
_UTILS = "skyrl.backends.skyrl_train.utils.ppo_utils"
_TRAINER = "skyrl.train.trainer"
_KEPT = "rubric_judgements"
"""Key of the records in the metadata of a training batch."""
_LOADING = (
    "call rubric_judge.adapters.skyrl_advantages.register() in the process of the trainer too, "
    "before BasePPOExp(config).run()"
)
_LOGGING = "register the environment with log_judgements=True among its kwargs"

_Method = Callable[..., Any]


def register() -> None:
    """Register `rubric_decoupled`, `rubric_group` and the other installed estimators with SkyRL.

    Call it before the configuration is checked, and again where the trainer runs. A second call in
    a process does nothing new.

    Raises:
        MissingExtraError: SkyRL is not installed.
        ConfigError: its version is another than the one that this was written for.
    """
    registry = _STACK.module(_UTILS).AdvantageEstimatorRegistry
    known = registry.list_available()
    for name, estimator in advantages.stack_estimators().items():
        if name not in known:
            registry.register(name, _estimate(estimator))
    trainer = _STACK.module(_TRAINER).RayPPOTrainer
    wrappers = {
        "convert_to_training_input": _keeping,
        "compute_advantages_and_returns": _holding,
    }
    for method, wrapper in wrappers.items():
        _STACK.hook(trainer, method, wrapper)


def _estimate(estimator: str) -> Callable[..., tuple[Any, Any]]:
    """Return the function of SkyRL's registry for an estimator."""

    def estimate(
        token_level_rewards: Any,
        response_mask: Any,
        index: Sequence[Any],
        grpo_norm_by_std: bool = True,  # noqa: FBT001, FBT002  # SkyRL's
        **_: object,
    ) -> tuple[Any, Any]:
        batch = advantages.current_batch(stack="SkyRL", remedy=_LOADING)
        return batch.on_tokens(
            index,
            estimator,
            token_level_rewards,
            response_mask,
            divides=grpo_norm_by_std,
        )

    return estimate


def _name(trainer: Any) -> str:
    return str(trainer.cfg.trainer.algorithm.advantage_estimator)


def _chosen(trainer: Any) -> AdvantageEstimator:
    return advantages.estimator_of(advantages.stack_estimators()[_name(trainer)])


def _keeping(convert: _Method) -> _Method:
    """Wrap the method that makes tensors of episodes, and keep the records beside them."""

    def convert_to_training_input(
        self: Any, generator_output: Mapping[str, Any], *args: Any, **options: Any
    ) -> Any:
        batch = convert(self, generator_output, *args, **options)
        if advantages.is_ours(_name(self)):
            batch.metadata[_KEPT] = _records(generator_output)
        return batch

    return convert_to_training_input


def _records(generator_output: Mapping[str, Any]) -> list[str]:
    """Return the record of each episode, by the metrics of its last row."""
    rows = len(generator_output["response_ids"])
    metrics: Sequence[object] = generator_output.get("env_metrics") or [None] * rows
    if len(metrics) != rows:
        raise SchemaError(
            f"SkyRL has {rows} rows and the metrics of {len(metrics)}: it drops rows in a way that "
            "leaves their metrics behind; set trainer.algorithm.dynamic_sampling.type=null",
            field="env_metrics",
        )
    last: Sequence[bool] = generator_output.get("is_last_step") or [True] * rows
    return [
        advantages.record_in(
            values, row, holder="the metrics of SkyRL's episode", remedy=_LOGGING
        )
        for row, (values, is_last) in enumerate(zip(metrics, last, strict=True))
        if is_last
    ]


def _holding(compute: _Method) -> _Method:
    """Wrap the method that calls the estimator, and hold the records meanwhile."""

    def compute_advantages_and_returns(
        self: Any, data: Any, *args: Any, **options: Any
    ) -> Any:
        if not advantages.is_ours(_name(self)):
            return compute(self, data, *args, **options)
        algorithm = self.cfg.trainer.algorithm
        if (
            getattr(algorithm, "zero_variance_filter", False)
            and not _chosen(self).reads_rewards
        ):
            raise ConfigError(
                "trainer.algorithm.zero_variance_filter takes groups of equal rewards out of the "
                "loss, where criteria may differ: set it to false; a group in which nothing "
                "differs has the advantage 0 anyway",
                location="trainer.algorithm.zero_variance_filter",
            )
        if algorithm.use_kl_in_reward:
            raise ConfigError(
                "trainer.algorithm.use_kl_in_reward puts a penalty into rewards, which advantages "
                "by criterion do not read: set it to false, and use_kl_loss=true in its place",
                location="trainer.algorithm.use_kl_in_reward",
            )
        if self.cfg.generator.zero_reward_on_non_stop:
            raise ConfigError(
                "generator.zero_reward_on_non_stop changes rewards, which advantages by criterion "
                "do not read: set it to false, and apply_overlong_filtering=true leaves answers "
                "that were cut out of the loss",
                location="generator.zero_reward_on_non_stop",
            )
        records: list[advantages.Record] = list(data.metadata.pop(_KEPT))
        padding = data.metadata.get("pad_size", 0)
        batch = advantages.JudgedBatch(
            records=[*records, *[None for _ in range(padding)]],
            is_padding=[False for _ in records] + [True for _ in range(padding)],
        )
        with advantages.judged_batch(batch):
            return compute(self, data, *args, **options)

    return compute_advantages_and_returns
