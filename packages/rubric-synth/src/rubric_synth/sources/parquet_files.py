"""Parquet files, a few rows in memory at a time, read in a process that may fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rubric_synth.sources.extras import missing_extra
from rubric_synth.sources.records import row_documents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rubric_synth.document import Document
    from rubric_synth.rejection import Rejection
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
    job: dict[str, object] = {"kind": "parquet", "columns": records.columns}
    answers = _answers(file, job | {"most": records.most_row}, reader)
    yield from row_documents(answers, records=records, file=file.source)


def _answers(
    file: SourceFile, job: dict[str, object], reader: IsolatedReader
) -> Iterator[dict[str, Any]]:
    with file.open() as opened:
        yield from reader.answers(job, opened)
