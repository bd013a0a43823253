"""Rows of tasks in Parquet files; pyarrow is imported at the first use."""

from __future__ import annotations

from importlib import import_module
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from rubric_core.errors import MissingExtraError, RubricFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_BATCH_ROWS: Final = 256


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield (1-based row, its columns without the nulls), a batch in memory at a time.

    Raises:
        RubricFileError: not a readable Parquet file.
        MissingExtraError: pyarrow is not installed.
    """
    pa = _pyarrow()
    with path.open("rb") as file:
        try:
            batches = pa.parquet.ParquetFile(file).iter_batches(batch_size=_BATCH_ROWS)
            rows = chain.from_iterable(batch.to_pylist() for batch in batches)
            for row, columns in enumerate(rows, start=1):
                yield row, cast("dict[str, object]", _without_nulls(columns))
        except (pa.ArrowException, OSError):
            raise RubricFileError(
                "not a readable Parquet file: write it again", path=path
            ) from None


def write_rows(file: BinaryIO, rows: Iterator[dict[str, object]]) -> None:
    """Write rows under the paper's names, a batch in memory at a time.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    pa = _pyarrow()
    schema = task_schema()
    with pa.parquet.ParquetWriter(file, schema) as writer:
        while batch := list(islice(rows, _BATCH_ROWS)):
            writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=schema))


def _pyarrow() -> Any:  # noqa: ANN401  # pyarrow ships no types
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError as error:
        raise MissingExtraError(
            "Parquet files need pyarrow: install rubric-core[parquet], or use .jsonl"
        ) from error


def task_schema() -> Any:  # noqa: ANN401  # pyarrow ships no types
    """Return the columns of a file of tasks, the same whatever the tasks hold.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    pa = _pyarrow()
    text, texts = pa.string(), pa.list_(pa.string())
    criterion = pa.struct(
        {
            "id": text,
            "weight": pa.float64(),
            "name": text,
            "description": text,
            "required_elements": texts,
            "scoring_guide": text,
            "verification_method": text,
            "expected_keywords": texts,
            "expected_concepts": texts,
        }
    )
    analysis = pa.struct(
        {
            "genre": text,
            "contribution": text,
            "concepts": texts,
            "depth": text,
            "reasoning_mode": text,
        }
    )
    return pa.schema(
        {
            "question": text,
            "passage": text,
            "criteria": pa.list_(criterion),
            "question_rationale": text,
            "document_analysis": analysis,
            "doc_hash": text,
            "reference_answer": text,
        }
    )


def _without_nulls(value: object) -> object:
    """Parquet spells an absent field as null, at any depth."""
    match value:
        case dict():
            fields = cast("dict[str, object]", value)
            return {key: _without_nulls(v) for key, v in fields.items() if v is not None}
        case list():
            return [_without_nulls(v) for v in cast("list[object]", value)]
        case _:
            return value
