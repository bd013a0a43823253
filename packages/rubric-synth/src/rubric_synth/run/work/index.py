"""Index of the places of each document's calls and outcome, by the content's hash.

All of it can be made again from the files that it points into, so rows are written in batches.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rubric_core import Usage
from rubric_core.files import open_file
from rubric_synth import calls
from rubric_synth.config import Stage
from rubric_synth.document import Document, DocumentOutcome
from rubric_synth.errors import OutputError, WorkFolderError
from rubric_synth.files import unwritable
from rubric_synth.run.work.segments import KEPT, Place
from rubric_synth.tables import read_text

Kind = Literal["calls", "shard"]

INDEX_FILE = "index.sqlite"
_VERSION = 3
"""Version of the tables in `index.sql`."""
_BATCH_ROWS = 16_384
"""Rows written together. Hashes lie anywhere in a table: each row of a small batch would have a
page of the file written. What a killed run had not written is found again within seconds."""
_PRIMARY_KEY = itemgetter(0, 1)
"""Key to sort rows by; among rows with equal keys the last comes last, and counts."""
_LARGEST_CHECKED_BYTES = 64 * 2**20
"""Size up to which the whole file is checked when it is opened, in a fraction of a second."""

_TABLES: dict[Kind, tuple[str, int]] = {
    "calls": ("calls", 13),
    "shard": ("outcomes", 6),
}
"""For the lines of each kind of file: the table of their places, and the number of its columns."""
_SUMS = (
    "calls",
    "attempts",
    "fallback_calls",
    "prompt_tokens",
    "completion_tokens",
)
_FULL = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})


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


def _unknown_price(_stage: Stage, _usage: Usage) -> None:
    """Return None: no price of tokens is known."""


class Index:
    """One SQLite file, used by one process at a time."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it.

        Raises:
            WorkFolderError: The file is damaged or of another version.
            OutputError: The file cannot be written.
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
            self._database = self._open()
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def add_call(
        self,
        document: str,
        call: calls.CallRecord,
        place: Place,
    ) -> None:
        """Note the place of a call, and what it used."""
        usage = call.usage
        row = (
            bytes.fromhex(document),
            bytes.fromhex(call.key),
            *place,
            call.stage,
            call.answered,
            call.attempts,
            bool(call.fallback),
            None if usage is None else usage.prompt_tokens,
            None if usage is None else usage.completion_tokens,
            None if usage is None else usage.cached_tokens,
            None if usage is None else usage.cost_usd,
        )
        self._add("calls", row, place)

    def add_outcome(
        self,
        outcome: DocumentOutcome,
        settings: bytes,
        place: Place,
    ) -> None:
        """Note the place of an outcome; the latest with the same settings counts."""
        document = bytes.fromhex(outcome.doc_hash)
        self._add("shard", (document, settings, *place, outcome.is_settled), place)

    def calls_of(self, document: str) -> list[Place]:
        """Return the places of the answered calls of a document."""
        query = (
            "SELECT segment, offset, length FROM calls WHERE document = ? AND answered"
        )
        rows = self._rows_of(query, bytes.fromhex(document))
        return [Place(*row) for row in rows]

    def outcomes_of(
        self, wanted: Sequence[CollectedLine]
    ) -> list[tuple[Place, bool] | None]:
        """Return the place of each outcome and whether it is settled, None where it is missing."""
        columns = "segment, offset, length, settled"
        marks = ", ".join("?" * len(wanted))
        query = f"SELECT document, settings, {columns} FROM outcomes WHERE document IN ({marks})"  # noqa: S608 - marks alone
        documents = [bytes.fromhex(line.doc_hash) for line in wanted]
        outcomes = {
            (document, settings): (Place(*place), bool(settled))
            for document, settings, *place, settled in self._rows_of(query, *documents)
        }
        return [
            outcomes.get((document, line.settings))
            for document, line in zip(documents, wanted, strict=True)
        ]

    def extents(self, kind: Kind) -> dict[int, int]:
        """Return how many bytes of each file are known here, by its number."""
        query = "SELECT segment, bytes FROM extents WHERE kind = ?"
        return dict(self._rows(query, kind))

    def spent(
        self, price: Callable[[Stage, Usage], float | None] = _unknown_price
    ) -> dict[Stage, calls.CallTotals]:
        """Add up the calls of each stage, over all runs.

        Args:
            price: Returns the price of a stage's tokens whose calls came without one, in USD; None
                if it is not known.
        """
        totals: dict[Stage, calls.CallTotals] = {}
        for row in self._rows(read_text("spent.sql")):
            stage, *sums, cost_usd, unpriced, late, prompt, completion, cached = row
            late_usd = None
            if late:
                usage = Usage(
                    prompt_tokens=prompt,
                    completion_tokens=completion,
                    cached_tokens=cached,
                )
                late_usd = price(stage, usage)
            if late_usd is not None:
                cost_usd += late_usd
                unpriced -= late
            counts = dict(zip(_SUMS, sums, strict=True))
            totals[stage] = calls.CallTotals(
                **counts, cost_usd=cost_usd, unpriced_calls=unpriced
            )
        return totals

    def documents(self) -> set[str]:
        """Return the hashes of all documents with an outcome, whatever the settings."""
        rows = self._rows("SELECT DISTINCT document FROM outcomes")
        return {document.hex() for (document,) in rows}

    def note(self, name: str) -> str | None:
        """Return a note; None where there is none of this name."""
        rows = self._rows("SELECT content FROM notes WHERE name = ?", name)
        return str(rows[0][0]) if rows else None

    def set_note(self, name: str, content: str) -> None:
        """Keep a note."""
        self._rows("INSERT OR REPLACE INTO notes VALUES (?, ?)", name, content)

    def flush(self) -> None:
        """Write the rows that have been added.

        Raises:
            OutputError: There is no room.
        """
        if not self._extents:
            return
        insert = "INSERT OR REPLACE INTO"
        try:
            self._database.execute("BEGIN")
            for kind, rows in self._added.items():
                table, columns = _TABLES[kind]
                rows.sort(key=_PRIMARY_KEY)
                marks = ", ".join("?" * columns)
                self._database.executemany(f"{insert} {table} VALUES ({marks})", rows)
            extents = [(*key, size) for key, size in self._extents.items()]
            self._database.executemany(f"{insert} extents VALUES (?, ?, ?)", extents)
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._translated(error) from error
        for rows in self._added.values():
            rows.clear()
        self._extents.clear()
        self._unwritten.clear()

    def close(self) -> None:
        """Close the file; rows that were not flushed are found again in the files."""
        self._database.close()

    def _add(
        self,
        kind: Kind,
        row: tuple[Any, ...],
        place: Place,
    ) -> None:
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
            raise self._translated(error) from error

    def _open(self) -> sqlite3.Connection:
        """Open the file, which may be a new one."""
        database = sqlite3.connect(self._path, isolation_level=None)
        # One process at a time, which a lock sees to: no file of shared memory is needed.
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version not in {0, _VERSION}:
            raise WorkFolderError(
                f"{str(self._path)!r} has version {version}, this release reads {_VERSION}: "
                f"use the release that wrote it, or delete {str(self._path)!r}*, which is "
                "made again",
                path=self._path,
            )
        if version and self._path.stat().st_size <= _LARGEST_CHECKED_BYTES:
            (result,) = database.execute("PRAGMA quick_check(1)").fetchone()
            if result != "ok":
                raise self._damaged(result)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA cache_size = -16000")
        if not version:
            database.executescript(read_text("index.sql"))
        return database

    def _translated(self, error: sqlite3.Error) -> WorkFolderError | OutputError:
        """Return an error of SQLite as one of this package."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in _FULL:
            return unwritable(self._path, error, KEPT)
        return self._damaged(str(error))

    def _damaged(self, problem: str) -> WorkFolderError:
        return WorkFolderError(
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
