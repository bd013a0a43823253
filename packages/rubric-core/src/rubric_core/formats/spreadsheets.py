"""Sheets of cells: CSV as spreadsheets write it, and Excel's .xlsx by openpyxl."""

import csv
import re
import zipfile
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, time
from importlib import import_module
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from xml.etree.ElementTree import ParseError, iterparse

from rubric_core.errors import ConfigError, RubricFileError, needing_extra
from rubric_core.files import open_file, read_file
from rubric_core.formats.totals import sums_column

_DELIMITERS = (",", ";", "\t")
_SAMPLE_ROWS = 20
_NAMED_DELIMITER = re.compile(r"sep=([,;\t|])\r?\n")
"""Excel's own first line, which says what stands between cells."""
_TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
_WORKBOOK_SUFFIXES = (".xlsx", ".xlsm")
_MOST_WORKBOOK_BYTES = 1 << 28  # of its unpacked parts
_BROKEN = (
    LookupError,
    ValueError,
    TypeError,
    OSError,
    ParseError,
    zipfile.BadZipFile,
)
"""Errors that openpyxl lets through where a workbook is not well formed."""

_ERRORS = frozenset(
    {"#CALC!", "#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#SPILL!"}
    | {"#VALUE!"}
)
"""Texts in the place of a value that a spreadsheet could not compute."""
_COMPUTED = "str"
"""The type of a formula's cell whose value is a text, as "" is."""
_FORMULA = "f"
_SHOWN = "visible"
_UNCOMPUTED = (
    "holds a formula that was never computed, for a formula has a value only after a "
    "spreadsheet has saved the file: open it there and save it"
)
_NOT_DIGITS = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|[_*].')
"""The parts of a number's format that are shown as they stand."""
_PERCENT_DIGITS = 12
_CARRIAGE_RETURN = "_x000D_"
"""A carriage return as workbooks write it, which openpyxl leaves as it is."""

Cell = str | float
"""A number of an .xlsx, or a text without spaces around it; "" where there is nothing.

What a workbook shows in percent, and its dates, are texts: 47.5%, 2026-03-01.
"""
Place = tuple[int, int]
"""A cell's row and column, from 0."""


class Sheet(NamedTuple):
    """The cells of one sheet."""

    rows: list[list[Cell]]
    """Rows from the first, blank ones included, so that the place of a row is its number."""
    comma_decimals: bool = False
    """Whether 2,5 may stand for two and a half, as where semicolons separate cells."""
    name: str = ""
    """The sheet's name, in a workbook."""
    others: tuple[str, ...] = ()
    """Names of the workbook's other sheets."""
    faults: Mapping[Place, str] = {}
    """Clauses on cells that should have a value and have none."""
    sums: frozenset[Place] = frozenset()
    """Cells whose formula adds up others of their column."""
    hidden: frozenset[int] = frozenset()
    """Rows, from 0, that the workbook does not show, as below a filter."""
    is_hidden: bool = False
    """Whether the workbook does not show the sheet."""


def read_sheet(path: Path, sheet: str | None = None) -> Sheet:
    """Read all cells of a sheet.

    Args:
        path: a .csv, .tsv or .txt file in UTF-8 or UTF-16, or an .xlsx file.
        sheet: the name of a sheet of a workbook; None for the first that is not hidden.

    Raises:
        ConfigError: the workbook has no such sheet, or a text file is asked for one.
        RubricFileError: another kind of file, or one that cannot be read.
        MissingExtraError: an .xlsx without openpyxl.
        OSError: as `open_file`.
    """
    suffix = path.suffix.lower()
    if suffix in _WORKBOOK_SUFFIXES:
        return _workbook_sheet(path, sheet)
    if suffix not in _TEXT_SUFFIXES:
        raise RubricFileError(
            f"the suffix is {path.suffix!r}: save the table as .csv (UTF-8) or .xlsx",
            path=path,
        )
    if sheet is not None:
        raise ConfigError(
            f"{path} is a text file, which has no sheets: leave --sheet out",
            location="sheet",
        )
    return _text_sheet(path)


def _text_sheet(path: Path) -> Sheet:
    text = _decoded(read_file(path), path)
    named = _NAMED_DELIMITER.match(text)
    delimiter = named[1] if named else _delimiter_of(text)
    rows: list[list[Cell]] = []
    lines = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        rows.extend([cell.strip() for cell in cells] for cells in lines)
    except csv.Error as error:
        raise RubricFileError(
            f"not a readable table: {error}, in a row that begins after row {len(rows)}: a "
            "quote within a cell is written twice, and each cell that begins with one ends "
            "with one",
            path=path,
            line=len(rows) + 1,
        ) from None
    if named:
        rows[0] = []
    faults = {
        (row, column): _failed(cell)
        for row, cells in enumerate(rows)
        for column, cell in enumerate(cells)
        if isinstance(cell, str) and cell in _ERRORS
    }
    return Sheet(rows, comma_decimals=delimiter == ";", faults=faults)


def _decoded(content: bytes, path: Path) -> str:
    encoding = "utf-8"
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        encoding = "utf-16"
    elif content.startswith(BOM_UTF8):
        encoding = "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise RubricFileError(
            f"not {encoding.upper()} at byte {error.start}: save it as 'CSV UTF-8', which "
            "Excel lists as a type of its own",
            path=path,
        ) from None
    if "\0" in text:
        raise RubricFileError(
            "holds NUL characters, which no table has: save it as 'CSV UTF-8'",
            path=path,
        )
    return text


def _delimiter_of(text: str) -> str:
    """Return the separator by which most of the first rows have the same number of cells."""
    return max(_DELIMITERS, key=lambda delimiter: _evenness(text, delimiter))


def _evenness(text: str, delimiter: str) -> tuple[int, int]:
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter)
    widths: Counter[int] = Counter()
    try:
        for cells in islice(reader, _SAMPLE_ROWS):
            if len(cells) > 1:
                widths[len(cells)] += 1
    except csv.Error:
        return 0, 0
    if not widths:
        return 0, 0
    width, count = max(widths.items(), key=lambda item: (item[1], item[0]))
    return count, width


def _workbook_sheet(path: Path, sheet: str | None) -> Sheet:
    with needing_extra("rubric-core", "xlsx", by="an .xlsx file, unlike .csv,"):
        openpyxl: Any = import_module("openpyxl")
    with open_file(path) as file:
        _check_size(file, path)
        try:
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        except _BROKEN as error:
            raise _unreadable(path, error) from None
        names = [str(each.title) for each in book.worksheets]
        if sheet is not None and sheet not in names:
            known = ", ".join(map(repr, names))
            raise ConfigError(
                f"{path} has no sheet {sheet!r}: its sheets are {known}",
                location="sheet",
            )
        if not names:
            raise RubricFileError("the workbook holds no sheet of cells", path=path)
        name = _first_shown(book) if sheet is None else sheet
        try:
            cells = _cells(book, name)
            rows = [[_value(cell) for cell in row] for row in cells]
            hidden = frozenset(_hidden_rows(book[name]))
            is_hidden = book[name].sheet_state != _SHOWN
            file.seek(0)
            formulas = _formulas(openpyxl.load_workbook(file, read_only=True), name)
        except _BROKEN as error:
            raise _unreadable(path, error) from None
    others = tuple(other for other in names if other != name)
    return Sheet(
        rows,
        name=name,
        others=others,
        faults=dict(_faults(cells, formulas)),
        sums=frozenset(place for place, adds_up in formulas.items() if adds_up),
        hidden=hidden,
        is_hidden=is_hidden,
    )


def _first_shown(book: Any) -> str:
    """Return the name of the first sheet that is not hidden, as lists of choices often are."""
    sheets = book.worksheets
    shown = (sheet for sheet in sheets if sheet.sheet_state == _SHOWN)
    return str(next(shown, sheets[0]).title)


def _cells(book: Any, name: str) -> list[Sequence[Any]]:
    page = book[name]
    page.reset_dimensions()  # some programs write sizes that are too small
    return list(page.iter_rows())


def _hidden_rows(page: Any) -> Iterator[int]:
    """Yield the rows that are not shown, which openpyxl's reader of rows does not tell."""
    row = -1
    with page._get_source() as source:  # noqa: SLF001  # nothing public has its place
        for _, element in iterparse(source):  # noqa: S314  # as openpyxl does
            if not element.tag.endswith("}row"):
                continue
            row = int(element.get("r", row + 2)) - 1
            if element.get("hidden") in ("1", "true"):
                yield row
            element.clear()


def _formulas(book: Any, name: str) -> dict[Place, bool]:
    """Return the cells that hold a formula, and whether it adds up others of their column.

    The book was read with its formulas.
    """
    return {
        (row, column): sums_column(cell.value, cell.column_letter)
        for row, cells in enumerate(_cells(book, name))
        for column, cell in enumerate(cells)
        if cell.data_type == _FORMULA
    }


def _faults(
    cells: Sequence[Sequence[Any]], formulas: Collection[Place]
) -> Iterator[tuple[Place, str]]:
    """Yield the cells whose value could not be computed, or never was."""
    for row, line in enumerate(cells):
        for column, cell in enumerate(line):
            place = (row, column)
            if cell.data_type == "e":
                yield place, _failed(cell.value)
            elif (
                cell.value is None and cell.data_type != _COMPUTED and place in formulas
            ):
                yield place, _UNCOMPUTED


def _failed(value: object) -> str:
    return f"holds the error {value}: put the formula right, or write the value"


def _check_size(file: BinaryIO, path: Path) -> None:
    try:
        with zipfile.ZipFile(file) as parts:
            size = sum(part.file_size for part in parts.infolist())
    except zipfile.BadZipFile as error:
        raise _unreadable(path, error) from None
    if size > _MOST_WORKBOOK_BYTES:
        raise RubricFileError(
            f"the workbook has {size} bytes unpacked and may have {_MOST_WORKBOOK_BYTES}: "
            "save its sheet as .csv",
            path=path,
        )
    file.seek(0)


def _unreadable(path: Path, error: Exception) -> RubricFileError:
    kind = type(error).__name__
    return RubricFileError(
        f"not a readable .xlsx file ({kind}): open it in a spreadsheet and save it again, "
        "without a password, or save it as .csv",
        path=path,
    )


def _value(cell: Any) -> Cell:
    match cell.value:
        case None:
            return ""
        case bool() as value:
            return str(value).lower()
        case int() | float() as value:
            if "%" in _NOT_DIGITS.sub("", cell.number_format):
                return f"{100 * value:.{_PERCENT_DIGITS}g}%"
            return value
        case datetime() as value if value.time() == time(0):
            has_time = "h" in _NOT_DIGITS.sub("", cell.number_format).lower()
            return str(value) if has_time else str(value.date())
        case value:
            return str(value).replace(_CARRIAGE_RETURN, "").strip()
