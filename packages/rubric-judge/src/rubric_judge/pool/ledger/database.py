"""The database file of a ledger: created as a whole, and refused unless it is a sound ledger."""

import glob
import os
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path

from rubric_core.files import open_file, read_file
from rubric_judge.errors import LedgerError
from rubric_judge.pool.ledger.entry import COLUMNS, damaged

_APPLICATION_ID = 0x52554C44
"""Tells a ledger from other SQLite files; "RULD"."""

_SCHEMA_VERSION = 1
_SQLITE_HEADER = b"SQLite format 3\0"
_WAIT_S = 30.0
"""Longest wait for another writer, which holds the file for less than a millisecond."""

_LARGEST_CHECKED_BYTES = 256 * 2**20
"""Up to this size the whole file is checked when it is opened, in about a second. A larger file is
checked where it is read."""

_SCHEMA = read_file(Path(__file__).with_name("schema.sql")).decode()

_COLUMNS = ", ".join(COLUMNS)
INSERT = f"INSERT INTO judgements ({_COLUMNS}, check_sum) VALUES ({'?, ' * 11}?)"  # noqa: S608 - constants
SELECT = f"SELECT number, check_sum, {_COLUMNS} FROM judgements"  # noqa: S608 - constants


def open_database(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """Open a ledger; create it if there is none.

    Raises:
        LedgerError: there is no ledger to read, or the file is damaged, of a newer version, or no
            ledger at all. Nothing is ever repaired or replaced.
    """
    try:
        if not path.exists():
            if read_only:
                raise LedgerError("there is no such ledger", path=path)
            _create(path)
        if not is_sqlite(path):
            size = path.stat().st_size
            what = f"is no ledger, or one whose beginning is lost ({size} bytes)"
            raise LedgerError(
                f"{what}; restore it from a copy or name another file", path=path
            )
        database = connect(path, read_only=read_only)
        try:
            _check(database, path)
            if not read_only:
                # The mode is stored in the file; it is set again in case somebody changed it.
                database.execute("PRAGMA journal_mode = WAL")
            # A power cut may take the last entries, never the file; a kill takes none.
            database.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            database.close()
            raise
    except OSError as error:
        raise LedgerError(f"cannot be opened ({error.strerror})", path=path) from error
    except sqlite3.Error as error:
        raise unusable(error, path=path) from error
    return database


def unusable(error: sqlite3.Error, *, path: Path) -> LedgerError:
    """Return the error for a failure of SQLite, with the remedy."""
    code = getattr(error, "sqlite_errorcode", None)
    # An error without a code is not SQLite's: Python could not decode a text as UTF-8.
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, None}:
        return damaged(str(error), path=path)
    return LedgerError(
        "the file must lie on a disk of this machine (no NFS or SMB) that has room and that "
        f"this user may write to ({error})",
        path=path,
    )


def _create(path: Path) -> None:
    """Build the file beside its place and link it there, so that no incomplete one is ever seen."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with closing(sqlite3.connect(unfinished, isolation_level=None)) as database:
            database.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
            database.execute("PRAGMA journal_mode = WAL")
        try:
            os.link(unfinished, path)
        except FileExistsError:
            return  # another process was first; its ledger is as good as this one
    finally:
        for leftover in path.parent.glob(f"{glob.escape(unfinished.name)}*"):
            leftover.unlink(missing_ok=True)


def is_sqlite(path: Path) -> bool:
    """Return whether a file begins as SQLite files do.

    Raises:
        OSError: the file cannot be read.
    """
    with open_file(path) as file:
        return file.read(len(_SQLITE_HEADER)) == _SQLITE_HEADER


def connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """Connect without any check of the file."""
    # If nothing can be written, not even the files that readers share, the file must be at rest.
    log = path.with_name(f"{path.name}-wal")
    has_open_log = log.exists() and log.stat().st_size > 0
    frozen = read_only and not os.access(path.parent, os.W_OK) and not has_open_log
    options = "immutable=1" if frozen else f"mode={'ro' if read_only else 'rw'}"
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        timeout=_WAIT_S,
        isolation_level=None,
        check_same_thread=False,
    )


def _check(database: sqlite3.Connection, path: Path) -> None:
    (application_id,) = database.execute("PRAGMA application_id").fetchone()
    if application_id != _APPLICATION_ID:
        raise LedgerError(
            "is an SQLite file, but no ledger; name another file", path=path
        )
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version != _SCHEMA_VERSION:
        what = "which no release wrote; restore it from a copy"
        if version > _SCHEMA_VERSION:
            what = f"this release reads up to {_SCHEMA_VERSION}; upgrade rubric-judge or name "
            what += "another file"
        raise LedgerError(f"has schema version {version}, {what}", path=path)
    with closing(sqlite3.connect(":memory:")) as model:
        model.executescript(_SCHEMA)
        if _layout(database) != _layout(model):
            raise damaged(
                "its tables, views and triggers are not those of a ledger", path=path
            )
    if path.stat().st_size <= _LARGEST_CHECKED_BYTES:
        (answer,) = database.execute("PRAGMA quick_check(1)").fetchone()
        if answer != "ok":
            raise damaged(answer, path=path)


def _layout(database: sqlite3.Connection) -> set[str]:
    """Return the statements of its tables, views and triggers; indexes change no answer."""
    cursor = database.execute(
        "SELECT sql FROM sqlite_schema WHERE type <> 'index' AND name NOT LIKE 'sqlite_%'"
    )
    return {sql for (sql,) in cursor}
