"""Parquet files, a few rows in memory at a time, read in a process that may fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rubric_synth.rejection import Rejection, RejectionReason
from rubric_synth.sources.extras import missing_extra
from rubric_synth.sources.raw_text import MAX_BYTES, NotTextError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rubric_synth.document import Document
    from rubric_synth.sources.isolated import IsolatedReader
    from rubric_synth.sources.opening import SourceFile
    from rubric_synth.sources.records import RecordReader

_OTHER_FIELDS: Final = 8  # a row may be so many times its text


def read_parquet(
    file: SourceFile, *, records: RecordReader, reader: IsolatedReader
) -> Iterator[Document | Rejection]:
    """Yield one document per row, in the order of the file."""
    missing = missing_extra("parquet")
    if missing is not None:
        yield missing.rejection(file.source)
        return
    most = _OTHER_FIELDS * records.most
    job: dict[str, object] = {"kind": "parquet", "columns": records.columns, "most": most}
    number = 0
    try:
        with file.open() as opened:
            for number, answer in enumerate(reader.answers(job, opened), start=1):
                try:
                    row = _complete(answer, most=most)
                    yield records.document(row, file=file.source, number=number)
                except NotTextError as error:
                    yield error.rejection(f"{file.source}:{number}")
    except NotTextError as error:
        yield error.rejection(f"{file.source}:{number + 1}" if number else file.source)
    else:
        if not number:
            yield NotTextError(RejectionReason.EMPTY, "no row").rejection(file.source)


def _complete(answer: dict[str, Any], *, most: int) -> object:
    if "bytes" in answer:
        detail = f"a row of {answer['bytes']} bytes, above the {most} that {MAX_BYTES} allows"
        raise NotTextError(RejectionReason.TOO_LONG, detail)
    return answer["row"]
