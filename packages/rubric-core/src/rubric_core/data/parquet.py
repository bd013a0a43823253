"""Rows of Parquet files, bounded before they are in memory; pyarrow is imported at the first use.

A value that a column repeats is stored once, so that a file of two kilobytes can stand for
gigabytes. The sizes that the file declares are checked first; then repeated values stay stored once
until each row's size is known.
"""

from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast, get_args, get_origin

from pydantic import BaseModel

from rubric_core.errors import RubricFileError, SchemaError, needing_extra
from rubric_core.expansion import Expansion, TooLargeError
from rubric_core.files import open_file
from rubric_core.schema.task import TaskRow, without_nulls

_BATCH_ROWS = 256
_BUFFER_BYTES = 1 << 20  # read pages, not whole columns of a row group
_MOST_ROW_BYTES = 1 << 26  # largest task
_MOST_BATCH_BYTES = 1 << 26  # a larger batch is read row by row
_VALUE_BYTES = 8  # least memory of a value
_TEXT_TYPES = frozenset({"NONE", "STRING", "JSON", "ENUM"})


class LongRow(NamedTuple):
    """A row that was not read, since it is too large."""

    size_bytes: int
    """Size of its values in memory."""


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield (1-based row, its columns without the nulls), a batch in memory at a time.

    Raises:
        RubricFileError: not a readable Parquet file, or a file or row that is too large.
        MissingExtraError: pyarrow is not installed.
    """
    pa = _pyarrow()
    with open_file(path) as file:
        try:
            for number, row in enumerate(bounded_rows(file), start=1):
                if isinstance(row, LongRow):
                    size = f"{row.size_bytes} bytes and may have {_MOST_ROW_BYTES}"
                    raise RubricFileError(
                        f"the row has {size}: shorten its texts", path=path, line=number
                    )
                yield number, cast("dict[str, object]", without_nulls(row))
        except TooLargeError as error:
            raise RubricFileError(str(error), path=path) from None
        except (pa.ArrowException, OSError):
            raise RubricFileError(
                "not a readable Parquet file: write it again", path=path
            ) from None


def bounded_rows(
    file: BinaryIO,
    *,
    columns: tuple[str, ...] | None = None,
    most_row_bytes: int = _MOST_ROW_BYTES,
) -> Iterator[dict[str, object] | LongRow]:
    """Yield the rows of a Parquet file, some hundred in memory at a time.

    Args:
        file: Opened for reading bytes.
        columns: Names of the columns to read, as far as the file has them; all if None.
        most_row_bytes: Largest size of a row; a larger row is skipped.

    Raises:
        TooLargeError: The file declares, or unpacks to, more than 200 times its size and more than
            256 MiB.
        pyarrow.ArrowException: Not a readable Parquet file.
        MissingExtraError: pyarrow is not installed.
    """
    pa = _pyarrow()
    plain: Any = pa.parquet.ParquetFile(
        file,
        buffer_size=_BUFFER_BYTES,
        pre_buffer=False,
    )
    schema: Any = plain.schema_arrow
    if columns is not None:
        fields = [field for field in schema if field.name in columns]
        schema = pa.schema(fields)
    leaves = [plain.schema.column(index) for index in range(len(plain.schema))]
    chosen = [_column_of(leaf) in schema.names for leaf in leaves]
    file_bytes = file.seek(0, 2)
    expansion = Expansion(file_bytes)
    _check_declared(plain.metadata, chosen, file_bytes, most=expansion.most)
    if not schema.names:  # pyarrow makes no rows without columns
        for _ in range(plain.metadata.num_rows):
            yield {}
        return
    joined = {field.name for field in schema if _can_be_joined(pa, field.type)}
    joined_texts = [leaf.path for leaf in leaves if _is_joined_text(leaf, joined)]
    stored_once: Any = pa.parquet.ParquetFile(
        file,
        metadata=plain.metadata,
        buffer_size=_BUFFER_BYTES,
        pre_buffer=False,
        read_dictionary=joined_texts,
    )
    number = 0
    # Group by group: a nested column has one set of values in a batch.
    for group in range(plain.metadata.num_row_groups):
        batches = stored_once.iter_batches(
            _BATCH_ROWS,
            row_groups=[group],
            columns=schema.names,
            use_threads=False,
        )
        for batch in batches:
            for row, size in _rows(pa, batch, schema, most_row_bytes):
                number += 1
                expansion.add(size, place=f"row {number}")
                yield row


def _is_joined_text(leaf: Any, joined: set[str]) -> bool:
    """Return whether a leaf holds text, in a column whose repeated values can be joined."""
    if _column_of(leaf) not in joined:
        return False
    if leaf.physical_type != "BYTE_ARRAY":
        return False
    return leaf.logical_type.type in _TEXT_TYPES


def _column_of(leaf: Any) -> str:
    """Return the name of the column that a leaf belongs to."""
    name, _, _ = leaf.path.partition(".")
    return name


def _rows(
    pa: Any,
    batch: Any,
    schema: Any,
    most_row_bytes: int,
) -> Iterator[tuple[dict[str, object] | LongRow, int]]:
    """Yield the rows of a batch with their sizes, measured before the values are joined."""
    size = _size(pa, batch.to_struct_array())
    if size <= min(_MOST_BATCH_BYTES, most_row_bytes):
        rows: list[dict[str, object]] = batch.cast(schema).to_pylist()
        for row in rows:
            yield row, size // batch.num_rows
        return
    for index in range(batch.num_rows):
        row = batch.slice(index, 1)
        size = _size(pa, row.to_struct_array())
        if size > most_row_bytes:
            yield LongRow(size), 0
        else:
            (values,) = row.cast(schema).to_pylist()
            yield values, size


def _check_declared(
    metadata: Any,
    chosen: list[bool],
    file_bytes: int,
    *,
    most: int,
) -> None:
    """Refuse a file whose footer declares far more than its size can hold."""
    columns = [index for index, is_chosen in enumerate(chosen) if is_chosen]
    values = 0
    declared = 0
    for group in range(metadata.num_row_groups):
        for index in columns:
            chunk = metadata.row_group(group).column(index)
            values += chunk.num_values
            declared += chunk.total_uncompressed_size
    values = max(metadata.num_rows, values)
    declared += _VALUE_BYTES * values
    if declared > most:
        raise TooLargeError(
            f"a Parquet file of {file_bytes} bytes that declares {values} values and {declared} "
            f"bytes, above the {most} that it may: write it again, in several files"
        )


def _can_be_joined(pa: Any, kind: Any) -> bool:
    """Return whether pyarrow can turn values stored once into ordinary ones, inside this type."""
    if pa.types.is_map(kind) or _is_view(pa, kind):
        return False
    inner = [kind.field(index).type for index in range(kind.num_fields)]
    return all(_can_be_joined(pa, inner_kind) for inner_kind in inner)


def _is_view(pa: Any, kind: Any) -> bool:
    return pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)


def _size(pa: Any, array: Any) -> int:
    """Return the bytes of the values of an array, each counted as often as it is repeated."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        lengths = pa.compute.binary_length(array.dictionary)
        sizes = pa.compute.take(lengths, array.indices)
        total = pa.compute.sum(sizes).as_py() or 0
        return int(total) + array.indices.nbytes
    if pa.types.is_struct(kind):
        return sum(_size(pa, part) for part in array.flatten())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _size(pa, array.flatten()) + _VALUE_BYTES * len(array)
    if _is_view(pa, kind):
        # Before 24, pyarrow cannot measure a slice of views.
        return int(array.cast(pa.large_binary()).nbytes)
    return int(array.nbytes)


def write_rows(file: BinaryIO, rows: Iterator[dict[str, object]]) -> int:
    """Write rows under the paper's names, a batch in memory at a time; return their number.

    There is a column for contexts, for conversations and for what criteria judge if one of the
    first rows has it.

    Raises:
        SchemaError: only a later row has what there is no column for then.
        MissingExtraError: pyarrow is not installed.
    """
    pa = _pyarrow()
    batch = list(islice(rows, _BATCH_ROWS))
    optional = _optional_columns(batch)
    schema = _schema(optional)
    count = 0
    with pa.parquet.ParquetWriter(file, schema) as writer:
        while batch:
            if missing := _optional_columns(batch) - optional:
                name = min(missing)
                what = _OPTIONAL[name]
                raise SchemaError(
                    f"a task after the first {count} has {what} and none of those has: write "
                    f"tasks with {what} first, or a .jsonl file",
                    field=name,
                )
            record_batch = pa.RecordBatch.from_pylist(batch, schema=schema)
            writer.write_batch(record_batch)
            count += len(batch)
            batch = list(islice(rows, _BATCH_ROWS))
    return count


def _optional_columns(batch: list[dict[str, object]]) -> set[str]:
    """Return which columns that a file need not have are filled by a row."""
    filled: set[str] = set()
    for row in batch:
        filled |= row.keys()
        criteria = cast("list[dict[str, object]]", row["criteria"])
        for criterion in criteria:
            filled |= criterion.keys()
    return filled & _OPTIONAL.keys()


def _pyarrow() -> Any:
    with needing_extra("rubric-core", "parquet", by="a Parquet file, unlike .jsonl,"):
        import_module("pyarrow.compute")
        import_module("pyarrow.parquet")
        return import_module("pyarrow")


_OPTIONAL = {
    "context": "a context",
    "conversation": "a conversation",
    "judges": "a criterion with `judges`",
}
"""Columns, the last one of criteria, that only files with such tasks have, so that all others are
those of older versions."""


def task_schema(*, has_context: bool) -> Any:
    """Return the columns of a file of tasks of one message, whose last reply is judged.

    They do not depend on the tasks' other fields.

    Args:
        has_context: whether there is a column for contexts; a file of closed-book tasks has none.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    return _schema({"context"} if has_context else set())


def _schema(optional: set[str]) -> Any:
    left_out = _OPTIONAL.keys() - optional
    return _pyarrow().schema(_columns(TaskRow, left_out))


def _columns(model: type[BaseModel], left_out: set[str]) -> dict[str, Any]:
    fields = {
        name: field
        for name, field in model.model_fields.items()
        if name not in left_out
    }
    return {name: _column(field.annotation, left_out) for name, field in fields.items()}


def _column(kind: Any, left_out: set[str]) -> Any:
    """Return Arrow's type for a field's: a text, a number, a model, or a tuple of these."""
    pa = _pyarrow()
    arguments = get_args(kind)
    if arguments:  # a tuple, a type or None, or a type with constraints
        inner = _column(arguments[0], left_out)
        if get_origin(kind) is tuple:
            return pa.list_(inner)
        return inner
    if issubclass(kind, BaseModel):
        return pa.struct(_columns(kind, left_out))
    if kind is bool:
        return pa.bool_()
    if kind is float:
        return pa.float64()
    return pa.string()
