"""Following a run by its files: rows appear in them as soon as they are whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from rubric_judge.console import Steps
from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.run import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from rubric_judge.console import Progress
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

    def poll(self) -> None:
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
        self._left = self._signed(self._read())
        self._steps = Steps(progress)

    def __enter__(self) -> Self:
        """Say that the driver is being started, which takes seconds before it can say so itself."""
        self._steps.to("starting the driver")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Show nothing any more."""
        self._steps.__exit__(kind, error, trace)

    def poll(self) -> None:
        """Show what is being done now."""
        summary = self._read()
        if summary is None or summary.phase is None or self._signed(summary) == self._left:
            return
        total, done = summary.phase_total, summary.phase_done
        unit = "" if total is None else "steps"
        phase = self._steps.to(summary.phase, total=total, unit=unit, done=done)
        phase.done, phase.note = done, summary.note or ""

    def _read(self) -> RunSummary | None:
        try:
            return self._folder.read_summary()
        except ResumeError:
            return None

    @staticmethod
    def _signed(summary: RunSummary | None) -> tuple[object, ...] | None:
        return None if summary is None else (summary.updated_at, summary.pid, summary.host)
