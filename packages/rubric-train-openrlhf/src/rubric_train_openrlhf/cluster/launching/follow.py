"""Following a run by its files: rows appear in them as soon as they are whole."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Self

from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.run import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_judge.console import Phase, Progress
    from rubric_train_openrlhf.run.records import HeldoutRow, MetricsRow, RunSummary


class Follower:
    """Hands on every row that was not there before, once."""

    def __init__(
        self,
        out: Path,
        *,
        on_step: Callable[[MetricsRow], None] | None = None,
        on_heldout: Callable[[HeldoutRow], None] | None = None,
    ) -> None:
        """Note where the files stand; they need not exist yet."""
        self._folder = RunFolder(out)
        self._on_step = on_step
        self._on_heldout = on_heldout
        self._sizes = self._read_sizes()
        heldout, steps = self._read_rows() or ((), ())
        self._n_heldout, self._n_steps = len(heldout), len(steps)

    def look(self) -> None:
        """Hand on what is new since the last look."""
        sizes = self._read_sizes()
        if sizes == self._sizes:
            return
        rows = self._read_rows()
        if rows is None:
            return
        self._sizes = sizes
        heldout, steps = rows
        # A resumed run cuts its rows back to a checkpoint and makes the later ones again.
        self._n_heldout = min(self._n_heldout, len(heldout))
        self._n_steps = min(self._n_steps, len(steps))
        new_heldout, new_steps = heldout[self._n_heldout :], steps[self._n_steps :]
        self._n_heldout, self._n_steps = len(heldout), len(steps)
        for row in new_heldout:
            if self._on_heldout is not None:
                self._on_heldout(row)
        for row in new_steps:
            if self._on_step is not None:
                self._on_step(row)

    def _read_rows(self) -> tuple[list[HeldoutRow], list[MetricsRow]] | None:
        """All rows; None where one of them is still being written."""
        try:
            return self._folder.read_heldout(), self._folder.read_metrics()
        except ResumeError:
            return None

    def _read_sizes(self) -> tuple[int, ...]:
        files = (self._folder.heldout, self._folder.metrics)
        return tuple(file.stat().st_size if file.exists() else 0 for file in files)


class FollowedPhases:
    """Shows here the phases that the processes of a run tell in summary.json."""

    def __init__(self, out: Path, progress: Progress) -> None:
        """Note what an earlier start has left there."""
        self._folder = RunFolder(out)
        self._progress = progress
        self._left = self._written_at(self._read())
        self._shown = contextlib.ExitStack()
        self._phase: Phase | None = None

    def __enter__(self) -> Self:
        """Say that the driver is being started, which takes seconds before it can say so itself."""
        self._show("starting the driver", total=None, done=0)
        return self

    def __exit__(self, *_: object) -> None:
        """Show nothing any more."""
        self._shown.close()

    def look(self) -> None:
        """Show what is being done now."""
        summary = self._read()
        if summary is None or summary.phase is None or self._written_at(summary) == self._left:
            return
        if self._phase is None or self._phase.name != summary.phase:
            self._show(summary.phase, total=summary.phase_total, done=summary.phase_done)
        if self._phase is not None:
            self._phase.done, self._phase.note = summary.phase_done, summary.note or ""

    def _show(self, name: str, *, total: int | None, done: int) -> None:
        self._shown.close()
        unit = "steps" if total is not None else ""
        self._phase = self._shown.enter_context(self._progress.phase(name, total=total, unit=unit))
        self._phase.start_at(done)

    def _read(self) -> RunSummary | None:
        try:
            return self._folder.read_summary()
        except ResumeError:
            return None

    @staticmethod
    def _written_at(summary: RunSummary | None) -> tuple[object, ...] | None:
        return None if summary is None else (summary.updated_at, summary.pid, summary.host)
