"""What the two steps wrote to disk for later: checkpoints that load."""

# pyright: reportUnknownMemberType=false
# torch annotates these methods in part only.
from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from rubric_train_openrlhf.cluster.processes.settings import ClusterPaths
from rubric_train_openrlhf.cluster.rehearse.finding import failed, passed, warning
from rubric_train_openrlhf.cluster.training.checkpoints import DeepSpeedStates
from rubric_train_openrlhf.policy import load_policy
from rubric_train_openrlhf.run.checkpoints import checkpoint_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rubric_train_openrlhf.cluster.rehearse.finding import Finding
    from rubric_train_openrlhf.config import TrainConfig
    from rubric_train_openrlhf.policy import Policy
    from rubric_train_openrlhf.run import RunFolder


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
