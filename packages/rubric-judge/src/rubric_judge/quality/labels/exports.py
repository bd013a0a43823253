"""Readers of other tools' scores: a table, Label Studio's JSON, Argilla's records."""

import csv
import io
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self, cast

from pydantic import (
    BeforeValidator,
    Field,
    StrictBool,
    model_validator,
)

from rubric_core.configuration import nearest_key, shown_name
from rubric_core.errors import NotJsonError, RubricFileError
from rubric_core.files import read_file
from rubric_core.rows import OpenRow
from rubric_core.strict_json import decode
from rubric_judge.quality.labels.foreign import ForeignScore, Place, Reader

_COLUMNS = ("line", "task_id", "response", "criterion", "score", "rater")
_STUDIO = "export as JSON, not as JSON-MIN, CSV or others"
_ARGILLA = "write the records by `dataset.records.to_json(path)`"
_EXACT = 2**53
"""Bound from which a float does not tell whole numbers apart."""


def _written(value: object) -> object:
    """Return a number as its text, without the fraction that JSON's reader gives it."""
    if isinstance(value, float):
        if abs(value) >= _EXACT:
            raise ValueError("is too large a number to be kept: write it as a text")
        return str(int(value)) if value.is_integer() else repr(value)
    if value is None or isinstance(value, str):
        return value
    raise ValueError("is neither a number nor a text")


def _only(value: object) -> object:
    """Return the one value of a list of one."""
    if not isinstance(value, list):
        return value
    values = cast("list[object]", value)
    if len(values) != 1:
        raise ValueError(
            f"holds {len(values)} answers to one question: a criterion has one score"
        )
    return values[0]


def _named(by: object) -> object:
    """Return a person's e-mail address, which newer exports hold, or the name or number."""
    if not isinstance(by, dict):
        return by
    person = cast("dict[str, object]", by)
    return person.get("email") or person.get("username") or person.get("id")


def _shown(response: object) -> str | None:
    """Return a text as it is; a chat, which tools show too, becomes a text that no response has."""
    if response is None or isinstance(response, str):
        return response
    return repr(type(response))


# A length bound, even 0, makes pydantic refuse lone surrogates.
_Text = Annotated[Annotated[str, Field(min_length=0)] | None, BeforeValidator(_written)]
_Answer = Annotated[_Text, BeforeValidator(_only)]


class _About(OpenRow):
    """Fields on the response, named by whoever made the tool's tasks."""

    line: _Text = None
    task_id: _Text = None
    response: Annotated[str | None, BeforeValidator(_shown)] = None
    criterion: _Text = None

    def score(
        self, place: Place, question: str | None, value: str | None, rater: str | None
    ) -> ForeignScore:
        """Return an answer to a question."""
        criterion = (self.criterion or question or "").strip()
        return ForeignScore(
            place, criterion, value, rater, self.line, self.task_id, self.response
        )


def read_csv(path: Path) -> Iterator[ForeignScore]:
    """Read a table with a header: `criterion`, `score`, `line` or `task_id`, and perhaps `rater`.

    Raises:
        RubricFileError: it is no CSV or not UTF-8, a column is missing or there twice, or a row has
            other cells than the header.
        OSError: the file cannot be read.
    """
    (number, header), *rows = _rows(path) or [(1, [])]
    columns = [name.strip() for name in header]
    place = Place(path, number)
    missing = [name for name in ("criterion", "score") if name not in columns]
    if not {"line", "task_id"} & set(columns):
        missing.append("line or task_id")
    if missing:
        raise place.error(_no_column(missing, columns))
    for name in _COLUMNS:
        if columns.count(name) > 1:
            raise place.error(
                f"has two columns {name}: remove or rename one", field=name
            )
    for number, row in rows:
        place = Place(path, number)
        if len(row) != len(columns):
            raise place.error(
                f"has not the {len(columns)} cells of the header: quote commas in cells"
            )
        cells = dict(zip(columns, row, strict=True))
        about = _About.model_validate(
            {name: cell or None for name, cell in cells.items()}
        )
        yield about.score(
            place,
            None,
            cells["score"],
            cells.get("rater") or None,
        )


def _no_column(missing: list[str], columns: list[str]) -> str:
    """Return the problem of missing columns; cells are quoted only where they are a header."""
    if len(columns) == 1:
        for mark, cell in ((";", "`;`"), ("\t", "a tab")):
            if mark in columns[0]:
                return (
                    f"its first line is one cell with {cell} in it: separate by commas"
                )
    by_lower = {name.lower(): name for name in columns}
    is_header = bool(by_lower.keys() & {*_COLUMNS})
    required = [name for names in missing for name in names.split(" or ")]
    meant = {name: nearest_key(name, by_lower) for name in required if is_header}
    renamed = [
        f"{by_lower[close]!r} to {name}" for name, close in meant.items() if close
    ]
    needed = ", ".join(missing)
    others = f"{len(columns)} others"
    if is_header:
        others = ", ".join(map(shown_name, columns))
    rename = f"; rename {', '.join(renamed)}" if renamed else ""
    return (
        f"has no column {needed}, but {others}: the first line names line or task_id, "
        f"criterion, score{rename}"
    )


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """Return the rows that are not blank, each with its line; a cell may be as long as the file."""
    text = _text(path)
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    before = csv.field_size_limit(len(text) + 1)
    try:
        return [(rows.line_num, row) for row in rows if row]
    except csv.Error as error:
        raise RubricFileError(
            f"is no CSV: {error}; close every quote, and double those in a cell",
            path=path,
            line=rows.line_num,
        ) from None
    finally:
        csv.field_size_limit(before)


class _StudioValue(OpenRow):
    rating: _Answer = None
    number: _Answer = None
    choices: _Answer = None
    textarea: _Answer = Field(None, alias="text")


class _StudioControl(OpenRow):
    from_name: _Text = None
    type: Literal["rating", "number", "choices", "textarea"]
    value: _StudioValue

    @property
    def answer(self) -> str | None:
        return cast("str | None", getattr(self.value, self.type))

    @model_validator(mode="after")
    def _has_answer(self) -> Self:
        if self.answer is None:
            raise ValueError(f"its value holds no {self.type}")
        return self


class _StudioAnnotation(OpenRow):
    was_cancelled: StrictBool | None = None
    rater: Annotated[_Text, BeforeValidator(_named)] = Field(None, alias="completed_by")
    result: list[_StudioControl] | None = None


class _StudioTask(OpenRow):
    data: _About
    annotations: list[_StudioAnnotation]


def read_label_studio(path: Path) -> Iterator[ForeignScore]:
    """Read Label Studio's export `JSON`: a list of tasks, each with its `annotations`.

    A task's `data` holds `line`, or `task_id` and `response`. A control (`Rating`, `Number`,
    `Choices` or `TextArea`) is named by the criterion's id, or `data.criterion` names it. Skipped
    annotations are left out; predictions and drafts are not read.

    Raises:
        RubricFileError: it is another export, or a control of another kind. Says which record.
        OSError: the file cannot be read.
    """
    for place, record in _records(path):
        task = place.read(_StudioTask, record, remedy=_STUDIO)
        for annotation in task.annotations:
            if annotation.was_cancelled:
                continue
            for control in annotation.result or ():
                yield task.data.score(
                    place, control.from_name, control.answer, annotation.rater
                )


class _ArgillaAnswer(OpenRow):
    value: _Answer
    user_id: _Text = None
    status: _Text = None


class _ArgillaRecord(_About):
    fields: _About | None = None
    metadata: _About | None = None
    responses: dict[str, list[_ArgillaAnswer]] = Field(default_factory=dict)

    @property
    def about(self) -> _About:
        """Fields on the response: of the metadata, the fields or, flattened, the record itself."""
        update: dict[str, object] = {}
        for about in (self.metadata, self.fields):
            if about is not None:
                update |= about.model_dump(exclude_none=True)
        return self.model_copy(update=update)


def read_argilla(path: Path) -> Iterator[ForeignScore]:
    """Read the records of Argilla 2, as `dataset.records.to_json(path)` writes them.

    A record's `metadata` or `fields` hold `line`, or `task_id` and `response`. A question is named
    by the criterion's id, or `metadata.criterion` names it. Flattened records are read too, of
    which only submitted responses count; the nested ones do not say which are drafts.

    Raises:
        RubricFileError: it is another export. Says which record.
        OSError: the file cannot be read.
    """
    for place, record_fields in _records(path):
        nested = (
            record_fields
            if record_fields.get("responses") is not None
            else _nested(record_fields, place)
        )
        record = place.read(_ArgillaRecord, nested, remedy=_ARGILLA)
        for question, answers in record.responses.items():
            for answer in answers:
                if answer.status in {None, "submitted"}:
                    yield record.about.score(
                        place, question, answer.value, answer.user_id
                    )


def _nested(record: Mapping[str, object], place: Place) -> dict[str, object]:
    """Return the nested form of a flattened record, which has lists per question."""
    end = ".responses"
    if "_server_id" not in record and not any(key.endswith(end) for key in record):
        raise place.error(f"has no responses: {_ARGILLA}")
    responses: dict[str, object] = {}
    for key, values in record.items():
        if not key.endswith(end) or values is None:
            continue
        columns = {"value": values}
        for name, suffix in (("user_id", "users"), ("status", "status")):
            column = record.get(f"{key}.{suffix}")
            if column is not None:
                columns[name] = column
        lists = [
            cast("list[object]", column)
            for column in columns.values()
            if isinstance(column, list)
        ]
        lengths = {len(values) for values in lists}
        if len(lists) < len(columns) or len(lengths) > 1:
            raise place.error(
                f"{key!r}, its users and its status are no lists of one length: {_ARGILLA}",
                field=key,
            )
        rows = zip(*lists, strict=True)
        responses[key.removesuffix(end)] = [
            dict(zip(columns, row, strict=True)) for row in rows
        ]
    return {**record, "responses": responses}


def _text(path: Path) -> str:
    try:
        return read_file(path).removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise RubricFileError(
            f"not UTF-8 at byte {error.start}: save it as UTF-8", path=path
        ) from None


def _records(path: Path) -> Iterator[tuple[Place, dict[str, object]]]:
    try:
        records = decode(_text(path))
    except NotJsonError as error:
        raise RubricFileError(
            f"{error}: give the tool's export as it is", path=path
        ) from None
    if not isinstance(records, list):
        raise RubricFileError(
            "holds no list of records: give the tool's export", path=path
        )
    for number, record in enumerate(cast("list[object]", records), 1):
        place = Place(path, number, is_record=True)
        if not isinstance(record, dict):
            raise place.error("is no JSON object: give the tool's export as it is")
        yield place, cast("dict[str, object]", record)


READERS: Mapping[str, Reader] = {
    "csv": read_csv,
    "label_studio": read_label_studio,
    "argilla": read_argilla,
}
"""Readers by the name of the format."""
