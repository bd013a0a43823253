"""Parquet files, a few rows in memory at a time."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from rubric_synth.rejection import Rejection, RejectionReason
from rubric_synth.sources.extras import missing_extra
from rubric_synth.sources.opening import open_regular, unreadable
from rubric_synth.sources.raw_text import NotTextError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

    from rubric_synth.document import Document
    from rubric_synth.sources.records import RecordReader

_BATCH_ROWS: Final = 16
_BUFFER_BYTES: Final = 1 << 20  # read pages, not whole columns of a row group


def read_parquet(path: Path, name: str, *, records: RecordReader) -> Iterator[Document | Rejection]:
    """Yield one document per row, in the order of the file."""
    missing = missing_extra("parquet")
    if missing is not None:
        yield missing.rejection(name)
        return
    number = 0
    try:
        with open_regular(path) as file:
            for number, row in enumerate(_rows(file, records.columns), start=1):
                try:
                    yield records.document(row, file=name, number=number)
                except NotTextError as error:
                    yield error.rejection(f"{name}:{number}")
    except NotTextError as error:
        yield error.rejection(f"{name}:{number + 1}" if number else name)
    except OSError as error:
        yield unreadable(error).rejection(f"{name}:{number + 1}" if number else name)
    else:
        if not number:
            yield NotTextError(RejectionReason.EMPTY, "no row").rejection(name)


def _rows(file: BinaryIO, columns: tuple[str, ...]) -> Iterator[dict[str, object]]:
    pyarrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    try:
        table = parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False)
        present = [column for column in columns if column in table.schema_arrow.names]
        for batch in table.iter_batches(_BATCH_ROWS, columns=present):
            yield from cast("list[dict[str, object]]", batch.to_pylist())
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the disk, not of the content
        detail = f"not readable as Parquet ({type(error).__name__})"
        raise NotTextError(RejectionReason.BROKEN_RECORD, detail) from None
