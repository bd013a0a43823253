"""Where the calls and the outcome of each document lie, found by the content's hash.

All of it can be made again from the files that it points into, so rows are written in batches.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from rubric_core import Usage
from rubric_core.files import open_file
from rubric_synth import calls, errors
from rubric_synth.config import Stage
from rubric_synth.document import Document, DocumentOutcome
from rubric_synth.files import unwritable
from rubric_synth.tables import read_text
from rubric_synth.work.segments import KEPT, Place

Kind = Literal["calls", "shard"]

INDEX_FILE: Final = "index.sqlite"
_VERSION: Final = 3
"""Of the tables in `index.sql`."""
_BATCH_ROWS: Final = 16_384
"""Hashes lie anywhere in a table: each row of a small batch would have a page of the file written.
What a killed run had not written is found again within seconds."""
_IN_ORDER: Final = itemgetter(0, 1)
"""Of the primary key; of equal ones the last comes last, and counts."""
_LARGEST_CHECKED_BYTES: Final = 64 * 2**20
"""Up to here the whole file is checked when it is opened, in a fraction of a second."""

_TABLES: Final[dict[Kind, tuple[str, int]]] = {
    "calls": ("calls", 13),
    "shard": ("outcomes", 6),
}
"""For the lines of each kind of file: the table of their places, and its columns."""
_SUMS: Final = (
    "calls",
    "attempts",
    "fallback_calls",
    "prompt_tokens",
    "completion_tokens",
)
_FULL: Final = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
)


class CollectedLine(NamedTuple):
    """One line of the collected file, by which the outcome of its document is found."""

    doc_hash: str
    settings: bytes
    """Digest of the line and of all settings that shape its outcome."""
    offset: int
    """Bytes before the line."""
    read: Callable[[int], Document]

    def document(self) -> Document:
        """Read the document.

        Raises:
            CollectedFolderError: The line is damaged.
        """
        return self.read(self.offset)


class Index:
    """One SQLite file, of one process at a time."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it.

        Raises:
            WorkFolderError: It is damaged or of another version.
            OutputError: It cannot be written.
        """
        self._path = path
        self._added: dict[Kind, list[tuple[Any, ...]]] = {"calls": [], "shard": []}
        self._extents: dict[tuple[Kind, int], int] = {}
        self._unwritten: set[bytes] = set()
        """Documents with rows that no query finds yet."""
        if not path.exists():
            for leftover in path.parent.glob(f"{path.name}-*"):
                leftover.unlink()  # the log of a file that somebody deleted
        try:
            self._database = self._opened()
        except sqlite3.Error as error:
            raise self._wrong(error) from error

    def add_call(self, document: str, call: calls.CallRecord, place: Place) -> None:
        """Note where a call is, and what it took."""
        used: tuple[float | None, ...] = (None, None, None, None)
        if (u := call.usage) is not None:
            used = (u.prompt_tokens, u.completion_tokens, u.cached_tokens, u.cost_usd)
        took = (call.stage, call.answered, call.attempts, bool(call.fallback), *used)
        self._add(
            "calls",
            (bytes.fromhex(document), bytes.fromhex(call.key), *place, *took),
            place,
        )

    def add_outcome(
        self, outcome: DocumentOutcome, settings: bytes, place: Place
    ) -> None:
        """Note where an outcome is; the latest with the same settings counts."""
        name = bytes.fromhex(outcome.doc_hash)
        self._add("shard", (name, settings, *place, outcome.is_settled), place)

    def calls_of(self, document: str) -> list[Place]:
        """Return where the answered calls of a document are."""
        query = (
            "SELECT segment, offset, length FROM calls WHERE document = ? AND answered"
        )
        return [Place(*row) for row in self._rows_of(query, bytes.fromhex(document))]

    def outcomes_of(
        self, wanted: Sequence[CollectedLine]
    ) -> list[tuple[Place, bool] | None]:
        """Return where outcomes are and whether they are settled, None for each that is missing."""
        columns = "segment, offset, length, settled"
        marks = ", ".join("?" * len(wanted))
        query = f"SELECT document, settings, {columns} FROM outcomes WHERE document IN ({marks})"  # noqa: S608 - marks alone
        names = [bytes.fromhex(line.doc_hash) for line in wanted]
        found = {
            (name, settings): (Place(*place), bool(settled))
            for name, settings, *place, settled in self._rows_of(query, *names)
        }
        return [
            found.get((name, collected_line.settings))
            for name, collected_line in zip(names, wanted, strict=True)
        ]

    def extents(self, kind: Kind) -> dict[int, int]:
        """Return how many bytes of each file are known here."""
        return dict(
            self._rows("SELECT segment, bytes FROM extents WHERE kind = ?", kind)
        )

    def spent(
        self,
        price: Callable[[Stage, Usage], float | None] = lambda _stage, _usage: None,
    ) -> dict[Stage, calls.CallTotals]:
        """Add up the calls of each stage, over all runs.

        Args:
            price: Of the tokens of a stage's calls that came without one; None if not known.
        """
        totals: dict[Stage, calls.CallTotals] = {}
        for (
            stage,
            *sums,
            cost_usd,
            unpriced,
            late,
            prompt,
            completion,
            cached,
        ) in self._rows(read_text("spent.sql")):
            usage = Usage(
                prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached
            )
            late_usd = price(stage, usage) if late else None
            totals[stage] = calls.CallTotals(
                **dict(zip(_SUMS, sums, strict=True)),
                cost_usd=cost_usd + (late_usd or 0.0),
                unpriced_calls=unpriced - (0 if late_usd is None else late),
            )
        return totals

    def documents(self) -> set[str]:
        """Return the hashes of all documents with an outcome, whatever the settings."""
        return {
            row[0].hex() for row in self._rows("SELECT DISTINCT document FROM outcomes")
        }

    def note(self, name: str) -> str | None:
        """Return a note."""
        found = self._rows("SELECT content FROM notes WHERE name = ?", name)
        return str(found[0][0]) if found else None

    def set_note(self, name: str, content: str) -> None:
        """Keep a note."""
        self._rows("INSERT OR REPLACE INTO notes VALUES (?, ?)", name, content)

    def flush(self) -> None:
        """Write what has been added.

        Raises:
            OutputError: There is no room.
        """
        if not self._extents:
            return
        put = "INSERT OR REPLACE INTO"
        try:
            self._database.execute("BEGIN")
            for kind, rows in self._added.items():
                table, columns = _TABLES[kind]
                rows.sort(key=_IN_ORDER)
                marks = ", ".join("?" * columns)
                self._database.executemany(f"{put} {table} VALUES ({marks})", rows)
            extents = [(*key, size) for key, size in self._extents.items()]
            self._database.executemany(f"{put} extents VALUES (?, ?, ?)", extents)
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._wrong(error) from error
        for added in (*self._added.values(), self._extents, self._unwritten):
            added.clear()

    def close(self) -> None:
        """Close the file; what was not flushed is found again in the files."""
        self._database.close()

    def _add(self, kind: Kind, row: tuple[Any, ...], place: Place) -> None:
        self._added[kind].append(row)
        self._extents[kind, place.segment] = place.offset + place.length
        self._unwritten.add(row[0])
        if sum(map(len, self._added.values())) >= _BATCH_ROWS:
            self.flush()

    def _rows_of(self, query: str, *documents: bytes) -> list[tuple[Any, ...]]:
        if not self._unwritten.isdisjoint(documents):
            self.flush()
        return self._rows(query, *documents)

    def _rows(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        try:
            return self._database.execute(query, arguments).fetchall()
        except sqlite3.Error as error:
            raise self._wrong(error) from error

    def _opened(self) -> sqlite3.Connection:
        """Open the file, which may be a new one."""
        database = sqlite3.connect(self._path, isolation_level=None)
        # One process at a time, which a lock sees to: no file of shared memory is needed.
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version not in {0, _VERSION}:
            raise errors.WorkFolderError(
                f"{str(self._path)!r} has version {version}, this release reads {_VERSION}: "
                f"use the release that wrote it, or delete {str(self._path)!r}*, which is "
                "made again",
                path=self._path,
            )
        if version and self._path.stat().st_size <= _LARGEST_CHECKED_BYTES:
            (found,) = database.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise self._damaged(found)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA cache_size = -16000")
        if not version:
            database.executescript(read_text("index.sql"))
        return database

    def _wrong(
        self, error: sqlite3.Error
    ) -> errors.WorkFolderError | errors.OutputError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        return (
            unwritable(self._path, error, KEPT)
            if code in _FULL
            else self._damaged(str(error))
        )

    def _damaged(self, problem: str) -> errors.WorkFolderError:
        return errors.WorkFolderError(
            f"{str(self._path)!r} is damaged ({problem}): delete {str(self._path)!r}* and "
            "give the same command again. It is made again from the files beside it, and "
            "nothing is lost",
            path=self._path,
        )


def note_of_finished(folder: Path, name: str) -> str | None:
    """Return a note of a folder that cannot be written; None where it cannot be read either."""
    path = folder / INDEX_FILE
    with suppress(sqlite3.Error, OSError):
        open_file(path).close()  # SQLite would wait for whoever writes into a pipe
        database = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True
        )
        try:
            query = "SELECT content FROM notes WHERE name = ?"
            for (content,) in database.execute(query, (name,)):
                return str(content)
        finally:
            database.close()
    return None
