"""Following a run by its files: rows appear in them as soon as they are whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.run import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_train_openrlhf.run.records import HeldoutRow, MetricsRow


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
