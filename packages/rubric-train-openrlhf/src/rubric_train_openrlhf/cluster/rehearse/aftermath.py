"""What the two steps left behind: is it what the method says, whole, and does it load?"""

# pyright: reportUnknownMemberType=false
# torch annotates these methods in part only.
from __future__ import annotations

from itertools import groupby
from math import isfinite
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from rubric_core import group_advantages
from rubric_core.estimators import GroupAdvantages
from rubric_core.files import read_file
from rubric_train_openrlhf.cluster.processes.settings import ClusterPaths
from rubric_train_openrlhf.cluster.rehearse.finding import failed, passed, unchecked, warning
from rubric_train_openrlhf.cluster.training.trainer_states import DeepSpeedStates
from rubric_train_openrlhf.policy import load_policy
from rubric_train_openrlhf.run.checkpoints import checkpoint_path
from rubric_train_openrlhf.run.records import RolloutRow
from rubric_train_openrlhf.step.rewards import Rewards, Sizes, shaped_rewards

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from rubric_train_openrlhf.cluster.rehearse.finding import Finding
    from rubric_train_openrlhf.config import TrainConfig
    from rubric_train_openrlhf.policy import Policy
    from rubric_train_openrlhf.run import MetricsRow, RunFolder


_LARGEST_DIFFERENCE: Final = 1e-6
_LARGEST_GAP: Final = {"float32": 1e-3, "bfloat16": 5e-2}
"""Nats: what the arithmetic of an engine and of the trainer differ by, with the same weights."""
_OTHER_JUDGE: Final = "a random model may earn nothing; with --judge fake rewards differ"

Group = tuple[RolloutRow, ...]


def check_steps(config: TrainConfig, folder: RunFolder) -> Iterator[Finding]:
    """Every step is there, and its figures are numbers."""
    rows = folder.read_metrics()
    if [row.step for row in rows] != list(range(1, config.steps + 1)):
        yield failed(f"metrics.jsonl has the steps {[row.step for row in rows]}")
        return
    odd = [
        f"{name} of step {row.step}"
        for row in rows
        for name in ("loss", "kl", "grad_norm", "reward_mean")
        if not isfinite(getattr(row, name))
    ]
    if odd:
        yield failed(f"not a finite number: {', '.join(odd)}")
        return
    last = rows[-1]
    if not any(row.grad_norm for row in rows):
        yield _unmoved(rows)
        return
    yield passed(
        f"{len(rows)} steps: reward {last.reward_mean:.3f} ± {last.reward_std:.3f}, loss "
        f"{last.loss:.3g}, KL {last.kl:.3g}, gradient norm {last.grad_norm:.3g}"
    )


def check_rewards(config: TrainConfig, folder: RunFolder) -> Iterator[Finding]:
    """Rewards are in [0, 1], and tell the responses of a group apart."""
    rows = [row for groups in rollouts(config, folder) for group in groups for row in group]
    rewards = [row.reward for row in rows if row.reward is not None]
    outside = [reward for reward in rewards if not 0 <= reward <= 1]
    if outside:
        yield failed(f"{len(outside)} rewards are outside of [0, 1], the first {outside[0]!r}")
    failures = [row.outcome for row in rows if row.outcome != "scored"]
    if failures:
        counts = ", ".join(f"{failures.count(name)} {name}" for name in sorted(set(failures)))
        yield failed(
            f"of {len(rows)} judgements {counts}",
            where="judge.spec",
            remedy="the reasons stand in judgements/ of the rehearsal's run folder",
        )
    if not rewards or min(rewards) == max(rewards):
        yield warning(
            "all rewards are equal, so every advantage is 0",
            remedy=_OTHER_JUDGE,
        )
    elif not outside and not failures:
        yield passed(
            f"{len(rewards)} rewards from {min(rewards):.3f} to {max(rewards):.3f}, all scored"
        )


def check_advantages(config: TrainConfig, folder: RunFolder) -> Iterator[Finding]:
    """Recompute every advantage from the rewards on disk."""
    estimator = config.advantage
    if type(estimator) is not GroupAdvantages:
        yield unchecked(
            f"advantages of estimator {estimator.estimator!r} may follow from criteria, which the "
            "rollouts do not hold"
        )
        return
    worst, count, nonzero = 0.0, 0, 0
    for groups in rollouts(config, folder):
        expected_PG = _recomputed(config, groups, estimator)
        written_PG = np.array([[row.advantage for row in group] for group in groups])
        worst = max(worst, float(np.abs(expected_PG - written_PG).max()))
        count += written_PG.size
        nonzero += int(np.count_nonzero(written_PG))
    said = f"{count} advantages, {nonzero} not 0, differ by at most {worst:.1e} from the formula"
    if worst > _LARGEST_DIFFERENCE:
        yield failed(said, where="advantage")
    elif nonzero == 0:
        yield unchecked(
            f"all {count} advantages are 0, as any formula gives for equal rewards",
            remedy=_OTHER_JUDGE,
        )
    else:
        yield passed(said)


def check_sync(config: TrainConfig, folder: RunFolder) -> Iterator[Finding]:
    """After an update the engines must sample from the new weights."""
    rows = folder.read_metrics()
    gaps = [row.cluster.sampler_gap for row in rows if row.cluster is not None]
    if len(gaps) < config.steps:
        yield failed("the steps do not say how far engines and policy are apart")
        return
    limit = _LARGEST_GAP[config.precision]
    said = (
        f"log-probabilities of engine and policy differ by {gaps[0]:.1e} nats before the first "
        f"update and {gaps[-1]:.1e} after it (limit {limit:g})"
    )
    if gaps[-1] > limit:
        yield failed(
            f"{said}: the engine samples from other weights",
            remedy="see run.log for what the weight sync said",
        )
    elif not any(row.grad_norm for row in rows[:-1]):
        yield unchecked(
            f"{said}, but no weight had moved by then: an engine with old ones would not be seen",
            remedy=_OTHER_JUDGE,
        )
    else:
        yield passed(f"{said}, with KL {rows[-1].kl:.3g} to the start")


def check_heldout(config: TrainConfig, folder: RunFolder) -> Iterator[Finding]:
    """One pass before training, and one after every step that is due."""
    if config.data.validation is None:
        yield passed("none is asked for", where="data.validation")
        return
    rows = folder.read_heldout()
    due = list(range(config.steps + 1))
    if [row.step for row in rows] != due:
        yield failed(f"held-out passes at steps {[row.step for row in rows]}, not {due}")
        return
    means = ", ".join(f"{row.reward_mean:.3f}" for row in rows)
    yield passed(f"{len(rows)} passes over {rows[-1].n} questions: {means}")


def _unmoved(rows: Sequence[MetricsRow]) -> Finding:
    """Without a gradient the weights of the end are those of the start."""
    if any(row.advantage_abs_mean for row in rows):
        return failed(
            f"every gradient of {len(rows)} steps is 0, though advantages are not: nothing is "
            "learnt",
            remedy="see run.log; an objective that leaves every token out has no gradient either",
        )
    return warning(
        f"every gradient of {len(rows)} steps is 0, since every advantage is: no update was tried",
        remedy=_OTHER_JUDGE,
    )


def rollouts(config: TrainConfig, folder: RunFolder) -> Iterator[list[Group]]:
    """The groups of each step, in the order of their prompts."""
    for step in range(1, config.steps + 1):
        path = folder.rollouts / f"step_{step:06d}.jsonl"
        lines = read_file(path).splitlines()
        rows = sorted((RolloutRow.model_validate_json(line) for line in lines), key=_id)
        yield [
            tuple(group) for _, group in groupby(rows, key=lambda row: row.id.rpartition("-")[0])
        ]


def _id(row: RolloutRow) -> str:
    return row.id


def _recomputed(
    config: TrainConfig, groups: list[Group], estimator: GroupAdvantages
) -> npt.NDArray[np.float64]:
    def table(name: str) -> list[list[object]]:
        return [[getattr(row, name) for row in group] for group in groups]

    rewards_PG = np.array(table("reward"), dtype=np.float64)
    valid_PG = ~np.isnan(rewards_PG)
    nothing = np.empty((*rewards_PG.shape, 0))
    shaped_PG = shaped_rewards(
        Rewards(rewards_PG, valid_PG, nothing, np.empty((len(groups), 0))),
        Sizes(np.array(table("tokens"), dtype=np.int64), np.array(table("ended"), dtype=np.bool_)),
        shaping=config.shaping,
        max_new_tokens=config.rollout.max_new_tokens,
    )
    return group_advantages(shaped_PG, std=estimator.std, delta=estimator.delta, valid_PG=valid_PG)


def check_checkpoints(config: TrainConfig, folder: RunFolder) -> Iterator[Finding]:
    """The last checkpoint loads, and holds other weights than the start."""
    last = checkpoint_path(folder.checkpoints, step=config.steps)
    policy, start = load_policy(last), load_policy(config.model.path)  # type: ignore[union-attr]
    moved = _largest_change(policy, start)
    if moved == 0:
        trained = any(row.advantage_abs_mean for row in folder.read_metrics())
        finding = failed if trained else warning  # equal rewards move nothing
        yield finding(f"{last.name} holds the weights of the start", where="checkpoint")
    states = DeepSpeedStates(ClusterPaths(config.out).trainer_state)
    resumable = states.check() == config.steps
    if not resumable:
        yield failed("there is no state of DeepSpeed to resume from", where="checkpoint")
    if config.data.validation is not None and not (folder.checkpoints / "best").exists():
        yield failed("no checkpoint is marked as the best", where="checkpoint")
    if moved and resumable:
        yield passed(f"{last.name} loads; a weight moved by up to {moved:.2g} from the start")


def _largest_change(policy: Policy, start: Policy) -> float:
    before = dict(start.model.named_parameters())
    with torch.no_grad():
        changes = (
            (weight - before[name]).abs().max().item()
            for name, weight in policy.model.named_parameters()
        )
        return max(changes)
