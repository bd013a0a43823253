"""The file that labels are typed into: one process writes it, and no kill loses what it kept."""

import glob
import math
import os
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rubric_core.errors import RubricFileError
from rubric_core.files import append_whole, breaks_off, open_to_append, replacing
from rubric_core.locks import file_lock
from rubric_core.rows import end_last_line
from rubric_judge.errors import says
from rubric_judge.labels.rows import Label, LabelSource, read_labels
from rubric_judge.labels.sampling import Drawn

Cell = tuple[str, int, str]
"""Rater, line of the response, id of the criterion."""

_START: Final = b'{"line":'
"""What a line of ours begins with; a last line that does and has no end was torn by a crash."""


class LabelStore:
    """All labels of a file, which holds each (rater, response, criterion) once at every moment.

    A new label is appended; one that changes or is taken back has the file written anew beside the
    old one, which it then replaces. Either is on the disk when the method returns.
    """

    def __init__(self, path: Path, labels: Iterator[Label]) -> None:
        """Take the labels that the file holds; `open_labels` reads and locks it first."""
        self._path = path.resolve()
        self._labels: dict[Cell, Label] = {label.cell: label for label in labels}
        self._mutex = threading.Lock()
        self._open()

    def _open(self) -> None:
        self._file = open_to_append(self._path)
        self._known = os.fstat(self._file.fileno())
        _sync_folder(self._path.parent)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __len__(self) -> int:
        return len(self._labels)

    def of(self, rater: str) -> list[Label]:
        """Return a rater's labels, the oldest first."""
        with self._mutex:
            own = [label for label in self._labels.values() if label.rater == rater]
        return sorted(own, key=lambda label: label.at or 0)

    def raters(self) -> dict[str, int]:
        """Return how many labels each rater has given."""
        with self._mutex:
            names = [rater for rater, _, _ in self._labels]
        return {name: names.count(name) for name in dict.fromkeys(names)}

    def put(self, label: Label) -> None:
        """Keep a label, in place of an older one of the same cell.

        The same score a second time, from a page that did not hear of the first, changes nothing.

        Raises:
            RubricFileError: another program has changed the file.
            OSError: it could not be written; the file is as it was.
        """
        with self._mutex:
            before = self._labels.get(label.cell)
            if before is None:
                self._append(label)
                self._labels[label.cell] = label
            elif before.score != label.score:
                self._rewrite(self._labels | {label.cell: label})

    def remove(self, cell: Cell) -> None:
        """Take a label back; one that is not there is no error.

        Raises:
            RubricFileError: another program has changed the file.
            OSError: it could not be written; the file is as it was.
        """
        with self._mutex:
            if cell in self._labels:
                self._rewrite({key: one for key, one in self._labels.items() if key != cell})

    def belong_to(self, draws: Sequence[Sequence[Drawn]]) -> None:
        """Let all labels be of the last of these draws, of which each holds those before.

        Labels of an earlier one are written anew with the inclusion probability of the last: a
        mean over labels with probabilities of two draws would be biased.

        Args:
            draws: of `draw_more`.

        Raises:
            RubricFileError: the labels are of none of them. The file is as it was.
            OSError: it could not be written; the file is as it was.
        """
        with self._mutex:
            known = [{one.line: one.inclusion for one in drawn} for drawn in draws]
            strange = [self._strange(inclusion) for inclusion in known]
            if all(strange):
                there = strange[-1][0]
                here = known[-1].get(there.line)
                said = "no inclusion" if there.inclusion is None else f"{there.inclusion:g}"
                drawn = "is not drawn" if here is None else f"has {here:g}"
                problem = says("another_draw", line=there.line, said=said, drawn=drawn)
                raise RubricFileError(problem, path=self._path)
            labels = {
                cell: label.model_copy(update={"inclusion": known[-1][label.line]})
                for cell, label in self._labels.items()
            }
            if labels != self._labels:
                self._rewrite(labels)

    def _strange(self, inclusion: Mapping[int, float]) -> list[Label]:
        return [
            label
            for label in self._labels.values()
            if label.inclusion is None
            or not math.isclose(label.inclusion, inclusion.get(label.line, 0), rel_tol=1e-6)
        ]

    def _append(self, label: Label) -> None:
        self._refuse_changed()
        descriptor, size = self._file.fileno(), self._known.st_size
        try:
            append_whole(descriptor, label.line_of_file(), size=size)
            os.fsync(descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, size)
                self._known = os.fstat(descriptor)
            raise
        self._known = os.fstat(descriptor)

    def _rewrite(self, labels: Mapping[Cell, Label]) -> None:
        self._refuse_changed()
        with replacing(self._path) as file:
            file.writelines(label.line_of_file() for label in labels.values())
        self._labels = dict(labels)
        self._file.close()
        self._open()

    def _refuse_changed(self) -> None:
        with suppress(FileNotFoundError):
            now = self._path.stat()
            if os.path.samestat(now, self._known) and _state(now) == _state(self._known):
                return
        problem = "another program has changed this file, and nothing more is written to it"
        raise RubricFileError(f"{problem}: stop the labelling and start it again", path=self._path)


@contextmanager
def open_labels(path: Path, source: LabelSource) -> Generator[LabelStore]:
    """Open a file of labels, made if it is missing, for this process alone.

    Args:
        path: the file; a last line that a crash has torn is cut off.
        source: what is labelled; labels that are there already are checked against it.

    Raises:
        FolderLockError: another process labels into the file.
        RubricFileError: as `read_labels`.
        OSError: it cannot be read or written.
    """
    with file_lock(path):
        _remove_unfinished(path)
        with open_to_append(path) as file:
            end_last_line(file, Label, is_torn=_is_torn)
        store = LabelStore(path, read_labels(path, source))
        try:
            yield store
        finally:
            store.close()


def _state(found: os.stat_result) -> tuple[int, int]:
    """Return what changes with a file's content, also with an edit that keeps its size."""
    return found.st_size, found.st_mtime_ns


def _remove_unfinished(path: Path) -> None:
    """Remove what a kill has left of `replacing`; the lock says that nobody writes it now."""
    target = path.resolve()
    for left in target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 8}.tmp"):
        left.unlink(missing_ok=True)


def _is_torn(last: bytes) -> bool:
    """Whether a line begins as ours do and its JSON ends early: nobody was told that it is kept.

    What is a whole JSON text and no label, or is not ours, is left to `read_labels` to refuse.
    """
    return (last.startswith(_START) or _START.startswith(last)) and breaks_off(last)


def _sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
