"""A run in Trackio."""

import warnings
from typing import Any, cast
from uuid import uuid4

import trackio
from trackio.sqlite_storage import SQLiteStorage
from trackio.utils import resolve_space_id_and_server_url

from rubric_train_openrlhf.config.trackers import TrackioTracker
from rubric_train_openrlhf.run.records import Status
from rubric_train_openrlhf.tracking.tracker import ANSWERS, Entry, Opening


class TrackioError(Exception):
    """Something that Trackio could not do, and only warned of."""


class TrackioRun:
    """Shows a run in Trackio; what Trackio cannot do, and only warns of, is raised here."""

    def __init__(self, config: TrackioTracker, opening: Opening) -> None:
        """Begin a run there, or go on with it; runs are told apart by their names."""
        self.run_id = opening.run_id or f"{opening.name}-{uuid4().hex[:8]}"
        self._project = config.project
        self._warnings = list[str]()
        warnings.showwarning = self._hear
        self._run: Any = trackio.init(
            project=config.project,
            name=self.run_id,
            config=dict(opening.settings),
            resume="allow",
            embed=False,
            auto_log_cpu=False,
            auto_log_gpu=False,
        )

    def last_step(self, group: str) -> int | None:
        """Return the last step of a group, −1 before any; None where a server has them."""
        if any(resolve_space_id_and_server_url(None, None)):
            return None
        logs = cast(
            "list[dict[str, Any]]",
            SQLiteStorage.get_logs(self._project, self.run_id, scalar_only=True),
        )
        steps = [
            row["step"]
            for row in logs
            if any(name.startswith(f"{group}/") for name in row)
        ]
        return max(steps, default=-1)

    def log(self, entry: Entry) -> None:
        """Hand an entry over; a thread of Trackio stores it."""
        self._raise_heard()
        row: dict[str, Any] = dict(entry.figures)
        if entry.table is not None:
            columns, rows = entry.table
            row[ANSWERS] = trackio.Table(
                columns=list(columns), data=[list(cells) for cells in rows]
            )
        self._run.log(row, step=entry.step)
        self._raise_heard()

    def finish(self, status: Status) -> None:
        """Wait until all is stored; Trackio has no word for how a run ended."""
        del status
        self._run.finish()
        self._raise_heard()

    def _hear(self, message: Warning | str, *_: object, **__: object) -> None:
        self._warnings.append(str(message))

    def _raise_heard(self) -> None:
        if self._warnings:
            raise TrackioError(self._warnings[0])
