"""Checkpoint folders: a model in Hugging Face format and the state of the trainer.

Step 0 is the policy before training; it is the reference model too and is never deleted.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from rubric_core import ConfigError
from rubric_core.data.model_files import model_files
from rubric_core.files import open_file
from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.run.folder import first_changed
from rubric_train_openrlhf.run.writing import (
    disk_errors,
    point_link,
    save_tensors,
    whole_folder,
)

if TYPE_CHECKING:
    from rubric_train_openrlhf.policy import Policy

_STATE_FILE = "trainer_state.pt"


@dataclass(frozen=True, config=ConfigDict(strict=True))
class TrainerState:
    """All that the next step depends on beside the weights and the config."""

    step: int
    """Steps done."""
    prompts_drawn: int
    """Position in the endless order of prompts."""
    wall_s: float
    """Seconds spent so far, restarts included."""
    optimizer: dict[str, Any]
    schedule: dict[str, Any]
    files: dict[str, Any] = field(default_factory=dict[str, Any])
    """Digests of the model's files, which the state goes with; empty in older checkpoints."""
    weights: dict[str, Any] = field(default_factory=dict[str, Any])
    """The trained weights, where the model's files hold them in another number format."""


def checkpoint_path(checkpoints: Path, *, step: int) -> Path:
    """Folder of one step's checkpoint."""
    return checkpoints / f"step_{step:06d}"


def save_checkpoint(checkpoints: Path, policy: Policy, state: TrainerState) -> Path:
    """Write a whole checkpoint or none.

    Raises:
        DiskWriteError: the folder could not be written; nothing of it is left.
    """
    path = checkpoint_path(checkpoints, step=state.step)
    with whole_folder(path) as temporary:
        policy.write(temporary)
        files = model_files(temporary)
        weights = policy.model.state_dict() if policy.is_cast and state.step else {}
        save_tensors(
            temporary / _STATE_FILE, {**vars(state), "files": files, "weights": weights}
        )
    return path


def load_state(path: Path) -> TrainerState:
    """Read the trainer's state of one checkpoint, and see that it is still beside its model.

    Raises:
        ResumeError: the file is missing or is not such a state, or a file of the model is missing,
            unreadable or another.
    """
    # Only this needs torch, and only a run that goes on.
    import torch

    try:
        with open_file(path / _STATE_FILE) as file:
            state = TrainerState(
                **torch.load(file, map_location="cpu", weights_only=True)
            )
    # Reading a damaged archive may raise anything, depending on its bytes.
    except Exception as exc:
        raise _lost(
            path, f"{str(path / _STATE_FILE)!r} holds no trainer state"
        ) from exc
    try:
        changed = first_changed(path, state.files)
    except ConfigError as exc:
        raise _lost(path, str(exc)) from exc
    if changed is not None:
        said = f"{str(path / changed)!r} is missing, or is not what the run wrote"
        raise _lost(path, said)
    return state


def _lost(path: Path, said: str) -> ResumeError:
    """Tell what to do without a checkpoint; the first is the reference, which nothing replaces."""
    if path.name == checkpoint_path(path.parent, step=0).name:
        return ResumeError.lost(said, path=path)
    remedy = f"move {path.name} away to go on from the checkpoint before it"
    return ResumeError(f"{said}; {remedy}, or start again in another `out`", path=path)


def latest_checkpoint(checkpoints: Path) -> Path | None:
    """The checkpoint with the highest step, None where there is none."""
    return max(_all_checkpoints(checkpoints), default=None, key=step_of)


def step_of(path: Path) -> int:
    """Step of a checkpoint folder."""
    return int(path.name.removeprefix("step_"))


def last_before(checkpoints: Path, *, onset: int) -> int:
    """Step of the last checkpoint before a drift began; 0 where there is none.

    Args:
        checkpoints: folder of the checkpoints, with the first.
        onset: steps done by the first policy that drifts.
    """
    steps = [step_of(path) for path in _all_checkpoints(checkpoints)]
    return max((step for step in steps if step < onset), default=0)


def mark_best(checkpoints: Path, *, step: int) -> None:
    """Point the relative link `best` at one checkpoint."""
    point_link(checkpoints / "best", checkpoint_path(checkpoints, step=step).name)


def prune(checkpoints: Path, *, keep: int, best: Collection[int]) -> None:
    """Delete all but the first, the best and the last `keep` checkpoints."""
    newest_first = sorted(_all_checkpoints(checkpoints), key=step_of, reverse=True)
    for path in newest_first[keep:]:
        if step_of(path) not in {0, *best}:
            _delete(path)


def drop_after(checkpoints: Path, *, step: int) -> None:
    """Delete the checkpoints of later steps, which are done again."""
    for path in _all_checkpoints(checkpoints):
        if step_of(path) > step:
            _delete(path)


def _delete(path: Path) -> None:
    with disk_errors(path):
        # Renamed first: a kill must not leave half a checkpoint under a whole one's name.
        doomed = path.with_name(f".{path.name}.tmp")
        shutil.rmtree(doomed, ignore_errors=True)
        path.rename(doomed)
        shutil.rmtree(doomed)


def _all_checkpoints(checkpoints: Path) -> list[Path]:
    """Folders with a name that a checkpoint gets; other names are not ours."""
    return [
        path
        for path in checkpoints.glob("step_*")
        if re.fullmatch(r"step_\d{6,}", path.name)
    ]
