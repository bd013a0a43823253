"""Whether a Parquet file holds the rows of the JSON lines beside it."""

from __future__ import annotations

from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any

from rubric_core.files import open_file
from rubric_core.parquet import task_schema
from rubric_synth.dataset.splits import can_write_parquet, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def parquet_problems(parquet: Path, lines: Path) -> Iterator[str]:
    """Compare two files of one split, a row group in memory at a time.

    Yields nothing where one of them is missing, or pyarrow is.
    """
    if not (parquet.is_file() and lines.is_file() and can_write_parquet()):
        return
    arrow: Any = import_module("pyarrow")
    try:
        yield from _differences(parquet, lines)
    except (arrow.ArrowException, OSError):
        yield f"{parquet.name} cannot be compared with {lines.name}: one of them is damaged"


def _differences(parquet: Path, lines: Path) -> Iterator[str]:
    files: Any = import_module("pyarrow.parquet")
    with open_file(parquet) as table, open_file(lines) as rows:
        found = files.ParquetFile(table)
        if not found.schema_arrow.equals(task_schema()):
            yield f"{parquet.name} does not have the columns of a file of tasks"
            return
        done = 0
        for group in range(found.num_row_groups):
            right = found.read_row_group(group, use_threads=False)
            left = list(islice(rows, right.num_rows))
            if len(left) < right.num_rows or not table_of(left).equals(right):
                yield (
                    f"{parquet.name} differs from {lines.name} between rows {done + 1} and "
                    f"{done + right.num_rows}"
                )
                return
            done += right.num_rows
        if any(line.strip() for line in rows):
            yield f"{parquet.name} ends after row {done}, and {lines.name} goes on"
