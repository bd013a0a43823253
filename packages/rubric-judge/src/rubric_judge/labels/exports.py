"""Where other tools keep a score: a table, Label Studio's JSON, Argilla's records."""

from __future__ import annotations

import csv
import io
import json
from codecs import BOM_UTF8
from collections import ChainMap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from rubric_core.errors import RubricFileError, SchemaError
from rubric_core.files import broken, decode, read_file
from rubric_judge.labels.foreign import Given, Reader

_COLUMNS: Final = ("criterion", "score")
_Record = Mapping[str, Any]


def read_csv(path: Path) -> Iterator[Given]:
    """Read a table with a header: `criterion`, `score`, `line` or `task_id`, and perhaps `rater`.

    Raises:
        RubricFileError: a column is missing, a row is longer than the header, or it is not UTF-8.
        OSError: the file cannot be read.
    """
    rows = csv.DictReader(io.StringIO(_text(path), newline=""), strict=True)
    columns = [name.strip() for name in rows.fieldnames or ()]
    rows.fieldnames = columns
    missing = [name for name in _COLUMNS if name not in columns]
    if missing or not {"line", "task_id"} & set(columns):
        needed = ", ".join(missing or ["line or task_id"])
        problem = f"has no column {needed}: the first line names line or task_id, criterion, score"
        raise RubricFileError(problem, path=path, line=1)
    try:
        for row in rows:
            if None in row or None in row.values():
                problem = f"has not the {len(columns)} cells of the header: quote commas in cells"
                raise RubricFileError(problem, path=path, line=rows.line_num)
            cells = {name: row[name] for name in columns}
            yield Given(
                place=rows.line_num,
                criterion=cells["criterion"].strip(),
                value=cells["score"],
                rater=cells.get("rater") or None,
                line=cells.get("line") or None,
                task_id=cells.get("task_id") or None,
                response=cells.get("response") or None,
            )
    except csv.Error as error:
        line = rows.reader.line_num
        raise RubricFileError(f"is no CSV: {error}", path=path, line=line) from None


def read_label_studio(path: Path) -> Iterator[Given]:
    """Read Label Studio's export `JSON`: a list of tasks, each with its `annotations`.

    A task's `data` holds `line`, or `task_id` and `response`. A control (`Rating`, `Number`,
    `Choices` or `TextArea`) is named by the criterion's id, or `data.criterion` names it. Skipped
    annotations are left out; predictions and drafts are not read.

    Raises:
        RubricFileError: it is another export, or a control of another kind. Says which task.
        OSError: the file cannot be read.
    """
    for place, task in _records(path):
        data, annotations = task.get("data"), task.get("annotations")
        if not isinstance(data, dict) or not isinstance(annotations, list):
            problem = "has no data and annotations: export as JSON, not as JSON-MIN, CSV or others"
            raise RubricFileError(problem, path=path, line=place)
        for annotation in cast("list[_Record]", annotations):
            if annotation.get("was_cancelled"):
                continue
            for found in cast("list[_Record]", annotation.get("result") or []):
                named = cast("_Record", data)
                yield Given(
                    place=place,
                    criterion=str(named.get("criterion") or found.get("from_name")),
                    value=_label_studio_value(found, path=path, place=place),
                    rater=_label_studio_rater(annotation.get("completed_by")),
                    line=named.get("line"),
                    task_id=named.get("task_id"),
                    response=named.get("response"),
                )


def _label_studio_value(found: _Record, *, path: Path, place: int) -> object:
    kind = str(found.get("type"))
    held = cast("_Record", found.get("value") or {}).get({"textarea": "text"}.get(kind, kind))
    if kind not in {"rating", "number", "choices", "textarea"} or held is None:
        problem = f"holds a control of type {kind!r}: scores are Rating, Number, Choices, TextArea"
        raise RubricFileError(problem, path=path, line=place)
    return _single(held, path=path, place=place)


def _label_studio_rater(by: object) -> str | None:
    """A number, or, in newer exports, a person with an e-mail address."""
    if isinstance(by, dict):
        person = cast("_Record", by)
        by = person.get("email") or person.get("username") or person.get("id")
    return None if by is None else _written(by)


def read_argilla(path: Path) -> Iterator[Given]:
    """Read the records of Argilla 2, as `dataset.records.to_json(path)` writes them.

    A record's `metadata` or `fields` hold `line`, or `task_id` and `response`. A question is named
    by the criterion's id, or `metadata.criterion` names it. Flattened records are read too, of
    which only submitted responses count; the nested ones do not say which are drafts.

    Raises:
        RubricFileError: it is another export. Says which record.
        OSError: the file cannot be read.
    """
    for place, record in _records(path):
        inner = [cast("_Record", record.get(name) or {}) for name in ("fields", "metadata")]
        about = ChainMap(*map(dict, inner), dict(record))
        for question, value, user in _argilla_answers(record, path=path, place=place):
            yield Given(
                place=place,
                criterion=str(about.get("criterion") or question),
                value=_single(value, path=path, place=place),
                rater=None if user is None else str(user),
                line=about.get("line"),
                task_id=about.get("task_id"),
                response=about.get("response"),
            )


def _argilla_answers(
    record: _Record, *, path: Path, place: int
) -> Iterator[tuple[str, object, object]]:
    """Yield question, value and user of each answer of a nested or a flattened record."""
    end = ".responses"
    nested = record.get("responses")
    if isinstance(nested, dict):
        for question, answers in cast("Mapping[str, list[_Record]]", nested).items():
            for answer in answers:
                if answer.get("status") in {None, "submitted"}:
                    yield question, answer.get("value"), answer.get("user_id")
        return
    if "_server_id" not in record and not any(key.endswith(end) for key in record):
        problem = "has no responses: write the records by `dataset.records.to_json(path)`"
        raise RubricFileError(problem, path=path, line=place)
    for key, values in record.items():
        if key.endswith(end) and values:
            users = record.get(f"{key}.users") or [None] * len(values)
            states = record.get(f"{key}.status") or [None] * len(values)
            for value, user, state in zip(values, users, states, strict=False):
                if state in {None, "submitted"}:
                    yield key.removesuffix(end), value, user


def _single(value: object, *, path: Path, place: int) -> object:
    """Return the one value of a list of one."""
    if not isinstance(value, list):
        return value
    values = cast("list[object]", value)
    if len(values) != 1:
        problem = f"holds {len(values)} answers to one question: a criterion has one score"
        raise RubricFileError(problem, path=path, line=place)
    return values[0]


def _written(value: object) -> str:
    """Return a number without the fraction that JSON's reader gives it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _text(path: Path) -> str:
    try:
        return read_file(path).removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        problem = f"{broken(error)}: save the table as UTF-8"
        raise RubricFileError(problem, path=path) from None


def _records(path: Path) -> Iterator[tuple[int, _Record]]:
    try:
        found = decode(_text(path))
    except (json.JSONDecodeError, SchemaError, RecursionError) as error:
        told = "nested too deeply" if isinstance(error, RecursionError) else "not one JSON document"
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        raise RubricFileError(
            f"{told}: give the tool's export as it is", path=path, line=line
        ) from None
    if not isinstance(found, list):
        raise RubricFileError("holds no list of records: give the tool's export", path=path)
    for place, record in enumerate(cast("list[object]", found), 1):
        if not isinstance(record, dict):
            raise RubricFileError("is no record", path=path, line=place)
        yield place, cast("_Record", record)


READERS: Final[Mapping[str, Reader]] = {
    "csv": read_csv,
    "label_studio": read_label_studio,
    "argilla": read_argilla,
}
"""By the name of the format."""
