"""What is still whole of a damaged ledger."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from rubric_core.files import open_file
from rubric_judge.errors import LedgerError
from rubric_judge.ledger.database import SELECT, connect
from rubric_judge.ledger.entry import LedgerEntry, row_to_entry
from rubric_judge.ledger.store import Ledger

_SMALLEST_ENTRY_BYTES: Final = 256
"""Its four hashes alone: bounds how many entries a file can hold."""


def salvage(path: Path | str, *, to: Path | str) -> int:
    """Copy every entry that can be read and passes its check sum into a new ledger.

    Args:
        path: the damaged file; it stays as it is.
        to: the new ledger.

    Returns:
        How many there are in it.

    Raises:
        LedgerError: there is a file at `to` already, it cannot be written, or `path` cannot be
            opened.
    """
    path, to = Path(path), Path(to)
    if to.exists():
        raise LedgerError("is there already; name a new file", path=to)
    try:
        open_file(path).close()
    except OSError as error:
        raise LedgerError(f"cannot be opened ({error.strerror})", path=path) from error
    kept = 0
    with closing(connect(path, read_only=True)) as database, Ledger(to) as ledger:
        # Without it, SQLite reads nothing at all of a file that is shorter than it says.
        database.execute("PRAGMA writable_schema = ON")
        for entry in _readable(database, path):
            ledger.append(entry)
            kept += 1
        if ledger.unwritten:
            raise LedgerError(f"{ledger.unwritten} entries could not be written", path=to)
    return kept


def _readable(database: sqlite3.Connection, path: Path) -> Iterator[LedgerEntry]:
    # One by one: a page that is lost takes its own entries, and those behind it are still there.
    for number in range(1, path.stat().st_size // _SMALLEST_ENTRY_BYTES + 2):
        with suppress(sqlite3.DatabaseError, LedgerError):
            found = database.execute(f"{SELECT} WHERE number = ?", (number,)).fetchone()
            if found is not None:
                yield row_to_entry(found, path=path)
