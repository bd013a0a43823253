"""What the two steps left behind: is it what the method says, whole, and does it load?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from math import isfinite
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from rubric_core import group_advantages
from rubric_core.files import read_file
from rubric_core.reward.estimators import GroupAdvantages
from rubric_train_openrlhf.cluster.rehearse.checking import failed, passed, unchecked, warning
from rubric_train_openrlhf.cluster.settings import ClusterPaths
from rubric_train_openrlhf.cluster.training.trainer_states import DeepSpeedStates
from rubric_train_openrlhf.policy import Policy, load_policy
from rubric_train_openrlhf.run.checkpoints import checkpoint_path
from rubric_train_openrlhf.run.records import RolloutRow
from rubric_train_openrlhf.step.rewards import Rewards, Sizes, shaped_rewards

if TYPE_CHECKING:
    import numpy.typing as npt

    from rubric_train_openrlhf.cluster.rehearse.checking import Finding
    from rubric_train_openrlhf.config import TrainConfig
    from rubric_train_openrlhf.run import RunFolder


_LARGEST_DIFFERENCE: Final = 1e-6
_LARGEST_GAP: Final = {"float32": 1e-3, "bfloat16": 5e-2}
"""Nats: what the arithmetic of an engine and of the trainer differ by, with the same weights."""
_OTHER_JUDGE: Final = "a random model may earn nothing; with --judge fake rewards differ"

Group = tuple[RolloutRow, ...]


def check_steps(config: TrainConfig, folder: RunFolder) -> Finding:
    """Every step is there, its figures are numbers, and some weight has moved."""
    rows = folder.read_metrics()
    if [row.step for row in rows] != list(range(1, config.steps + 1)):
        return failed(f"metrics.jsonl has the steps {[row.step for row in rows]}")
    odd = [
        f"{name} of step {row.step}"
        for row in rows
        for name in ("loss", "kl", "grad_norm", "reward_mean")
        if not isfinite(getattr(row, name))
    ]
    if odd:
        return failed(f"not a finite number: {', '.join(odd)}")
    every = f"every gradient of {len(rows)} steps is 0"
    if any(row.grad_norm for row in rows):
        last = rows[-1]
        return passed(
            f"{len(rows)} steps: reward {last.reward_mean:.3f} ± {last.reward_std:.3f}, loss "
            f"{last.loss:.3g}, KL {last.kl:.3g}, gradient norm {last.grad_norm:.3g}"
        )
    if any(row.advantage_abs_mean for row in rows):
        return failed(
            f"{every}, though advantages are not: nothing is learnt",
            remedy="see run.log; an objective that leaves every token out has no gradient either",
        )
    said = f"{every}, since every advantage is: no update was tried"
    return warning(said, remedy=_OTHER_JUDGE)


def check_rewards(config: TrainConfig, folder: RunFolder) -> Iterator[Finding]:
    """Rewards are in [0, 1], and tell the responses of a group apart."""
    rows = [row for groups in rollouts(config, folder) for group in groups for row in group]
    rewards = [row.reward for row in rows if row.reward is not None]
    outside = [reward for reward in rewards if not 0 <= reward <= 1]
    if outside:
        yield failed(f"{len(outside)} rewards are outside of [0, 1], the first {outside[0]!r}")
    failures = Counter(row.outcome for row in rows if row.outcome != "scored")
    if failures:
        counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(failures.items()))
        yield failed(
            f"of {len(rows)} judgements {counts}",
            where="judge.spec",
            remedy="the reasons stand in judgements/ of the rehearsal's run folder",
        )
    if not rewards or min(rewards) == max(rewards):
        yield warning("all rewards are equal, so every advantage is 0", remedy=_OTHER_JUDGE)
    elif not outside and not failures:
        yield passed(
            f"{len(rewards)} rewards from {min(rewards):.3f} to {max(rewards):.3f}, all scored"
        )


def check_advantages(config: TrainConfig, folder: RunFolder) -> Finding:
    """Recompute every advantage from the rewards on disk."""
    estimator = config.advantage
    if type(estimator) is not GroupAdvantages:
        return unchecked(
            f"advantages of estimator {estimator.estimator!r} may follow from criteria, which the "
            "rollouts do not hold"
        )
    worst, count, nonzero = 0.0, 0, 0
    for groups in rollouts(config, folder):
        expected_PG = _recomputed(config, groups, estimator)
        written_PG = np.array([[row.advantage for row in group] for group in groups])
        worst = max(worst, float(np.abs(expected_PG - written_PG).max()))
        count += written_PG.size
        nonzero += int(np.count_nonzero(written_PG))
    if worst <= _LARGEST_DIFFERENCE and nonzero == 0:
        said = f"all {count} advantages are 0, as any formula gives for equal rewards"
        return unchecked(said, remedy=_OTHER_JUDGE)
    said = f"{count} advantages, {nonzero} not 0, differ by at most {worst:.1e} from the formula"
    return failed(said, where="advantage") if worst > _LARGEST_DIFFERENCE else passed(said)


def check_sync(config: TrainConfig, folder: RunFolder) -> Finding:
    """After an update the engines must sample from the new weights."""
    rows = folder.read_metrics()
    gaps = [row.cluster.sampler_gap for row in rows if row.cluster is not None]
    if len(gaps) < config.steps:
        return failed("the steps do not say how far engines and policy are apart")
    limit = _LARGEST_GAP[config.precision]
    said = (
        f"log-probabilities of engine and policy differ by {gaps[0]:.1e} nats before the first "
        f"update and {gaps[-1]:.1e} after it (limit {limit:g})"
    )
    if gaps[-1] > limit:
        return failed(
            f"{said}: the engine samples from other weights",
            remedy="see run.log for what the weight sync said",
        )
    if not any(row.grad_norm for row in rows[:-1]):
        return unchecked(
            f"{said}, but no weight had moved by then: an engine with old ones would not be seen",
            remedy=_OTHER_JUDGE,
        )
    return passed(f"{said}, with KL {rows[-1].kl:.3g} to the start")


def check_heldout(config: TrainConfig, folder: RunFolder) -> Finding:
    """One pass before training, and one after every step that is due."""
    if config.data.validation is None:
        return passed("none is asked for")
    rows = folder.read_heldout()
    steps, due = [row.step for row in rows], list(range(config.steps + 1))
    if steps != due:
        return failed(f"held-out passes at steps {steps}, not {due}")
    means = ", ".join(f"{row.reward_mean:.3f}" for row in rows)
    return passed(f"{len(rows)} passes over {rows[-1].n} questions: {means}")


def rollouts(config: TrainConfig, folder: RunFolder) -> Iterator[list[Group]]:
    """The groups of each step, in the order of their prompts."""
    for step in range(1, config.steps + 1):
        path = folder.rollouts / f"step_{step:06d}.jsonl"
        lines = read_file(path).splitlines()
        rows = sorted(map(RolloutRow.model_validate_json, lines), key=attrgetter("id"))
        yield [
            tuple(group) for _, group in groupby(rows, key=lambda row: row.id.rpartition("-")[0])
        ]


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
        yield finding(f"{last.name} holds the weights of the start")
    states = DeepSpeedStates(ClusterPaths(config.out).trainer_state)
    resumable = states.check() == config.steps
    if not resumable:
        yield failed("there is no state of DeepSpeed to resume from")
    if config.data.validation is not None and not (folder.checkpoints / "best").exists():
        yield failed("no checkpoint is marked as the best")
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
