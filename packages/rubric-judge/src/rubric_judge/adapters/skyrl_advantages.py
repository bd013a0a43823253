"""SkyRL: advantages by criterion, and a trainer that leaves out what nobody judged.

SkyRL hands an estimator of its registry rewards and keys of prompts, and no scores beside them. So
two methods of its trainer are wrapped: one keeps the records that `RubricEnv` gave among the
metrics of each episode, the other holds them for the estimator. Under SkyRL's own estimators they
leave the episodes out of their groups that have no judgement.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rubric_core import ConfigError, SchemaError
from rubric_core.reward.estimators import AdvantageEstimator
from rubric_judge.adapters import advantages, skyrl

__all__ = ["register"]

_STACK = advantages.Stack("SkyRL", "0.3")
_UTILS = "skyrl.backends.skyrl_train.utils.ppo_utils"
_KEPT = "rubric_judgements"
_LEFT_OUT = "rubric_left_out"
"""Keys, in the metadata of a training batch, of the records and of what has no judgement."""
_WITHOUT_GROUPS = {"reinforce++", "gae"}
"""SkyRL's estimators that compare an episode with the batch, or with a critic."""
_LOADING = (
    "call rubric_judge.adapters.skyrl_advantages.register() in the process of the trainer too, "
    "before BasePPOExp(config).run()"
)
_LOGGING = "register the environment with log_judgements=True among its kwargs"

_Method = Callable[..., Any]


def register() -> None:
    """Register `rubric_decoupled`, `rubric_group` and the other installed estimators with SkyRL.

    Call it before the configuration is checked, and again where the trainer runs. A second call in
    a process does nothing new. From then on `RubricEnv` there has the policy "mask" unless another
    is set: under SkyRL's own estimators too, an episode without a judgement is left out of its
    group, and so is the only judged one of a group, if groups are compared; both have advantage 0.

    Raises:
        MissingExtraError: SkyRL is not installed.
        ConfigError: its version is another than the one that this was written for.
    """
    registry = _STACK.module(_UTILS).AdvantageEstimatorRegistry
    known = registry.list_available()
    for name, estimator in advantages.stack_estimators().items():
        if name not in known:
            registry.register(name, _estimate(estimator))
    trainer = _STACK.module(skyrl.TRAINER).RayPPOTrainer
    for method, wrapper in zip(skyrl.HOOKED, (_keeping, _holding), strict=True):
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
        is_ours = advantages.is_ours(_name(self))
        if not is_ours and not skyrl.leaves_out.is_set():
            return batch
        _refuse_lost_metrics(self.cfg, generator_output)
        episodes = _episodes(generator_output)
        if is_ours:
            batch.metadata[_KEPT] = [
                advantages.record_in(
                    values,
                    row,
                    holder="the metrics of SkyRL's episode",
                    remedy=_LOGGING,
                )
                for row, values in episodes
            ]
        else:
            batch.metadata[_LEFT_OUT] = [
                bool((values or {}).get(skyrl.LEFT_OUT)) for _, values in episodes
            ]
        return batch

    return convert_to_training_input


def _refuse_lost_metrics(cfg: Any, generator_output: Mapping[str, Any]) -> None:
    """Refuse settings under which the metrics of episodes do not come with their rows."""
    sampling = cfg.trainer.algorithm.dynamic_sampling.type
    if sampling is not None:
        raise ConfigError(
            f"trainer.algorithm.dynamic_sampling.type={sampling}: SkyRL moves or drops rows and "
            "leaves their metrics behind, and with them what the judge said: set it to null; a "
            "group in which nothing differs has the advantage 0 anyway",
            location="trainer.algorithm.dynamic_sampling.type",
        )
    if not generator_output.get("env_metrics"):
        raise ConfigError(
            "SkyRL's generator hands over no metrics of episodes, and so not what the judge said: "
            "set generator.batched=false and generator.merge_stepwise_output=false; a generator of "
            "your own fills env_metrics. To train on rewards alone, with 0 for what nobody judged, "
            "register the environment with on_unavailable='zero' and take an estimator of SkyRL's",
            location="generator.batched",
        )


def _episodes(
    generator_output: Mapping[str, Any],
) -> list[tuple[int, Mapping[str, object] | None]]:
    """Return the last row of each episode, and its metrics."""
    rows = len(generator_output["response_ids"])
    metrics: Sequence[Mapping[str, object] | None] = generator_output["env_metrics"]
    if len(metrics) != rows:
        raise SchemaError(
            f"SkyRL's generator has {rows} rows and the metrics of {len(metrics)}: it needs one "
            "entry of env_metrics for each of response_ids",
            field="env_metrics",
        )
    last: Sequence[bool] = generator_output.get("is_last_step") or [True] * rows
    return [
        (row, values)
        for row, (values, is_last) in enumerate(zip(metrics, last, strict=True))
        if is_last
    ]


def _holding(compute: _Method) -> _Method:
    """Wrap the method that calls the estimator, and hold the records meanwhile."""

    def compute_advantages_and_returns(
        self: Any, data: Any, *args: Any, **options: Any
    ) -> Any:
        if not advantages.is_ours(_name(self)):
            has_groups = _name(self) not in _WITHOUT_GROUPS
            out = _rows_left_out(data.metadata, has_groups=has_groups)
            if not any(out):
                return compute(self, data, *args, **options)
            return _without(out, data, lambda: compute(self, data, *args, **options))
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


def _rows_left_out(metadata: dict[str, Any], *, has_groups: bool) -> list[bool]:
    """Return whether each row is left out: its episode has no judgement, or no other to compare.

    Args:
        metadata: of a batch.
        has_groups: whether the estimator compares the episodes of one prompt.
    """
    flags: list[bool] = metadata.pop(_LEFT_OUT, [])
    if not any(flags):
        return []
    uids: Sequence[object] = metadata["uids"]
    last: Sequence[bool] = metadata.get("is_last_step") or [True] * len(uids)
    rows_of: list[list[int]] = [[]]
    for row, is_last in enumerate(last):
        rows_of[-1].append(row)
        if is_last:
            rows_of.append([])
    episodes = list(zip(rows_of, flags, strict=False))  # the rest is padding
    size = Counter(uids[rows[0]] for rows, _ in episodes)
    judged = Counter(uids[rows[0]] for rows, flag in episodes if not flag)
    out = [False] * len(uids)
    for rows, flag in episodes:
        key = uids[rows[0]]
        is_alone = has_groups and judged[key] == 1 and size[key] > 1
        if flag or is_alone:
            for row in rows:
                out[row] = True
    return out


def _without(out: Sequence[bool], data: Any, compute: Callable[[], Any]) -> Any:
    """Compute the advantages of a batch without some rows, whose advantage is 0."""
    uids = data.metadata["uids"]
    mask = data["response_mask"]
    kept = mask.new_tensor([not is_out for is_out in out]).unsqueeze(-1)
    data.metadata["uids"] = [
        f"rubric_left_out_{row}" if is_out else uid
        for row, (uid, is_out) in enumerate(zip(uids, out, strict=True))
    ]
    data["response_mask"] = mask * kept
    done = compute()
    done.metadata["uids"] = uids
    done["response_mask"] = mask
    for name in ("advantages", "returns"):
        done[name] = done[name] * kept
    return done
