"""Rubrics in tables: one row a criterion, from a CSV file or a spreadsheet."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rubric_core.errors import RubricFileError
from rubric_core.formats.columns import (
    Header,
    cell_at,
    find_header,
    is_blank,
    part_words,
    remedy_of,
    shortened,
    without,
)
from rubric_core.formats.draft import Draft, Points
from rubric_core.formats.fields import Fields, LeftOut
from rubric_core.formats.options import ImportOptions
from rubric_core.formats.spreadsheets import Cell, Sheet, read_sheet
from rubric_core.formats.totals import names_total
from rubric_core.formats.weight_column import WeightColumn
from rubric_core.schema.kinds import CriterionKind

_LIST = re.compile(r"\[\s*[\[{\"']|\{\s*[\"']")
"""The beginning of a list or an object, as JSON and Python write them."""
_UNREAD = "read by nothing here: `--column PART=NAME` says what it is"
_COPY = "says again what is read"
_KINDS = {kind.value: kind for kind in CriterionKind}
_ONCE = ("reference", "passage")
"""Parts of which a question has one."""


@dataclass
class _Entry:
    """One row's criterion."""

    row: int
    points: Points
    has_weight: bool


@dataclass(slots=True)
class _Group:
    """The rows of one question."""

    row: int
    question: str
    source_id: str
    entries: list[_Entry] = field(default_factory=list["_Entry"])
    once: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    """Row and text of each part of which a question has one."""
    error: RubricFileError | None = None
    """The first error in its rows."""
    read: int = 0
    left_out: Counter[LeftOut] = field(default_factory=Counter[LeftOut])

    def points(self) -> tuple[Points, ...]:
        """Return its criteria."""
        return tuple(entry.points for entry in self.entries)

    def draft(self) -> Draft:
        """Return the question with its criteria."""
        turns = (("user", self.question),) if self.question else ()
        texts = {part: text for part, (_, text) in self.once.items()}
        return Draft(
            self.points(),
            turns,
            self.source_id,
            texts.get("reference", ""),
            texts.get("passage", ""),
        )


def read_table(
    path: Path, options: ImportOptions, on_note: Callable[[str], None]
) -> Iterator[tuple[Draft, Fields] | RubricFileError]:
    """Read the questions of a table, each with its criteria, or with the first error in its rows.

    Args:
        path: a .csv, .tsv, .txt or .xlsx file.
        options: what the user says of the table.
        on_note: called with each sentence that says how the table was read.

    Raises:
        ConfigError: an option that does not fit the table.
        RubricFileError: no table, or one whose columns cannot be told apart.
        MissingExtraError: an .xlsx without openpyxl.
        OSError: the file cannot be read.
    """
    sheet = read_sheet(path, options.sheet)
    header = find_header(
        sheet.rows,
        options.columns,
        path,
        others=sheet.others,
        lost={column for _, column in sheet.faults},
    )
    header = without(header, options.leave_out)
    reader = _Reader(path, sheet, header, options)
    groups = reader.groups()
    for note in (*_header_notes(sheet, header), *reader.notes()):
        on_note(note)
    if len(groups) > 1 and not header.has("id"):
        on_note(
            "no column is the id: criteria are c1, c2, … of each question, and results by "
            "criterion put those of one number together"
        )
    for group in groups:
        error = group.error or reader.error_of(group)
        yield error or (group.draft(), Fields(group.read, group.left_out))


def _header_notes(sheet: Sheet, header: Header) -> Iterator[str]:
    if sheet.others:
        listed = ", ".join(map(repr, sheet.others))
        yield f"sheet {sheet.name!r} is read; not read: {listed} (--sheet NAME)"
    if sheet.is_hidden:
        yield f"sheet {sheet.name!r} is read, which the workbook hides"
    if header.row:
        yield f"row {header.row + 1} names the columns; what is above it is not read"
    for part, columns in header.columns.items():
        for column in columns:
            yield f"{column.shown} is read as the {part_words(part)}"
    for column in header.copies:
        yield f"{column.shown} says again what another column says"
    for column in header.unread:
        yield f"{column.shown} is not read{remedy_of(header, column)}"
    if not header.has("weight"):
        yield "no column is the weight: all criteria of a question count the same"


@dataclass
class _Reader:
    """The reading of the rows below a header."""

    path: Path
    sheet: Sheet
    header: Header
    options: ImportOptions
    carried: int = 0
    totals: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        self._weights = WeightColumn(
            self.path, self.header, self.options, self.sheet.comma_decimals
        )

    def groups(self) -> list[_Group]:
        """Return the rows by question, in the order of their first rows.

        Raises:
            RubricFileError: the header stands in the table again.
        """
        groups: dict[str, _Group] = {}
        groups_by_id: dict[str, _Group] = {}
        current: _Group | None = None
        names = self.sheet.rows[self.header.row]
        section = ""
        first = self.header.row + 1
        for number, cells in enumerate(self.sheet.rows[first:], first + 1):
            fault = self._fault(number, tuple(self.header.columns))
            if is_blank(cells) and fault is None:
                continue
            if list(cells) == list(names):
                raise self._error(
                    number,
                    f"row {number} names the columns again: keep one table in a file or "
                    "sheet",
                )
            if self._is_total(cells, number):
                self.totals.append(number)
                continue
            if unknown := self._fault(number, ("question", "question_id")):
                # The rows below it, too, are of a question that is not known.
                current = groups[f"\0{number}"] = _Group(number, "", "", error=unknown)
                continue
            before = current
            current = self._group_of(cells, number, groups, groups_by_id, before)
            section = self._text(cells, "section") or (
                section if current is before else ""
            )
            if current.error is not None:
                continue
            try:
                self._read_row(current, cells, number, section)
            except RubricFileError as error:
                current.error = error
        return list(groups.values())

    def notes(self) -> Iterator[str]:
        """Yield how rows were read that say less than they might."""
        if self.carried:
            yield (
                "rows without a question, as below a merged cell, read as of the question "
                f"above: {self.carried}"
            )
        first = self.header.row + 1
        below = enumerate(self.sheet.rows[first:], first)
        hidden = [
            row + 1
            for row, cells in below
            if row in self.sheet.hidden and not is_blank(cells)
        ]
        if hidden:
            listed = ", ".join(map(str, hidden))
            yield f"read like the others, though the workbook hides it: row {listed}"
        if self.totals:
            listed = ", ".join(map(str, self.totals))
            yield f"not read, for it is a total and no criterion: row {listed}"

    def error_of(self, group: _Group) -> RubricFileError | None:
        """Return the error of a question as a whole."""
        if not group.entries:
            return self._error(
                group.row,
                f"the question of row {group.row} has no criterion: write it in that row or "
                "in those below",
            )
        weighted = [entry for entry in group.entries if entry.has_weight]
        if not weighted or len(weighted) == len(group.entries):
            return None
        row = next(entry.row for entry in group.entries if not entry.has_weight)
        problem = (
            f"row {row} has no weight, and row {weighted[0].row} of the same question has "
            "one: give it a weight, or delete the row if it is a heading"
        )
        if self.sheet.name:
            problem += "; of merged cells the first row alone has the value"
        return self._error(row, problem)

    def _group_of(
        self,
        cells: Sequence[Cell],
        number: int,
        groups: dict[str, _Group],
        groups_by_id: dict[str, _Group],
        current: _Group | None,
    ) -> _Group:
        """Return the group of a row, made if it is the first of its question."""
        question = self._text(cells, "question")
        source_id = self._text(cells, "question_id")
        is_continued = not question and source_id in (
            "",
            current.source_id if current else "",
        )
        if is_continued and current is not None:
            self.carried += self.header.has("question")
            return current
        known = groups_by_id.get(source_id)
        if not question and known is not None:
            self.carried += self.header.has("question")
            return known
        key = question or source_id
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group(number, question, source_id)
            if source_id:
                groups_by_id.setdefault(source_id, group)
            if not question and self.header.has("question"):
                group.error = self._error(
                    number,
                    f"row {number} has no question, and none stands above it: write it "
                    "there",
                )
        other = known if known is not None and known is not group else None
        if other is not None:
            group.error = self._error(
                number,
                f"row {number} has the question id of row {other.row} and another "
                "question: give each question an id of its own",
            )
        elif source_id and source_id != group.source_id:
            group.error = self._error(
                number,
                f"row {number} has the question of row {group.row} and another question "
                "id: give both rows the same",
            )
        return group

    def _read_row(
        self, group: _Group, cells: Sequence[Cell], number: int, section: str
    ) -> None:
        self._count(group, cells)
        for part in _ONCE:
            text = self._text(cells, part)
            row, before = group.once.setdefault(part, (number, text))
            if text and not before:
                group.once[part] = (number, text)
            elif text and text != before:
                raise self._error(
                    number,
                    f"the question of row {group.row} has two {part}s, in rows {row} and "
                    f"{number}: keep one, and leave the other cells blank or the same",
                )
        name = self._text(cells, "name")
        text = self._text(cells, "criterion")
        if not text:
            name, text = "", name
        self._check_values(number)
        weight = self._weights.read(cells, number)
        if not text:
            if weight is not None and self._weights.adds_up(weight, group.points()):
                self.totals.append(number)
            elif weight is not None:
                raise self._error(
                    number,
                    f"row {number} has a weight and no criterion: write it there, say which "
                    "column holds it, by `--column criterion=NAME`, or clear the row",
                )
            return
        if _LIST.match(text):
            raise self._error(
                number,
                f"the criterion of row {number} is a list or an object in one cell: write "
                "one criterion a row, or import JSON Lines in the format `checklist`",
            )
        points = Points(
            text,
            id=self._text(cells, "id"),
            title=name,
            guide=self._guide(cells),
            above=(section,) if section else (),
            kind=self._kind(cells, number),
        )
        if weight is not None:
            points = self._weights.weighted(points, weight, number)
        group.entries.append(_Entry(number, points, has_weight=weight is not None))

    def _is_total(self, cells: Sequence[Cell], number: int) -> bool:
        """Return whether a row is named a total, or its weight is computed as one."""
        if any(
            (number - 1, column.place) in self.sheet.sums
            for column in self.header.columns.get("weight", ())
        ):
            return True
        named = self._text(cells, "criterion") or self._text(cells, "name")
        return any(map(names_total, [named] if named else map(str, cells)))

    def _guide(self, cells: Sequence[Cell]) -> str:
        columns = self.header.columns.get("guide", ())
        texts = [(each.name, _text_of(cell_at(cells, each.place))) for each in columns]
        texts = [(name, text) for name, text in texts if text]
        if len(columns) == 1:
            return "".join(text for _, text in texts)
        return "\n".join(f"{name}: {text}" if name else text for name, text in texts)

    def _kind(self, cells: Sequence[Cell], number: int) -> CriterionKind | None:
        value = self._text(cells, "kind")
        if not value:
            return None
        kind = _KINDS.get(value.lower())
        if kind is None:
            known = ", ".join(_KINDS)
            raise self._error(
                number,
                f"the kind of row {number} is {shortened(value)!r}, none of {known}: for "
                "labels of your own say `--column section=NAME`",
            )
        return kind

    def _count(self, group: _Group, cells: Sequence[Cell]) -> None:
        """Count the cells of a row that are read and those that are not."""
        read = [
            column for columns in self.header.columns.values() for column in columns
        ]
        group.read += sum(cell_at(cells, each.place) != "" for each in read)
        for columns, reason in (
            (self.header.unread, _UNREAD),
            (self.header.copies, _COPY),
        ):
            for column in columns:
                if cell_at(cells, column.place) != "":
                    group.left_out[LeftOut(column.shown, reason)] += 1

    def _text(self, cells: Sequence[Cell], part: str) -> str:
        return _text_of(self.header.cell(cells, part))

    def _check_values(self, number: int) -> None:
        fault = self._fault(number, tuple(self.header.columns))
        if fault is not None:
            raise fault

    def _fault(self, number: int, parts: Sequence[str]) -> RubricFileError | None:
        """Return the error of the first cell among these parts that lost its value."""
        for part in parts:
            for column in self.header.columns.get(part, ()):
                fault = self.sheet.faults.get((number - 1, column.place))
                if fault is not None:
                    return self._error(
                        number,
                        f"row {number} has no {part_words(part)}: cell "
                        f"{column.letter}{number} {fault}",
                    )
        return None

    def _error(self, number: int, problem: str) -> RubricFileError:
        return RubricFileError(problem, path=self.path, line=number)


def _text_of(value: Cell) -> str:
    """Return a cell as text; a whole number has no decimals."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
