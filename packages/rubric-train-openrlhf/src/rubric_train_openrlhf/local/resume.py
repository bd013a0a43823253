"""Where a local run begins: before step 1, or at its last checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_train_openrlhf.config import dump_config
from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.opening import check_tasks, holds_run_to_resume
from rubric_train_openrlhf.run.checkpoints import (
    TrainerState,
    checkpoint_path,
    latest_checkpoint,
    load_state,
    step_of,
)
from rubric_train_openrlhf.run.writing import write_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rubric_train_openrlhf.config import TrainConfig
    from rubric_train_openrlhf.run import RunFolder


def checkpoint_to_resume(folder: RunFolder, *, config: TrainConfig, resume: bool) -> Path | None:
    """Find where to go on.

    Returns:
        The last whole checkpoint; None for a run that starts from nothing.

    Raises:
        ResumeError: the folder holds a run and `resume` is off, it is another configuration's, or
            it holds files under a run's names that no run can be continued from.
    """
    if not holds_run_to_resume(folder, config=config, resume=resume):
        return None
    checkpoint = latest_checkpoint(folder.checkpoints)
    if checkpoint is None and folder.holds_rows:
        raise ResumeError(
            f"{str(folder.checkpoints)!r} holds no checkpoint, but the run has rows; bring the "
            "checkpoints back from a copy, or start again in another `out`",
            path=folder.path,
        )
    return checkpoint


def state_to_resume(
    folder: RunFolder,
    *,
    config: TrainConfig,
    tasks_sha256: Mapping[str, Mapping[str, str]],
    checkpoint: Path,
) -> TrainerState:
    """Read the state of a checkpoint, and look whether all that the run goes on with is there.

    Raises:
        ResumeError: the task files hold other tasks, or a file of the run is damaged; nothing was
            changed.
    """
    check_tasks(folder, config=config, tasks_sha256=tasks_sha256)
    state = load_state(checkpoint)
    if state.step != step_of(checkpoint):
        raise ResumeError(
            f"{str(checkpoint)!r} holds the trainer state of step {state.step}; give the folder "
            "its own name back, or start again in another `out`",
            path=checkpoint,
        )
    if config.objective.kl_coef and state.step:
        load_state(checkpoint_path(folder.checkpoints, step=0))  # the reference model
    return state


def go_back(folder: RunFolder, *, config: TrainConfig, state: TrainerState) -> None:
    """Cut the folder back to a checkpoint.

    Raises:
        ResumeError: a row is missing or damaged; nothing was deleted then.
    """
    # The pass of step 0 comes after its checkpoint; all others come before theirs.
    expected = config.data.validation is not None and state.step > 0
    passes = range(0, state.step + 1, config.validation.every) if expected else ()
    folder.cut_back(state.step, heldout=passes)
    write_text(folder.config, dump_config(config))
