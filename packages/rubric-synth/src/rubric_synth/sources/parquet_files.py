"""Parquet files, a few rows in memory at a time, read in a process that may fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_synth.rejection import Rejection, RejectionReason
from rubric_synth.sources.extras import missing_extra
from rubric_synth.sources.raw_text import NotTextError
from rubric_synth.sources.records import ROW_FRAC, complete_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rubric_synth.document import Document
    from rubric_synth.sources.isolated import IsolatedReader
    from rubric_synth.sources.opening import SourceFile
    from rubric_synth.sources.records import RecordReader


def read_parquet(
    file: SourceFile, *, records: RecordReader, reader: IsolatedReader
) -> Iterator[Document | Rejection]:
    """Yield one document per row, in the order of the file."""
    missing = missing_extra("parquet")
    if missing is not None:
        yield missing.rejection(file.source)
        return
    most = ROW_FRAC * records.most
    job: dict[str, object] = {"kind": "parquet", "columns": records.columns, "most": most}
    number = 0
    try:
        with file.open() as opened:
            for number, answer in enumerate(reader.answers(job, opened), start=1):
                try:
                    row = complete_row(answer, most=most)
                    yield records.document(row, file=file.source, number=number)
                except NotTextError as error:
                    yield error.rejection(f"{file.source}:{number}")
    except NotTextError as error:
        yield error.rejection(f"{file.source}:{number + 1}" if number else file.source)
    else:
        if not number:
            yield NotTextError(RejectionReason.EMPTY, "no row").rejection(file.source)
