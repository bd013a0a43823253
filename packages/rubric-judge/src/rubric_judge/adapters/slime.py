"""slime, and miles, which grew from it: a reward and what is made of rewards, in a file of yours.

`--custom-rm-path my_rewards.reward` judges a sample or a list of them (`--group-rm`), and
`--custom-reward-post-process-path my_rewards.post_process` computes the advantages. A missing
judgement has the reward nan, which no stack can take for a number, until `post_process` leaves its
sample out: slime itself counts what it removes in the group's mean. Interface read from slime
624b824 and miles 31f1ca9.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from math import nan
from statistics import fmean
from typing import Any, TypeAlias, Unpack, cast

from rubric_core import ConfigError, SchemaError
from rubric_core.reward.estimators import AdvantageEstimator
from rubric_judge.adapters import advantages, rows, scoring
from rubric_judge.adapters.openrlhf import answer_in

__all__ = ["PostProcess", "RewardFunction", "rubric_post_process", "rubric_reward"]

Reward: TypeAlias = "float | dict[str, float] | None"
"""nan where a judgement is missing, None for a sample that was not finished; with `--reward-key` a
dictionary."""
RewardFunction: TypeAlias = Callable[..., Awaitable["Reward | list[Reward]"]]
PostProcess: TypeAlias = (
    "Callable[[Any, Sequence[Any]], tuple[list[float], list[float]]]"
)

_FIELDS = (
    "prompt",
    "response",
    "label",
    "metadata",
    "status",
    "group_index",
    "remove_sample",
)
"""Fields of a sample that are read and written."""
_SNAPSHOTS = "slime 624b824 and miles 31f1ca9"
_ESTIMATORS = ("grpo", "gspo", "cispo")
"""Estimators of slime that take what post-processing gives as the advantage."""
_UNFINISHED = ("aborted", "failed")
"""Statuses of a sample whose generation did not end for a reason that is not the policy's."""


def rubric_reward(**options: Unpack[scoring.MaskingOptions]) -> RewardFunction:
    """Return the function that `--custom-rm-path` names.

    Args:
        options: `judge`, `workers`, `ledger`, `thoughts`; `tasks`, which labels name, unless a
            label is a row, or a line of a task file, as JSON, or `metadata` holds it; and
            `on_unavailable`: "mask", the default, needs `rubric_post_process`.

    Returns:
        A coroutine function of slime's arguments and a sample, or a list of samples. Of several
        samples of a group with one `rollout_id` the last is judged, for all of them.

    Raises:
        ConfigError, JudgeSetupError, LedgerError: nothing could be judged like this.
    """
    scorer = scoring.RubricScorer(**options)
    masks = options.get("on_unavailable", "mask") == "mask"

    async def reward(args: object, samples: Any, **_: object) -> Reward | list[Reward]:
        if masks:
            _require_post_process(args)
        if isinstance(samples, list):
            return await _rewards(args, scorer, cast("list[Any]", samples))
        return (await _rewards(args, scorer, [samples]))[0]

    return reward


def rubric_post_process(
    estimator: advantages.Estimator = "decoupled",
) -> PostProcess:
    """Return the function that `--custom-reward-post-process-path` names.

    Args:
        estimator: "decoupled", each criterion normalised in its group; "group", leave-one-out,
            divided unless `--disable-grpo-std-normalization` is given; or settings of another.

    Returns:
        A function of slime's arguments and the samples of a step. It gives raw rewards, for the
        log, and advantages, and has slime leave out of the loss what was not judged. A missing
        reward is logged as the mean of the others.

    Raises:
        ConfigError: an unknown estimator, or a setting that it does not have.
    """
    chosen = advantages.estimator_of(estimator)

    def post_process(
        args: Any, samples: Sequence[Any]
    ) -> tuple[list[float], list[float]]:
        return _post_processed(args, samples, chosen)

    return post_process


def _require_post_process(args: object) -> None:
    """Refuse to mask where slime's own normalisation would read the missing reward."""
    name = "custom_reward_post_process_path"
    if hasattr(args, name) and getattr(args, name) is None:
        raise ConfigError(
            "a missing judgement can be left out of its group by `rubric_post_process` alone: "
            "give --custom-reward-post-process-path, or choose on_unavailable='raise' or 'zero'",
            location="on_unavailable",
        )


async def _rewards(
    args: object, scorer: scoring.RubricScorer, samples: Sequence[Any]
) -> list[Reward]:
    for sample in samples:
        _check_sample(sample)
    last = {
        _rollout(sample, place): place
        for place, sample in enumerate(samples)
        if not _is_unfinished(sample)
    }
    submissions = [_submission(samples[place], scorer) for place in last.values()]
    judged = await scorer.judge(submissions) if submissions else []
    by_rollout = dict(zip(last, judged, strict=True))
    rewards: list[Reward] = []
    for place, sample in enumerate(samples):
        judgement = by_rollout.get(_rollout(sample, place))
        if judgement is None or _is_unfinished(sample):
            rewards.append(None)  # what slime leaves where it does not ask for a reward
            continue
        record = judgement.record.model_dump_json()
        sample.metadata = {**_metadata(sample), advantages.KEY: record}
        if judgement.reward is None:
            sample.remove_sample = True
        rewards.append(_reward(args, judgement))
    return rewards


def _check_sample(sample: object) -> None:
    missing = [name for name in _FIELDS if not hasattr(sample, name)]
    if missing:
        raise ConfigError(
            f"a {type(sample).__name__} without {', '.join(missing)} is no sample of "
            f"{_SNAPSHOTS}, which this was written for: train on one of them, or give the reward "
            "a sample or a list of samples, not a list of lists",
            location="custom_rm_path",
        )


def _submission(sample: Any, scorer: scoring.RubricScorer) -> scoring.Submission:
    prompt = sample.prompt if isinstance(sample.prompt, str) else ""
    answer = answer_in(prompt + sample.response, prompt, scorer.thoughts)
    row = rows.joined_row(sample.label, _metadata(sample))
    return scoring.Submission(row, answer, sample.prompt)


def _metadata(sample: Any) -> Mapping[str, object]:
    """Return a sample's metadata, which a data set may leave out or give as something else."""
    metadata: object = sample.metadata
    return (
        cast("Mapping[str, object]", metadata) if isinstance(metadata, Mapping) else {}
    )


def _is_unfinished(sample: Any) -> bool:
    return getattr(sample.status, "value", sample.status) in _UNFINISHED


def _rollout(sample: Any, place: int) -> Hashable:
    rollout = getattr(sample, "rollout_id", None)
    return ("row", place) if rollout is None else (sample.group_index, rollout)


def _reward(args: object, judgement: scoring.Judgement) -> Reward:
    reward = nan if judgement.reward is None else judgement.reward
    keys = {
        key
        for name in ("reward_key", "eval_reward_key")
        if isinstance(key := getattr(args, name, None), str)
    }
    if not keys:
        return reward
    metrics = judgement.metrics | judgement.criteria
    return {**metrics, **dict.fromkeys(sorted(keys), reward)}


def _post_processed(
    args: Any, samples: Sequence[Any], chosen: AdvantageEstimator
) -> tuple[list[float], list[float]]:
    theirs = getattr(args, "advantage_estimator", "grpo")
    if theirs not in _ESTIMATORS:
        raise ConfigError(
            f"--advantage-estimator {theirs} makes advantages of rewards itself, and would take "
            f"those of a rubric for rewards: choose one of {', '.join(_ESTIMATORS)}",
            location="advantage_estimator",
        )
    estimator = advantages.undivided(
        chosen, divides=getattr(args, "grpo_std_normalization", True)
    )
    batch = advantages.batch_advantages(
        [_record(sample, place) for place, sample in enumerate(samples)],
        _groups(args, samples),
        estimator=estimator,
        rollouts=[_rollout(sample, place) for place, sample in enumerate(samples)],
    )
    judged = batch.judged_N
    known = [
        reward
        for reward, is_judged in zip(batch.rewards_N.tolist(), judged, strict=True)
        if is_judged
    ]
    mean = fmean(known) if known else nan
    rewards: list[float] = []
    for sample, reward, is_judged in zip(
        samples, batch.rewards_N.tolist(), judged, strict=True
    ):
        if not is_judged:
            sample.remove_sample = True
        rewards.append(reward if is_judged else mean)
    return rewards, batch.advantages_N.tolist()


def _record(sample: Any, place: int) -> str | None:
    _check_sample(sample)
    if _is_unfinished(sample):
        return None
    return advantages.record_in(
        sample.metadata,
        place,
        holder="the sample's metadata",
        remedy="name `rubric_reward(...)` as --custom-rm-path",
    )


def _groups(args: Any, samples: Sequence[Any]) -> list[object]:
    """Return the key of each sample's prompt."""
    indices = [sample.group_index for sample in samples]
    if None not in indices:
        return list(indices)
    size = getattr(args, "n_samples_per_prompt", 0)
    if not size or len(samples) % size:
        raise SchemaError(
            f"{len(samples)} samples without group_index are no groups of n_samples_per_prompt="
            f"{size}: set group_index where the samples are made",
            field="group_index",
        )
    return [place // size for place in range(len(samples))]
