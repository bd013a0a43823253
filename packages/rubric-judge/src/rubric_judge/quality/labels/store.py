"""The file of labels, written by one process and safe against a kill."""

import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rubric_core.errors import RubricFileError
from rubric_judge.quality.labels.kept_lines import KeptLines, open_lines
from rubric_judge.quality.labels.rows import Label, LabelSource, read_labels
from rubric_judge.quality.labels.sampling import Drawn

Cell = tuple[str, int, str]
"""Rater, line of the response and id of the criterion."""

_START = b'{"line":'
"""First bytes of each line; a last line with them but without an end was torn by a crash."""


class LabelStore:
    """All labels of a file, which holds each (rater, response, criterion) once at every moment.

    Labels are on the disk when a method returns.
    """

    def __init__(self, lines: KeptLines[Cell, Label]) -> None:
        """Take an open file; `open_labels` opens it."""
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines.rows)

    def of(self, rater: str) -> list[Label]:
        """Return a rater's labels, the oldest first."""
        with self._lines.mutex:
            own = [label for label in self._lines.rows.values() if label.rater == rater]
        return sorted(own, key=lambda label: label.at or 0)

    def raters(self) -> dict[str, int]:
        """Return how many labels each rater has given."""
        with self._lines.mutex:
            names = [rater for rater, _, _ in self._lines.rows]
        return {name: names.count(name) for name in dict.fromkeys(names)}

    def put(self, label: Label) -> None:
        """Keep a label, in place of an older one of the same cell.

        The same score a second time, from a page that did not hear of the first, changes nothing.

        Raises:
            RubricFileError: another program has changed the file.
            OSError: it could not be written; the file is as it was.
        """
        with self._lines.mutex:
            before = self._lines.rows.get(label.cell)
            if before is None or before.score != label.score:
                self._lines.put({label.cell: label})

    def remove(self, cell: Cell) -> None:
        """Take a label back; one that is not there is no error.

        Raises:
            RubricFileError: another program has changed the file.
            OSError: it could not be written; the file is as it was.
        """
        self._lines.remove(cell)

    def belong_to(self, draws: Sequence[Sequence[Drawn]]) -> None:
        """Move all labels to the last of these draws, of which each holds those before.

        Labels of an earlier one are written anew with the inclusion probability of the last: a
        mean over labels with probabilities of two draws would be biased.

        Args:
            draws: draws from `draw_more`.

        Raises:
            RubricFileError: the labels are of none of them. The file is as it was.
            OSError: it could not be written; the file is as it was.
        """
        with self._lines.mutex:
            known = [
                {response.line: response.inclusion for response in drawn}
                for drawn in draws
            ]
            strange = [self._strange(inclusion) for inclusion in known]
            if all(strange):
                there = strange[-1][0]
                here = known[-1].get(there.line)
                inclusion = "no inclusion"
                if there.inclusion is not None:
                    inclusion = f"{there.inclusion:g}"
                drawn = "is not drawn" if here is None else f"has {here:g}"
                raise RubricFileError(
                    f"holds labels of another draw: of response {there.line} with {inclusion}, "
                    f"which here {drawn}. To go on, give the --judgements, --seed and --count "
                    "of the command that began this file; to label more, give a larger "
                    "--count after that one (--count 300 --count 400); for a draw of its "
                    "own, give another --out",
                    path=self._lines.path,
                )
            labels = {
                cell: label.model_copy(update={"inclusion": known[-1][label.line]})
                for cell, label in self._lines.rows.items()
            }
            if labels != self._lines.rows:
                self._lines.keep_only(labels)

    def _strange(self, inclusion: Mapping[int, float]) -> list[Label]:
        return [
            label
            for label in self._lines.rows.values()
            if label.inclusion is None
            or not math.isclose(
                label.inclusion, inclusion.get(label.line, 0), rel_tol=1e-6
            )
        ]


@contextmanager
def open_labels(path: Path, source: LabelSource) -> Generator[LabelStore]:
    """Open a file of labels, made if it is missing, for this process alone.

    Args:
        path: the file; a last line that a crash has torn is cut off.
        source: tasks and responses, which existing labels are checked against.

    Raises:
        FolderLockError: another process labels into the file.
        RubricFileError: as `read_labels`.
        OSError: it cannot be read or written.
    """

    def read() -> Mapping[Cell, Label]:
        return {label.cell: label for label in read_labels(path, source)}

    with open_lines(path, Label, start=_START, read=read) as lines:
        yield LabelStore(lines)
