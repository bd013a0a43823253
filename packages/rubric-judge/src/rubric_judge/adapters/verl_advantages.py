"""verl: advantages by criterion, loaded by `actor_rollout_ref.model.external_lib`.

verl hands an estimator of its registry rewards and keys of prompts, and no scores beside them. So
what calls estimators is wrapped too, in the process of the trainer, where verl imports this module
before the first step: it finds the records that `compute_score` gave under `log_judgements`.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from rubric_core import ConfigError
from rubric_judge.adapters import advantages

__all__ = ["register"]

_STACK = advantages.Stack("verl", "0.9")
_REGISTRY = "verl.trainer.ppo.core_algos"
_TRAINER = "verl.trainer.ppo.v1.trainer_base"
"""Module of the trainer that `verl.trainer.main_ppo` runs."""
_CALLERS = (
    "verl.trainer.ppo.ray_trainer",
    "verl.experimental.separation.ray_trainer",
)
"""Modules of the older trainers, each with `compute_advantage` under that name."""
_LOADING = (
    "load it with actor_rollout_ref.model.external_lib=rubric_judge.adapters.verl_advantages, "
    "which verl imports after its trainer, and not by VERL_USE_EXTERNAL_MODULES"
)
_LOGGING = (
    "give the reward +reward.custom_reward_function.reward_kwargs.log_judgements=true"
)

_Caller = Callable[..., Any]


def register() -> None:
    """Register `rubric_decoupled`, `rubric_group` and the other installed estimators with verl.

    Trainers that are loaded hand them the judgements from now on. Called by the import of this
    module where verl is loaded; again, it does nothing new.

    Raises:
        MissingExtraError: verl is not installed.
        ConfigError: its version is another than the one that this was written for.
    """
    core = _STACK.module(_REGISTRY)
    for name, estimator in advantages.stack_estimators().items():
        if name not in core.ADV_ESTIMATOR_REGISTRY:
            core.register_adv_est(name)(_estimate(estimator))
    if _TRAINER in sys.modules:
        trainer = sys.modules[_TRAINER]
        _STACK.hook(trainer.PPOTrainer, "_compute_advantage", _with_queue(trainer))
    for caller in _CALLERS:
        if caller in sys.modules:
            _STACK.hook(sys.modules[caller], "compute_advantage", _with_data)


def _estimate(estimator: str) -> Callable[..., tuple[Any, Any]]:
    """Return the function of verl's registry for an estimator."""

    def estimate(
        token_level_rewards: Any,
        response_mask: Any,
        index: Sequence[Any],
        config: Mapping[str, Any] | None = None,
        **_: object,
    ) -> tuple[Any, Any]:
        batch = advantages.current_batch(stack="verl", remedy=_LOADING)
        settings = config or {}
        if settings.get("use_kl_in_reward", False):
            raise ConfigError(
                "algorithm.use_kl_in_reward puts a penalty into rewards, which advantages by "
                "criterion do not read: set it to false, and "
                "actor_rollout_ref.actor.use_kl_loss=true in its place",
                location="algorithm.use_kl_in_reward",
            )
        return batch.on_tokens(
            index,
            estimator,
            token_level_rewards,
            response_mask,
            divides=settings.get("norm_adv_by_std_in_grpo", True),
        )

    return estimate


def _with_queue(trainer: Any) -> Callable[[_Caller], _Caller]:
    """Wrap the step of a trainer whose rows are in verl's TransferQueue."""

    def wrapper(compute: _Caller) -> _Caller:
        def compute_advantage(self: Any, batch: Any, *args: Any, **options: Any) -> Any:
            if not advantages.is_ours(self.config.algorithm.adv_estimator):
                return compute(self, batch, *args, **options)
            rows = trainer.tq.kv_batch_get(
                keys=batch.keys,
                partition_id=batch.partition_id,
                select_fields=["extra_fields"],
            )
            # As verl does: `rows["extra_fields"]` is a plain list in some versions of tensordict.
            extras: list[object] = rows.pop("extra_fields").tolist()
            judged = advantages.JudgedBatch(
                records=[_record_of(extra, row) for row, extra in enumerate(extras)],
                # {uid}_{session}_{part}: a session of several parts is one rollout.
                rollouts=[key.rsplit("_", 1)[0] for key in batch.keys],
                is_padding=[bool(tag.get("is_padding")) for tag in batch.tags],
            )
            with advantages.judged_batch(judged):
                return compute(self, batch, *args, **options)

        return compute_advantage

    return wrapper


def _record_of(extra: object, row: int) -> str:
    fields: object = getattr(extra, "data", extra)
    info: object = None
    if isinstance(fields, Mapping):
        info = cast("Mapping[str, object]", fields).get("reward_extra_info")
    return advantages.record_in(
        info, row, holder="verl's reward_extra_info", remedy=_LOGGING
    )


def _with_data(compute: _Caller) -> _Caller:
    """Wrap the function of a trainer whose rows are in the batch that it is given."""

    def compute_advantage(
        data: Any, adv_estimator: Any, *args: Any, **options: Any
    ) -> Any:
        # The default trainer takes this function over where it is loaded after `register`.
        if not advantages.is_ours(adv_estimator) or advantages.holds_batch():
            return compute(data, adv_estimator, *args, **options)
        column = data.non_tensor_batch.get(advantages.KEY)
        records = [
            advantages.record_in(
                {} if column is None else {advantages.KEY: column[row]},
                row,
                holder="verl's reward_extra_info",
                remedy=_LOGGING,
            )
            for row in range(len(data))
        ]
        with advantages.judged_batch(advantages.JudgedBatch(records)):
            return compute(data, adv_estimator, *args, **options)

    return compute_advantage


if "verl" in sys.modules:
    register()
