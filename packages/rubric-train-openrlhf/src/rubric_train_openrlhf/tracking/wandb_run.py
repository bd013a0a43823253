"""A run in Weights & Biases."""

from typing import Any
from uuid import uuid4

import wandb

from rubric_train_openrlhf.config.trackers import WandbTracker
from rubric_train_openrlhf.run.records import Status
from rubric_train_openrlhf.tracking.tracker import ANSWERS, Entry, Opening

_STEP = "step"
"""Axis of all charts. W&B's own step may neither go back nor stay the same over a restart, and so
counts entries."""

_BROKEN_OFF = ("failed", "diverged", "interrupted", "running")


class WandbRun:
    """Shows a run in Weights & Biases, online or in files for `wandb sync`."""

    def __init__(self, config: WandbTracker, opening: Opening) -> None:
        """Begin a run there, or go on with it."""
        self.run_id = opening.run_id or uuid4().hex[:12]
        opening.files.mkdir(parents=True, exist_ok=True)
        is_online = config.mode == "online"
        settings = wandb.Settings(
            console="off",
            disable_code=True,
            disable_git=True,
            save_code=False,
            silent=True,
            x_disable_stats=True,
        )
        self._run: Any = wandb.init(
            project=config.project,
            entity=config.entity,
            id=self.run_id,
            name=opening.name,
            dir=str(opening.files),
            mode=config.mode,
            # Offline there is nobody to ask, and W&B warns of the attempt.
            resume="allow" if is_online else None,
            config=dict(opening.settings),
            settings=settings,
        )
        self._run.define_metric(_STEP, hidden=True)
        self._run.define_metric("*", step_metric=_STEP)

    def last_step(self, group: str) -> None:
        """Return None: no file or server says what the last one was."""
        del group

    def log(self, entry: Entry) -> None:
        """Add a row to the history."""
        row: dict[str, Any] = {**entry.figures, _STEP: entry.step}
        if entry.table is not None:
            columns, rows = entry.table
            row[ANSWERS] = wandb.Table(
                columns=list(columns), data=[list(cells) for cells in rows]
            )
        self._run.log(row, step=entry.place)

    def finish(self, status: Status) -> None:
        """End the run with the status of a process."""
        self._run.finish(exit_code=int(status in _BROKEN_OFF))
