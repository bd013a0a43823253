"""Rows of a run folder, each shown to a tracker once."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rubric_core.files import open_file, read_file
from rubric_train_openrlhf.config.trackers import TrackerConfig
from rubric_train_openrlhf.run import records
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.writing import write_text
from rubric_train_openrlhf.tracking.figures import Measuring, judge_figures, row_figures
from rubric_train_openrlhf.tracking.tracker import Entry, Tracker

GROUPS = ("train", "heldout")
"""Beginnings of the tags of the two files of rows; within a step they come in this order."""

_Row = TypeVar("_Row", bound=BaseModel)


class Shown(BaseModel):
    """Record of what a tracker was shown of a run: content of `trackers/TYPE.json`."""

    model_config = ConfigDict(extra="ignore")

    run_id: str | None = None
    """Id that the tracker knows the run by."""
    destination: str = ""
    """Digest of where the tracker keeps the run: in another place, the run is shown anew."""
    steps: dict[str, int] = Field(default_factory=dict)
    """Last step by group; noted before it is shown, so that a kill cannot show it twice."""
    entries: int = 0
    """Number of entries so far."""

    @classmethod
    def read(cls, path: Path, *, destination: str) -> "Shown":
        """Read the file; begin anew where there is none, or where it is of another destination."""
        try:
            shown = cls.model_validate_json(read_file(path))
        except (OSError, ValidationError):
            shown = cls()
        if shown.destination != destination:
            return cls(destination=destination)
        return shown


class _Line(NamedTuple):
    step: int
    row: dict[str, Any]


@dataclass
class GrowingRows:
    """Rows of a file that a run adds lines to, and cuts when it goes back to an earlier step."""

    path: Path
    _read_bytes: int = field(default=0, init=False)
    """Bytes read so far."""

    def new(self) -> list[_Line]:
        """Return the whole lines that were added since the last call; all of them after a cut."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return []
        if size < self._read_bytes:
            self.again()
        if size == self._read_bytes:
            return []
        with open_file(self.path) as file:
            file.seek(self._read_bytes)
            added = file.read(size - self._read_bytes)
        lines = list[_Line]()
        for line in added.splitlines(keepends=True):
            row = _row(line)
            if row is None:
                if line.endswith(b"\n"):
                    # The middle of a line: the file was cut, and has grown past this place since.
                    self.again()
                break
            self._read_bytes += len(line)
            lines.append(row)
        return lines

    def again(self) -> None:
        """Begin with the first line at the next call."""
        self._read_bytes = 0


def _row(line: bytes) -> _Line | None:
    """Read a line; None where it is not whole, or no row of a step."""
    try:
        row: Any = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    if not isinstance(row, dict):
        return None
    table = cast("dict[str, Any]", row)
    step = table.get("step")
    return _Line(step, table) if isinstance(step, int) else None


class CutError(Exception):
    """Rows of a step are gone, because the run has gone back to an earlier one."""


class Follower:
    """Shows a tracker the rows of a run folder, each once."""

    def __init__(
        self,
        folder: RunFolder,
        config: TrackerConfig,
        tracker: Tracker,
        *,
        shown: Shown,
        measuring: Measuring,
    ) -> None:
        """Ask the tracker what it has, and trust that over the record, where it can be asked.

        Args:
            folder: of the run.
            config: of the tracker.
            tracker: where the run is shown; it is open.
            shown: what it was shown by earlier starts of the run.
            measuring: computes figures of the judge's side.
        """
        self._folder = folder
        self._config = config
        self._tracker = tracker
        self._measuring = measuring
        steps = {
            group: self._known(group, shown.steps.get(group, -1)) for group in GROUPS
        }
        self._shown = shown.model_copy(
            update={"run_id": tracker.run_id, "steps": steps}
        )
        files = (folder.metrics, folder.heldout)
        self._files = {
            group: GrowingRows(path) for group, path in zip(GROUPS, files, strict=True)
        }
        self._note()

    @property
    def steps(self) -> Mapping[str, int]:
        """Last step that was shown, by group; −1 before any."""
        return self._shown.steps

    def poll(self) -> None:
        """Show what came since the last call.

        Raises:
            Exception: whatever the tracker raises.
            DiskWriteError: what was shown cannot be noted.
        """
        lines = [
            (line.step, GROUPS.index(group), line)
            for group in GROUPS
            for line in self._files[group].new()
        ]
        for step, place, line in sorted(lines, key=lambda entry: entry[:2]):
            group = GROUPS[place]
            if step <= self._shown.steps[group]:
                continue
            try:
                entry = self._entry(group, line)
            except CutError:
                for rows in self._files.values():
                    rows.again()
                return
            self._shown.steps[group] = step
            self._shown.entries += 1
            self._note()
            self._tracker.log(entry)

    def _known(self, group: str, noted: int) -> int:
        """Return the last step that the tracker has of a group; −1 if none was ever shown to it."""
        last = None if noted < 0 else self._tracker.last_step(group)
        return noted if last is None else last

    def _entry(self, group: str, line: _Line) -> Entry:
        figures = row_figures(group, line.row)
        place = self._shown.entries
        if group != "train":
            return Entry(group, line.step, figures, place)
        name = f"step_{line.step:06d}.jsonl"
        judgements = _read(self._folder.judgements / name, records.JudgementRow)
        means = cast("dict[str, float]", line.row.get("criteria", {}))
        figures |= dict(self._measuring.criteria(means, judgements))
        figures |= dict(judge_figures(judgements))
        every = self._config.tables_every
        if every is None or line.step % every:
            return Entry(group, line.step, figures, place)
        rollouts = _read(self._folder.rollouts / name, records.RolloutRow)
        table = self._measuring.table(
            rollouts[: self._config.table_rows],
            judgements,
            judge_side=self._config.judge_side,
        )
        return Entry(group, line.step, figures, place, table)

    def _note(self) -> None:
        write_text(
            note_path(self._folder, self._config),
            self._shown.model_dump_json(indent=2) + "\n",
        )


def note_path(folder: RunFolder, config: TrackerConfig) -> Path:
    """Return the path of the file that says what a tracker was shown."""
    return folder.trackers / f"{config.type}.json"


def _read(path: Path, row_type: type[_Row]) -> list[_Row]:
    try:
        with open_file(path) as file:
            return [row_type.model_validate_json(line) for line in file]
    except FileNotFoundError as error:
        raise CutError from error
