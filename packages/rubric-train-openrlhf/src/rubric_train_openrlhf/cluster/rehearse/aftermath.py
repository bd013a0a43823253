"""What the two steps left behind: is it what the method says, whole, and does it load?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from math import isfinite
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from rubric_core import group_advantages
from rubric_core.files import read_file
from rubric_core.reward.estimators import GroupAdvantages
from rubric_train_openrlhf.cluster.rehearse.checking import failed, passed, unchecked, warning
from rubric_train_openrlhf.cluster.settings import ClusterPaths
from rubric_train_openrlhf.cluster.training.trainer_states import DeepSpeedStates
from rubric_train_openrlhf.policy import load_policy
from rubric_train_openrlhf.run.checkpoints import checkpoint_path
from rubric_train_openrlhf.run.records import RolloutRow
from rubric_train_openrlhf.step.rewards import Rewards, Sizes, shaped_rewards

if TYPE_CHECKING:
    import numpy.typing as npt

    from rubric_train_openrlhf.cluster.rehearse.checking import Finding
    from rubric_train_openrlhf.config import PathModel, TrainConfig
    from rubric_train_openrlhf.run import RunFolder


_LARGEST_DIFFERENCE: Final = 1e-6
_LARGEST_GAP: Final = {"float32": 1e-3, "bfloat16": 5e-2}
"""Nats: what the arithmetic of an engine and of the trainer differ by, with the same weights."""
_OTHER_JUDGE: Final = "a random model may earn nothing; with --judge fake rewards differ"


def check_steps(config: TrainConfig, folder: RunFolder) -> Finding:
    """Every step is there, its figures are numbers, and some weight has moved."""
    rows = folder.read_metrics()
    steps = [row.step for row in rows]
    if steps != list(range(1, config.steps + 1)):
        return failed(f"metrics.jsonl has the steps {steps}")
    odd = [
        f"{name} of step {row.step}"
        for row in rows
        for name in ("loss", "kl", "grad_norm", "reward_mean")
        if not isfinite(getattr(row, name))
    ]
    if odd:
        return failed(f"not a finite number: {', '.join(odd)}")
    if any(row.grad_norm for row in rows):
        last = rows[-1]
        return passed(
            f"{len(rows)} steps: reward {last.reward_mean:.3f} ± {last.reward_std:.3f}, loss "
            f"{last.loss:.3g}, KL {last.kl:.3g}, gradient norm {last.grad_norm:.3g}"
        )
    every = f"every gradient of {len(rows)} steps is 0"
    if any(row.advantage_abs_mean for row in rows):
        remedy = "see run.log; an objective that leaves every token out has no gradient either"
        return failed(f"{every}, though advantages are not: nothing is learnt", remedy=remedy)
    said = f"{every}, since every advantage is: no update was tried"
    return warning(said, remedy=_OTHER_JUDGE)


def check_rewards(config: TrainConfig, folder: RunFolder) -> Iterator[Finding]:
    """Rewards are in [0, 1], and tell the responses of a group apart."""
    rows = [row for step in _rollouts(config, folder) for group in step for row in group]
    rewards = [row.reward for row in rows if row.reward is not None]
    outside = [reward for reward in rewards if not 0 <= reward <= 1]
    if outside:
        yield failed(f"{len(outside)} rewards are outside of [0, 1], the first {outside[0]!r}")
    failures = Counter(row.outcome for row in rows if row.outcome != "scored")
    if failures:
        counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(failures.items()))
        remedy = "the reasons stand in judgements/ of the rehearsal's run folder"
        said = f"of {len(rows)} judgements {counts}"
        yield failed(said, where="judge.spec", remedy=remedy)
    if not rewards or min(rewards) == max(rewards):
        yield warning("all rewards are equal, so every advantage is 0", remedy=_OTHER_JUDGE)
    elif not outside and not failures:
        lowest, highest = min(rewards), max(rewards)
        yield passed(f"{len(rewards)} rewards from {lowest:.3f} to {highest:.3f}, all scored")


def check_advantages(config: TrainConfig, folder: RunFolder) -> Finding:
    """Recompute every advantage from the rewards on disk."""
    estimator = config.advantage
    if type(estimator) is not GroupAdvantages:
        return unchecked(
            f"advantages of estimator {estimator.estimator!r} may follow from criteria, which the "
            "rollouts do not hold"
        )
    steps = list(_rollouts(config, folder))
    expected = np.concatenate([_recomputed(config, groups, estimator).ravel() for groups in steps])
    written = np.array([row.advantage for groups in steps for group in groups for row in group])
    worst, nonzero = float(np.abs(expected - written).max()), int(np.count_nonzero(written))
    count = len(written)
    if worst <= _LARGEST_DIFFERENCE and nonzero == 0:
        said = f"all {count} advantages are 0, as any formula gives for equal rewards"
        return unchecked(said, remedy=_OTHER_JUDGE)
    said = f"{count} advantages, {nonzero} not 0, differ by at most {worst:.1e} from the formula"
    return failed(said, where="advantage") if worst > _LARGEST_DIFFERENCE else passed(said)


def _rollouts(config: TrainConfig, folder: RunFolder) -> Iterator[list[list[RolloutRow]]]:
    """The groups of each step, in the order of their prompts."""
    for step in range(1, config.steps + 1):
        lines = read_file(folder.rollouts / f"step_{step:06d}.jsonl").splitlines()
        rows = sorted(map(RolloutRow.model_validate_json, lines), key=attrgetter("id"))
        yield [list(group) for _, group in groupby(rows, key=lambda row: row.id.rpartition("-")[0])]


def _recomputed(
    config: TrainConfig, groups: list[list[RolloutRow]], estimator: GroupAdvantages
) -> npt.NDArray[np.float64]:
    def table(name: str, dtype: Any) -> npt.NDArray[Any]:
        return np.array([[getattr(row, name) for row in group] for group in groups], dtype=dtype)

    rewards_PG = table("reward", np.float64)
    valid_PG = ~np.isnan(rewards_PG)
    nothing = np.empty((*rewards_PG.shape, 0))
    shaped_PG = shaped_rewards(
        Rewards(rewards_PG, valid_PG, nothing, np.empty((len(groups), 0))),
        Sizes(table("tokens", np.int64), table("ended", np.bool_)),
        shaping=config.shaping,
        max_new_tokens=config.rollout.max_new_tokens,
    )
    return group_advantages(shaped_PG, std=estimator.std, delta=estimator.delta, valid_PG=valid_PG)


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
        remedy = "see run.log for what the weight sync said"
        return failed(f"{said}: the engine samples from other weights", remedy=remedy)
    if not any(row.grad_norm for row in rows[:-1]):
        said = f"{said}, but no weight had moved by then: an engine with old ones would not be seen"
        return unchecked(said, remedy=_OTHER_JUDGE)
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


def check_checkpoints(config: TrainConfig, folder: RunFolder) -> Iterator[Finding]:
    """The last checkpoint loads, and holds other weights than the start."""
    last = checkpoint_path(folder.checkpoints, step=config.steps)
    paths = last, cast("PathModel", config.model).path
    policy, start = (dict(load_policy(path).model.named_parameters()) for path in paths)
    moved = max((policy[name] - start[name]).detach().abs().max().item() for name in policy)
    if moved == 0:
        trained = any(row.advantage_abs_mean for row in folder.read_metrics())
        finding = failed if trained else warning  # equal rewards move nothing
        yield finding(f"{last.name} holds the weights of the start")
    is_resumable = DeepSpeedStates(ClusterPaths(config.out).trainer_state).check() == config.steps
    if not is_resumable:
        yield failed("there is no state of DeepSpeed to resume from")
    if config.data.validation is not None and not (folder.checkpoints / "best").exists():
        yield failed("no checkpoint is marked as the best")
    if moved and is_resumable:
        yield passed(f"{last.name} loads; a weight moved by up to {moved:.2g} from the start")
