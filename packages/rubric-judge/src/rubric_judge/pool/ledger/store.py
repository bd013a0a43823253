"""The ledger: look up judgements, record them, read them back."""

import json
import os
import sqlite3
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Self

from rubric_core import JudgeResult, JudgeView, Outcome
from rubric_core.files import open_file, text_sha256
from rubric_judge import events
from rubric_judge.errors import LedgerError
from rubric_judge.judges.llm.prompt import excerpt_rules
from rubric_judge.pool.ledger import entry as stored
from rubric_judge.pool.ledger.database import (
    INSERT,
    SELECT,
    connect,
    open_database,
    unusable,
)
from rubric_judge.pool.ledger.entry import SUSPECT, LedgerEntry

_FIRST_SETTLED = (
    f"{SELECT} WHERE key = ? AND outcome <> 'unavailable' AND outcome <> '{SUSPECT}' "
    "ORDER BY number LIMIT 1"
)
_NUMBERED = f"{SELECT} WHERE number = ?"
_PAGE = f"{SELECT} WHERE number > ? ORDER BY number LIMIT 500"
_KEY_VERSION = 1
"""Changes with the contents of a key, so that keys of different versions never meet."""
_HASHES_KEPT = 4096


class Ledger:
    """Keeps every judgement in one SQLite file, and finds it by what was judged.

    It is append-only: nothing is changed or deleted, and a judgement that is made twice is there
    twice; `find` returns the first final one, so that every reader gets the same. Any number of
    threads and processes on one machine may share the file. A process that is killed loses nothing
    that was recorded.

    An invalid answer is suspect while its judge has not given a valid one since the file was
    opened: the server may be broken. `find` returns it until the file is closed, but not in a later
    run, which asks again. The first valid answer makes the earlier suspect ones final.

    A judge's reasoning may quote the passage: the file is for the judge's side, and only its owner
    can read it (mode 0600).
    """

    def __init__(self, path: Path | str, *, read_only: bool = False) -> None:
        """Open the file; unless `read_only`, create it if there is none.

        Raises:
            LedgerError: the file is damaged, of a newer version, no ledger, or cannot be opened.
        """
        self.path: Final = Path(path)
        """The file."""
        self._read_only = read_only
        self._pid = os.getpid()
        # Computed once for all responses to a task.
        self._rubric_hash = lru_cache(maxsize=_HASHES_KEPT)(stored.hash_rubric)
        self._passage_hash = lru_cache(maxsize=_HASHES_KEPT)(attrgetter("sha256"))
        self._lock = threading.Lock()
        self.unwritten = 0
        """Judgements that could not be written; if not 0, report it and end with status 1."""
        self._closed = False
        self._judging = threading.Lock()
        self._valid: set[str] = set()
        """Judges that have given a valid answer since the file was opened."""
        self._suspects: dict[str, dict[str, int]] = {}
        """Numbers of the suspect entries of the others, by judge and key."""
        self._database = open_database(self.path, read_only=read_only)
        self._place = self.path.absolute()
        self._file = _file_at(self._place)

    def key(self, view: JudgeView, *, judge: str, replicate: int = 0) -> str:
        """Return 64 hex digits from everything that shapes one judgement.

            sha256(version, judge, rubric, passage, question, response, replicate)

        The judge's fingerprint stands for model, prompt files and parameters. The task's id is left
        out, since it follows from the rest.

        Args:
            view: the view that is judged.
            judge: the judge's fingerprint.
            replicate: number of the repetition of this judgement, from 0.

        Returns:
            The key of the judgement.
        """
        stored.check_replicate(replicate)
        hashes = self._rubric_hash(view.rubric), self._passage_hash(view.grounding)
        texts = text_sha256(view.question), text_sha256(_judged(view))
        return text_sha256(
            json.dumps((_KEY_VERSION, judge, *hashes, *texts, replicate))
        )

    def find(self, key: str) -> JudgeResult | None:
        """Return the first final judgement with this key, as it was recorded.

        Returns:
            A scored or invalid result; None if there is none, or only a suspect of an earlier run.

        Raises:
            LedgerError: the file turns out to be damaged or cannot be read.
        """
        with self._usable():
            rows = self._rows(_FIRST_SETTLED, key)
            if not rows:
                for suspects in tuple(self._suspects.values()):
                    number = suspects.get(key)
                    if number is not None:
                        rows = self._rows(_NUMBERED, number)
                        break
        return self._entry(rows[0]).result if rows else None

    def record(
        self,
        key: str,
        view: JudgeView,
        result: JudgeResult,
        *,
        judge: str,
        replicate: int = 0,
    ) -> None:
        """Add one judgement, whatever its outcome.

        A write that fails, for example on a full disk or into a deleted file, loses only the entry:
        it is counted in `unwritten`, and the first is logged.

        Args:
            key: the key that `key` returns for the same view, judge and replicate.
            view: the view that was judged.
            result: the judgement.
            judge: the judge's fingerprint.
            replicate: number of the repetition of this judgement, from 0.

        Raises:
            LedgerError: the ledger was opened to be read only, or is closed.
        """
        entry = LedgerEntry(
            key=key,
            judge=judge,
            task_id=view.task_id,
            replicate=replicate,
            rubric_sha256=self._rubric_hash(view.rubric),
            passage_sha256=self._passage_hash(view.grounding),
            question_sha256=text_sha256(view.question),
            response=view.response,
            recorded_at=time.time(),
            result=result,
        )
        with self._judging:
            if result.outcome is Outcome.SCORED and judge not in self._valid:
                self._settle(judge)
            if result.outcome is Outcome.INVALID and judge not in self._valid:
                number = self.append(replace(entry, suspect=True))
                if number is not None:
                    self._suspects.setdefault(judge, {}).setdefault(key, number)
            else:
                self.append(entry)

    def _settle(self, judge: str) -> None:
        """Record a judge's suspect answers again as final, after its first valid answer."""
        self._valid.add(judge)
        for number in self._suspects.pop(judge, {}).values():
            with self._usable():
                (row,) = self._rows(_NUMBERED, number)
            self.append(replace(self._entry(row), suspect=False))

    def append(self, entry: LedgerEntry) -> int | None:
        """Add an entry as it is; it fails as `record` does.

        Returns:
            Its number; None if it could not be written.
        """
        if self._read_only:
            raise LedgerError(
                "was opened to be read; open it without `read_only`", path=self.path
            )
        row = stored.row_to_write(entry)
        with self._usable():
            try:
                number = self._database.execute(INSERT, row).lastrowid
                # SQLite goes on writing into a deleted or replaced file, which nobody will find.
                is_kept = _file_at(self._place) == self._file
                error = "" if is_kept else "the file was deleted, moved or replaced"
            except sqlite3.DatabaseError as failure:
                number = None
                error = str(failure)
            if error:
                self.unwritten += 1
                if self.unwritten == 1:
                    events.ledger_unwritten(path=str(self.path), error=error)
                return None
            return number

    def entries(self) -> Iterator[LedgerEntry]:
        """Read all judgements in the order in which they were recorded.

        Entries that are recorded meanwhile, by any process, are included.

        Raises:
            LedgerError: an entry is damaged, or the file cannot be read.
        """
        last = 0
        while True:
            with self._usable():
                page = self._rows(_PAGE, last)
            if not page:
                return
            yield from map(self._entry, page)
            last = page[-1][0]

    def close(self) -> None:
        """Close the file; closing it again does nothing."""
        with self._lock:
            self._database.close()
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextmanager
    def _usable(self) -> Generator[None]:
        """Hold the connection, unless it was closed or belongs to another process."""
        if os.getpid() != self._pid:
            raise LedgerError(
                f"was opened by process {self._pid} before a fork; open it in this process too",
                path=self.path,
            )
        with self._lock:
            if self._closed:
                raise LedgerError("is closed; open it again", path=self.path)
            yield

    def _rows(self, query: str, argument: str | int) -> list[tuple[Any, ...]]:
        try:
            return self._database.execute(query, (argument,)).fetchall()
        except sqlite3.DatabaseError as error:
            raise unusable(error, path=self.path) from error

    def _entry(self, row: tuple[Any, ...]) -> LedgerEntry:
        return stored.row_to_entry(row, path=self.path)


def _judged(view: JudgeView) -> str:
    """Return what is judged as one text; of an excerpt of a trace with the rules to read it."""
    if view.excerpt is None:
        return view.response
    return f"{view.identity}\x1f{excerpt_rules()}"


def _file_at(path: Path) -> tuple[int, int] | None:
    """Return what identifies the file at a path; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


_SMALLEST_ENTRY_BYTES = 256
"""Size of its four hashes alone; it bounds the number of entries in a file."""


def salvage(path: Path | str, *, to: Path | str) -> int:
    """Copy every entry that can be read and passes its check sum into a new ledger.

    Args:
        path: the damaged file; it stays as it is.
        to: the new ledger.

    Returns:
        Number of entries in the new ledger.

    Raises:
        LedgerError: there is a file at `to` already, it cannot be written, or `path` cannot be
            opened.
    """
    path = Path(path)
    to = Path(to)
    if to.exists():
        raise LedgerError("is there already; name a new file", path=to)
    try:
        open_file(path).close()
    except OSError as error:
        raise LedgerError(f"cannot be opened ({error.strerror})", path=path) from error
    kept = 0
    with closing(connect(path, read_only=True)) as database, Ledger(to) as ledger:
        # Otherwise SQLite reads nothing of a file that is shorter than its header says.
        database.execute("PRAGMA writable_schema = ON")
        for entry in _readable(database, path):
            ledger.append(entry)
            kept += 1
        if ledger.unwritten:
            raise LedgerError(
                f"{ledger.unwritten} entries could not be written", path=to
            )
    return kept


def _readable(database: sqlite3.Connection, path: Path) -> Iterator[LedgerEntry]:
    # One by one: a lost page loses its own entries only, and those after it are still there.
    for number in range(1, path.stat().st_size // _SMALLEST_ENTRY_BYTES + 2):
        with suppress(sqlite3.DatabaseError, LedgerError):
            row = database.execute(f"{SELECT} WHERE number = ?", (number,)).fetchone()
            if row is not None:
                yield stored.row_to_entry(row, path=path)
