"""What the two steps wrote to disk for later: checkpoints that load, and no text of the judge's."""

# pyright: reportUnknownMemberType=false
# torch annotates these methods in part only.
from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from rubric_core import read_tasks
from rubric_train_openrlhf.cluster.paths import ClusterPaths
from rubric_train_openrlhf.cluster.rehearse.finding import failed, passed, warning
from rubric_train_openrlhf.policy import load_policy
from rubric_train_openrlhf.run.checkpoints import checkpoint_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rubric_core import Task
    from rubric_train_openrlhf.cluster.rehearse.finding import Finding
    from rubric_train_openrlhf.config import TrainConfig
    from rubric_train_openrlhf.policy import Policy
    from rubric_train_openrlhf.run import RunFolder

_JUDGES_SIDE: Final = ("judgements", "ledger")
"""What only the judge's side reads: everything else in a run folder may be read by the policy's."""
_SHORTEST_SECRET: Final = 24
"""Characters; a shorter text may well stand in a file by chance."""


def check_checkpoints(config: TrainConfig, folder: RunFolder) -> Iterator[Finding]:
    """The last checkpoint loads, and holds other weights than the start."""
    last = checkpoint_path(folder.checkpoints, step=config.steps)
    policy, start = load_policy(last), load_policy(config.model.path)  # type: ignore[union-attr]
    moved = _largest_change(policy, start)
    if moved == 0:
        trained = any(row.advantage_abs_mean for row in folder.read_metrics())
        finding = failed if trained else warning  # equal rewards move nothing
        yield finding(f"{last.name} holds the weights of the start", where="checkpoint")
    states = list(ClusterPaths(config.out).trainer_state.glob("*/*"))
    if not states:
        yield failed("there is no state of DeepSpeed to resume from", where="checkpoint")
    if config.data.validation is not None and not (folder.checkpoints / "best").exists():
        yield failed("no checkpoint is marked as the best", where="checkpoint")
    if moved and states:
        yield passed(f"{last.name} loads; a weight moved by up to {moved:.2g} from the start")


def check_asymmetry(config: TrainConfig, folder: RunFolder) -> Iterator[Finding]:
    """Search what the policy's side may read for passages and criteria."""
    secrets = list(_secrets(read_tasks(config.data.train)))
    files = [path for path in _policy_files(folder) if path.is_file()]
    found = sorted(
        {
            path.relative_to(folder.path.parent).as_posix()
            for path in files
            for content in [path.read_bytes()]
            if any(secret in content for secret in secrets)
        }
    )
    for name in found:
        yield failed(f"{name} holds text of a passage or a rubric", remedy="report it: a defect")
    if not secrets:
        yield warning("passages and criteria are too short to be searched for")
    elif not found:
        yield passed(f"none of {len(secrets)} passages and criteria stands in {len(files)} files")


def _policy_files(folder: RunFolder) -> Iterator[Path]:
    root = folder.path.parent
    for path in (*root.glob("*.log"), *folder.path.rglob("*")):
        if not any(part.startswith(_JUDGES_SIDE) for part in path.relative_to(root).parts):
            yield path


def _secrets(tasks: Iterator[Task]) -> Iterator[bytes]:
    """The middle of each passage, and each criterion's description."""
    for task in tasks:
        passage = task.grounding.reveal()
        middle = passage[len(passage) // 4 : len(passage) // 4 + 3 * _SHORTEST_SECRET]
        texts = [middle, *(criterion.description for criterion in task.rubric)]
        yield from (text.encode() for text in texts if len(text) >= _SHORTEST_SECRET)


def _largest_change(policy: Policy, start: Policy) -> float:
    before = dict(start.model.named_parameters())
    with torch.no_grad():
        changes = (
            (weight - before[name]).abs().max().item()
            for name, weight in policy.model.named_parameters()
        )
        return max(changes)
