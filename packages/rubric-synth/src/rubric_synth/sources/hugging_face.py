"""`hf:PATH` and `hf:PATH:SPLIT`: a data set that the `datasets` library opens, row by row."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rubric_synth.errors import SourceError
from rubric_synth.sources.extras import need_extra
from rubric_synth.sources.isolated import IsolatedReader
from rubric_synth.sources.raw_text import NotTextError
from rubric_synth.sources.records import RecordReader, row_documents

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rubric_synth.config import CollectConfig
    from rubric_synth.document import Document
    from rubric_synth.rejection import Rejection


def read_hugging_face(location: str, *, config: CollectConfig) -> Iterator[Document | Rejection]:
    """Yield one document per row of a data set, split by split.

    Args:
        location: A folder that `save_to_disk` wrote, or what `load_dataset` takes; after it,
            a colon and a split, or else all of them.
        config: Limits, and names of fields.

    Raises:
        SourceError: `datasets` is not installed, or cannot open it, or there is no such split.
    """
    source = f"hf:{location}"
    need_extra("datasets", source=source)
    path, _, split = location.rpartition(":")
    if not path or Path(location).exists():
        path, split = location, ""
    reader = IsolatedReader(timeout_s=None)  # the network may take its time
    splits = _splits(reader, path, source)
    if split and split not in splits:
        reader.close()
        message = f"source {source!r} has no split {split!r}; it has {sorted(splits)!r}"
        raise SourceError(message, source=source)
    folder = Path(path)
    name = folder.resolve().name if folder.exists() else path
    chosen = [split] if split else splits
    return _rows(reader, path, chosen, f"hf:{name}", RecordReader(config))


def _splits(reader: IsolatedReader, path: str, source: str) -> list[str]:
    """Open a data set without reading its rows.

    Raises:
        SourceError: It cannot be opened.
    """
    try:
        answer = reader.answer({"kind": "dataset", "path": path})
    except NotTextError as error:
        answer: dict[str, Any] = {"error": error.detail}
    if "splits" in answer:
        return list(answer["splits"])
    reader.close()
    message = f"source {source!r} cannot be opened by `datasets` ({answer['error']})"
    if not Path(path).exists():
        message += (
            f"; there is no folder {path!r} here either: check the name, and that the "
            "Hugging Face Hub can be reached"
        )
    raise SourceError(message, source=source)


def _rows(
    reader: IsolatedReader, path: str, splits: Sequence[str], name: str, records: RecordReader
) -> Iterator[Document | Rejection]:
    """Yield the documents; where reading breaks off, one rejection says at which row."""
    with contextlib.closing(reader):
        for split in splits:
            job: dict[str, object] = {"kind": "dataset", "path": path, "split": split}
            job |= {"columns": records.columns, "most": records.most_row}
            yield from row_documents(reader.answers(job), records=records, file=f"{name}:{split}")
