"""Names and rows of one run folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.run.records import (
    HeldoutRow,
    JudgementRow,
    MetricsRow,
    RolloutRow,
    RunSummary,
)
from rubric_train_openrlhf.run.writing import (
    append_line,
    disk_errors,
    remove_unfinished,
    write_lines,
    write_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_Row = TypeVar("_Row", bound=BaseModel)


class RunFolder:
    """The files of one run, and the only code that writes its rows.

    A step is written in the order rollouts, judgements, metrics, held-out, checkpoint, so a
    checkpoint on disk means that every row up to its step is on disk too.
    """

    def __init__(self, path: Path) -> None:
        """Name the folder; nothing is created before the first write."""
        self.path = path
        self.config = path / "config.resolved.yaml"
        self.environment = path / "environment.json"
        self.metrics = path / "metrics.jsonl"
        self.heldout = path / "heldout.jsonl"
        self.summary = path / "summary.json"
        self.rollouts = path / "rollouts"
        self.judgements = path / "judgements"
        self.checkpoints = path / "checkpoints"
        self.tensorboard = path / "tensorboard"

    @property
    def holds_run(self) -> bool:
        """Whether a run was started here."""
        return self.config.exists()

    def write_step(
        self,
        row: MetricsRow,
        *,
        rollouts: Sequence[RolloutRow],
        judgements: Sequence[JudgementRow],
    ) -> None:
        """Write all rows of one step; the metrics come last and mark it as done."""
        write_lines(self._step_file(self.rollouts, row.step), map(_json_line, rollouts))
        write_lines(self._step_file(self.judgements, row.step), map(_json_line, judgements))
        append_line(self.metrics, _json_line(row))

    def write_heldout(self, row: HeldoutRow) -> None:
        """Add one pass over the held-out questions."""
        append_line(self.heldout, _json_line(row))

    def write_summary(self, summary: RunSummary) -> None:
        """Replace summary.json."""
        write_text(self.summary, summary.model_dump_json(indent=2) + "\n")

    def read_metrics(self) -> list[MetricsRow]:
        """All steps written so far."""
        return _read_rows(self.metrics, MetricsRow)

    def read_heldout(self) -> list[HeldoutRow]:
        """All held-out passes written so far."""
        return _read_rows(self.heldout, HeldoutRow)

    def cut_back(self, step: int) -> None:
        """Delete everything after this step, so that it can be done again; -1 empties the run.

        Raises:
            ResumeError: a row up to this step is missing.
        """
        remove_unfinished(self.path)
        _cut_rows(self.metrics, MetricsRow, last_step=step)
        _cut_rows(self.heldout, HeldoutRow, last_step=step)
        with disk_errors(self.path):
            for folder in (self.rollouts, self.judgements):
                for file in folder.glob("step_*.jsonl"):
                    if _step_of(file) > step:
                        file.unlink()
        steps = [row.step for row in self.read_metrics()]
        if steps != list(range(1, step + 1)):
            raise ResumeError(
                f"{str(self.metrics)!r} does not hold every step from 1 to {step}, to which the "
                "last checkpoint belongs; start again in another `out`",
                path=self.path,
            )

    def _step_file(self, folder: Path, step: int) -> Path:
        return folder / f"step_{step:06d}.jsonl"


def _json_line(row: BaseModel) -> str:
    return row.model_dump_json()


def _step_of(path: Path) -> int:
    return int(path.stem.removeprefix("step_"))


def _read_rows(path: Path, row_type: type[_Row]) -> list[_Row]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return [row_type.model_validate_json(line) for line in file]


def _cut_rows(path: Path, row_type: type[MetricsRow | HeldoutRow], *, last_step: int) -> None:
    """Keep the leading whole rows up to a step; a kill can leave half a line at the end."""
    if not path.exists():
        return
    size = 0
    with path.open("rb") as file:
        for line in file:
            try:
                row = row_type.model_validate_json(line)
            except ValidationError:
                break
            if row.step > last_step or not line.endswith(b"\n"):
                break
            size += len(line)
    with disk_errors(path):
        os.truncate(path, size)
