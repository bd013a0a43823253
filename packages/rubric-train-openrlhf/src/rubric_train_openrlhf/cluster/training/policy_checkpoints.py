"""Checkpoints of the policy, beside the state that training goes on from.

The policy is saved whenever it is the best so far; DeepSpeed's state, many times its size, only
every so many steps. A resumed run does again what came after the state, so that the best policy up
to the state is kept until there is a later state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.run.checkpoints import (
    checkpoint_path,
    drop_after,
    latest_checkpoint,
    mark_best,
    prune,
    step_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_train_openrlhf.config.sections import CheckpointConfig
    from rubric_train_openrlhf.run import RunFolder


def check_policies(checkpoints: Path, *, state: int, every: int) -> None:
    """See that a run has not lost the state that a policy of it was saved after.

    Args:
        checkpoints: folder of the run's policies.
        state: step of the last whole state, 0 for none.
        every: steps between two states.

    Raises:
        ResumeError: it has; nothing was deleted.
    """
    later = latest_checkpoint(checkpoints)
    if later is None:
        return
    # States come before the policies of their steps.
    saved = step_of(later) // every * every
    if saved > state:
        raise ResumeError(
            f"{str(checkpoints)!r} holds the policy of step {step_of(later)}, but the last state "
            f"that DeepSpeed can go on from is that of step {state}; bring "
            f"{str(checkpoints / 'trainer')!r} back from a copy, or start again in another `out`",
            path=checkpoints,
        )


class PolicyCheckpoints:
    """The folders `step_*` of a run, and its link `best`."""

    def __init__(self, folder: RunFolder, *, config: CheckpointConfig, heldout: bool) -> None:
        """Take the run's folder.

        Args:
            folder: of the run.
            config: how many are kept.
            heldout: whether there are held-out passes; without them the last policy is the best.
        """
        self._folder = folder
        self._config = config
        self._heldout = heldout
        self._state_step = 0

    def go_back(self, step: int) -> None:
        """Drop what comes after the state of this step; the rows are cut back already."""
        drop_after(self._folder.checkpoints, step=step)
        self._state_step = step
        best = self._best(up_to=step)
        best = step if best is None else best
        if self.path(best).exists():
            mark_best(self._folder.checkpoints, step=best)

    def state_saved(self, step: int) -> None:
        """Note that training can go on from this step."""
        self._state_step = step

    def save(self, step: int, write: Callable[[Path], None]) -> None:
        """Save the policy, point `best` at the best, and drop old checkpoints.

        Args:
            step: of the policy.
            write: writes it to the folder it is given.
        """
        write(self.path(step))
        best = self._best(up_to=step)
        mark_best(self._folder.checkpoints, step=step if best is None else best)
        resumed_best = self._best(up_to=self._state_step)
        prune(self._folder.checkpoints, keep=self._config.keep, best={best, resumed_best})

    def path(self, step: int) -> Path:
        """Folder of a step's policy."""
        return checkpoint_path(self._folder.checkpoints, step=step)

    def _best(self, *, up_to: int) -> int | None:
        """Step of the best held-out pass up to a step, None where there is no pass."""
        if not self._heldout:
            return None
        steps = [row.step for row in self._folder.read_heldout() if row.best and row.step <= up_to]
        return steps[-1] if steps else None
