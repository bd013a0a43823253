"""Where the calls and the outcome of each document lie, found by the content's hash.

All of it can be made again from the files that it points into, so rows are written in batches.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from rubric_core import Usage
from rubric_core.files import open_file
from rubric_synth.calls import CallTotals
from rubric_synth.errors import OutputError, WorkFolderError
from rubric_synth.work.segments import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rubric_synth.calls import CallRecord
    from rubric_synth.rejection import Stage

Kind = Literal["calls", "shard"]

_VERSION: Final = 3
_BATCH_ROWS: Final = 16_384
"""Hashes lie anywhere in a table: each row of a small batch would have a page of the file written.
What a killed run had not written is found again within seconds."""
_IN_ORDER: Final = itemgetter(0, 1)
"""Of the primary key; of equal ones the last comes last, and counts."""
_LARGEST_CHECKED_BYTES: Final = 64 * 2**20
"""Up to here the whole file is checked when it is opened, in a fraction of a second."""

_SCHEMA: Final = f"""
BEGIN;
PRAGMA user_version = {_VERSION};
CREATE TABLE calls (
    document BLOB, key BLOB, segment INTEGER, offset INTEGER, length INTEGER,
    stage TEXT, answered INTEGER, attempts INTEGER, fallback INTEGER,
    prompt_tokens INTEGER, completion_tokens INTEGER, cached_tokens INTEGER, cost_usd REAL,
    PRIMARY KEY (document, key)
) WITHOUT ROWID;
CREATE TABLE outcomes (
    document BLOB, settings BLOB, segment INTEGER, offset INTEGER, length INTEGER, settled INTEGER,
    PRIMARY KEY (document, settings)
) WITHOUT ROWID;
CREATE TABLE extents (
    kind TEXT, segment INTEGER, bytes INTEGER, PRIMARY KEY (kind, segment)
) WITHOUT ROWID;
CREATE TABLE notes (name TEXT PRIMARY KEY, content TEXT) WITHOUT ROWID;
COMMIT;
"""
_CALL_COLUMNS: Final = 13
_SPENT: Final = """
SELECT stage, sum(answered), sum(attempts), sum(fallback),
    sum(coalesce(prompt_tokens, 0)), sum(coalesce(completion_tokens, 0)),
    total(cost_usd), sum(cost_usd IS NULL), sum(late),
    sum(CASE WHEN late THEN prompt_tokens ELSE 0 END),
    sum(CASE WHEN late THEN completion_tokens ELSE 0 END),
    sum(CASE WHEN late THEN min(coalesce(cached_tokens, 0), prompt_tokens) ELSE 0 END)
FROM (SELECT *, cost_usd IS NULL AND prompt_tokens IS NOT NULL AS late FROM calls)
GROUP BY stage ORDER BY stage
"""
_FULL: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})


class FoundOutcome(NamedTuple):
    """An outcome that is there."""

    place: Place
    is_settled: bool


class Wanted(Protocol):
    """What an outcome is found by."""

    @property
    def doc_hash(self) -> str:
        """Hash of the document."""
        ...

    @property
    def settings(self) -> bytes:
        """Digest of all that shaped the outcome."""
        ...


class Index:
    """One SQLite file, of one process at a time."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it.

        Raises:
            WorkFolderError: It is damaged or of another version.
            OutputError: It cannot be written.
        """
        self._path = path
        self._calls: list[tuple[Any, ...]] = []
        self._outcomes: list[tuple[Any, ...]] = []
        self._extents: dict[tuple[Kind, int], int] = {}
        self._unwritten: set[bytes] = set()
        """Documents with rows that no query finds yet."""
        if not path.exists():
            for leftover in path.parent.glob(f"{path.name}-*"):
                leftover.unlink()  # the log of a file that somebody deleted
        try:
            self._database = sqlite3.connect(path, isolation_level=None)
            if self._open() == "older":
                self._database.close()
                for old in path.parent.glob(f"{path.name}*"):
                    old.unlink()
                self._database = sqlite3.connect(path, isolation_level=None)
                self._open()
        except sqlite3.Error as error:
            raise self._wrong(error) from error

    def add_call(self, document: str, call: CallRecord, place: Place) -> None:
        """Note where a call is, and what it took."""
        name = bytes.fromhex(document)
        took = (bytes.fromhex(call.key), *place, call.stage, call.answered, call.attempts)
        by_fallback = bool(call.fallback)
        usage = call.usage
        if usage is None:
            used: tuple[object, ...] = (None, None, None, None)
        else:
            tokens = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
            used = (*tokens, usage.cost_usd)
        self._calls.append((name, *took, by_fallback, *used))
        self._added("calls", place, name)

    def add_outcome(self, document: str, settings: bytes, found: FoundOutcome) -> None:
        """Note where an outcome is; the latest with the same settings counts."""
        name = bytes.fromhex(document)
        self._outcomes.append((name, settings, *found.place, found.is_settled))
        self._added("shard", found.place, name)

    def calls_of(self, document: str) -> list[Place]:
        """Return where the answered calls of a document are."""
        query = "SELECT segment, offset, length FROM calls WHERE document = ? AND answered"
        return [Place(*row) for row in self._rows_of(query, bytes.fromhex(document))]

    def outcomes_of(self, wanted: Sequence[Wanted]) -> list[FoundOutcome | None]:
        """Return where outcomes are, None for each that is not there; one query for all."""
        columns, marks = "segment, offset, length, settled", ", ".join("?" * len(wanted))
        query = f"SELECT document, settings, {columns} FROM outcomes WHERE document IN ({marks})"  # noqa: S608 - marks alone
        names = [bytes.fromhex(one.doc_hash) for one in wanted]
        found = {
            (name, settings): FoundOutcome(Place(*place), bool(settled))
            for name, settings, *place, settled in self._rows_of(query, *names)
        }
        return [found.get((name, one.settings)) for name, one in zip(names, wanted, strict=True)]

    def extents(self, kind: Kind) -> dict[int, int]:
        """Return how many bytes of each file are known here."""
        return dict(self._rows("SELECT segment, bytes FROM extents WHERE kind = ?", kind))

    def spent(self, price: Callable[[Stage, Usage], float | None]) -> dict[Stage, CallTotals]:
        """Add up the calls of each stage.

        Args:
            price: Of the tokens of a stage's calls that came without one; None if not known.
        """
        totals: dict[Stage, CallTotals] = {}
        for stage, *sums, cost_usd, unpriced, countable, prompt, completion, cached in self._rows(
            _SPENT
        ):
            usage = Usage(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached)
            late_usd = price(stage, usage) if countable else None
            if late_usd is not None:
                cost_usd += late_usd  # noqa: PLW2901 - the rest of the same sum
                unpriced -= countable  # noqa: PLW2901
            calls, attempts, by_fallback, read, written = sums
            totals[stage] = CallTotals(
                calls=calls,
                attempts=attempts,
                prompt_tokens=read,
                completion_tokens=written,
                cost_usd=cost_usd,
                unpriced_calls=unpriced,
                fallback_calls=by_fallback,
            )
        return totals

    def documents(self) -> set[str]:
        """Return the hashes of all documents with an outcome, whatever the settings."""
        return {row[0].hex() for row in self._rows("SELECT DISTINCT document FROM outcomes")}

    def note(self, name: str) -> str | None:
        """Return a note."""
        for (content,) in self._rows("SELECT content FROM notes WHERE name = ?", name):
            return str(content)
        return None

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
        extents = [(kind, segment, size) for (kind, segment), size in self._extents.items()]
        try:
            self._calls.sort(key=_IN_ORDER)
            self._outcomes.sort(key=_IN_ORDER)
            self._database.execute("BEGIN")
            put, marks = "INSERT OR REPLACE INTO", ", ".join("?" * _CALL_COLUMNS)
            self._database.executemany(f"{put} calls VALUES ({marks})", self._calls)
            self._database.executemany(f"{put} outcomes VALUES (?, ?, ?, ?, ?, ?)", self._outcomes)
            self._database.executemany(f"{put} extents VALUES (?, ?, ?)", extents)
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._wrong(error) from error
        self._calls.clear()
        self._outcomes.clear()
        self._extents.clear()
        self._unwritten.clear()

    def close(self) -> None:
        """Close the file; what was not flushed is found again in the files."""
        self._database.close()

    def _added(self, kind: Kind, place: Place, document: bytes) -> None:
        self._extents[kind, place.segment] = place.offset + place.length
        self._unwritten.add(document)
        if len(self._calls) + len(self._outcomes) >= _BATCH_ROWS:
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

    def _open(self) -> Literal["open", "older"]:
        """Open the file, unless an older release made it: it is made again then."""
        database = self._database
        # One process at a time, which a lock sees to: no file of shared memory is needed.
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            message = (
                f"{str(self._path)!r} has version {version}, this release reads {_VERSION}: use "
                f"the release that wrote it, or delete {str(self._path)!r}*, which is made again"
            )
            raise WorkFolderError(message, path=self._path)
        if 0 < version < _VERSION:
            return "older"
        if version and self._path.stat().st_size <= _LARGEST_CHECKED_BYTES:
            (found,) = database.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise self._damaged(found)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA cache_size = -16000")
        if not version:
            database.executescript(_SCHEMA)
        return "open"

    def _wrong(self, error: sqlite3.Error) -> WorkFolderError | OutputError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in _FULL:
            message = (
                f"cannot write {str(self._path)!r} ({error}); what was done until now is kept, "
                "make room and give the same command again"
            )
            return OutputError(message, path=self._path)
        return self._damaged(str(error))

    def _damaged(self, problem: str) -> WorkFolderError:
        message = (
            f"{str(self._path)!r} is damaged ({problem}): delete {str(self._path)!r}* and give the "
            "same command again. It is made again from the files beside it, and nothing is lost"
        )
        return WorkFolderError(message, path=self._path)


def note_of(path: Path, name: str) -> str | None:
    """Return a note of a file that cannot be written; None where it cannot be read either."""
    with suppress(sqlite3.Error, OSError):
        open_file(path).close()  # SQLite would wait for whoever writes into a pipe
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            query = "SELECT content FROM notes WHERE name = ?"
            for (content,) in database.execute(query, (name,)):
                return str(content)
        finally:
            database.close()
    return None
