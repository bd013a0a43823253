"""The columns of a table: which part of a rubric each one holds, named or guessed."""

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from rubric_core.configuration import kind_remedy
from rubric_core.errors import ConfigError, RubricFileError
from rubric_core.files import toml_beside
from rubric_core.formats.spreadsheets import Cell

_NAMES: dict[str, list[str]] = toml_beside(__file__, "tables.toml")
PARTS = tuple(_NAMES)
"""Parts of a rubric that a column may hold."""
_PART_OF = {name: part for part, names in _NAMES.items() for name in names}
_SEVERAL = ("guide",)
"""Parts that may be in several columns: one for each level, as a rule."""
_HEADER_ROWS = 20
"""Rows among which the names of the columns are looked for."""
_MOST_NAME_CHARS = 40
_MOST_NAMED = 16
_TEXT_LETTERS = 6
"""Letters that a criterion has, and a date has not."""
_DESCRIPTIONS = frozenset(
    {
        "criteria description",
        "criterion description",
        "criterion text",
        "definition",
        "description",
        "expectation",
        "item description",
        "requirement",
        "anforderung",
        "beschreibung",
    }
)
"""Names of the longer text beside a column of short ones."""
_LIKELY = {
    "weight": {"importance", "mark", "marks", "point", "points", "score", "weight"},
    "reference": {"answer", "gold", "ideal", "reference", "solution", "truth"},
    "question": {"prompt", "query", "question", "scenario", "task"},
}
"""Words by which a column that nothing reads may hold a part that no column holds."""
_REMARK = re.compile(r"\(.*?\)|（.*?）|\[.*?\]")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r" ?\d+$")
_LETTERS = re.compile(r"[A-Z]{1,2}")


class Column(NamedTuple):
    """One column of a table."""

    place: int
    """0-based."""
    name: str
    """Its name in the header, "" where it has none."""

    @property
    def letter(self) -> str:
        """The letters under which a spreadsheet shows it."""
        first, second = divmod(self.place, 26)
        return (chr(64 + first) if first else "") + chr(65 + second)

    @property
    def shown(self) -> str:
        """The column as messages name it."""
        if not self.name:
            return f"column {self.letter}"
        return f"column {shortened(self.name)!r}"


@dataclass(frozen=True)
class Header:
    """The columns of a table, by the part of a rubric that they hold."""

    row: int
    """0-based place of the row of names."""
    columns: Mapping[str, tuple[Column, ...]]
    """Columns that are read, by part."""
    copies: tuple[Column, ...] = ()
    """Columns that say again what another says."""
    unread: tuple[Column, ...] = ()
    """Columns that nothing reads."""

    def has(self, part: str) -> bool:
        """Return whether a column holds the part."""
        return part in self.columns

    def cell(self, cells: Sequence[Cell], part: str) -> Cell:
        """Return the cell of a part in a row, "" where there is none."""
        for column in self.columns.get(part, ())[:1]:
            return cell_at(cells, column.place)
        return ""


def shortened(text: str) -> str:
    """Return a name, cut where it is too long for a message."""
    if len(text) <= _MOST_NAME_CHARS:
        return text
    return text[: _MOST_NAME_CHARS - 1] + "…"


def remedy_of(header: Header, column: Column) -> str:
    """Return the option by which a column that nothing reads would be, as a clause, or ""."""
    words = set(_key(column.name).split())
    for part, likely in _LIKELY.items():
        if words & likely and not header.has(part):
            option = shlex.quote(f"{part}={column.name}")
            return f"; if it is the {part_words(part)}: --column {option}"
    return ""


def cell_at(cells: Sequence[Cell], place: int) -> Cell:
    """Return a cell of a row, "" where the row has fewer."""
    return cells[place] if place < len(cells) else ""


def is_blank(cells: Sequence[Cell]) -> bool:
    """Return whether a row holds nothing."""
    return all(cell == "" for cell in cells)


def part_words(part: str) -> str:
    """Return the name of a part as text has it."""
    return part.replace("_", " ")


def find_header(
    rows: Sequence[Sequence[Cell]],
    named: Sequence[str],
    path: Path,
    *,
    others: Sequence[str] = (),
    lost: Collection[int] = (),
) -> Header:
    """Find the row of names and say what each column holds.

    Args:
        rows: all rows of the table.
        named: `part=name` or `part=letter`, as the user says what a column holds.
        path: the file, for errors.
        others: names of the workbook's other sheets, for errors.
        lost: places of columns with a cell that lost its value, which are not empty.

    Raises:
        ConfigError: a part or a column in `named` that does not exist.
        RubricFileError: no column of criteria, or two that may hold the same part.
    """
    choices = [_choice(text) for text in named]
    place = _header_row(rows, [name for _, name in choices])
    if place is None:
        problem = "the table has no rows" + _elsewhere(others)
        raise RubricFileError(problem, path=path)
    body = [cells for cells in rows[place + 1 :] if not is_blank(cells)]
    columns = _filled(rows[place], body, lost)
    chosen: dict[str, list[Column]] = {}
    for part, name in choices:
        chosen.setdefault(part, []).append(_named_column(name, columns, part))
    for part, several in chosen.items():
        if len(several) > 1 and part not in _SEVERAL:
            raise ConfigError(
                f"--column names {len(several)} columns for the {part_words(part)}: name one",
                location="column",
            )
    header = _Guess(columns, body, chosen, path).header(place)
    if numbered := _numbered(header):
        listed = " and ".join(column.shown for column in numbered)
        raise RubricFileError(
            f"{listed} may each hold a criterion: write one criterion a row, and its question "
            "in the same row or in one above",
            path=path,
            line=place + 1,
        )
    if not header.has("criterion"):
        listed = ", ".join(
            f"{column.shown} ({column.letter})" for column in columns[:_MOST_NAMED]
        )
        likely = _likeliest(header, body)
        raise RubricFileError(
            f"no column is known as the criterion; row {place + 1} has "
            f"{listed or 'no cells with anything below them'}: name the columns in the first "
            "row, as `criterion`, `weight` and `question`, or say `--column criterion=NAME` (or "
            f"its letter: `--column criterion={likely}`){_elsewhere(others)}",
            path=path,
            line=place + 1,
        )
    return header


def _numbered(header: Header) -> list[Column]:
    """Return the columns that nothing reads and that are criteria by name but for a number."""
    numbered = [
        column
        for column in header.unread
        if (name := _NUMBER.sub("", _key(column.name))) != _key(column.name)
        and _PART_OF.get(name) == "criterion"
    ]
    several = len(numbered) + header.has("criterion") > 1
    return numbered if several else []


def _likeliest(header: Header, body: Sequence[Sequence[Cell]]) -> str:
    """Return the letter of the unread column with the most distinct texts."""

    def texts(column: Column) -> int:
        cells = {str(cell_at(row, column.place)) for row in body}
        return sum(sum(map(str.isalpha, cell)) >= _TEXT_LETTERS for cell in cells)

    return max(header.unread, key=texts).letter if header.unread else "B"


def _elsewhere(others: Sequence[str]) -> str:
    if not others:
        return ""
    return f"; other sheets: {', '.join(map(repr, others))} (--sheet NAME)"


def _key(name: Cell) -> str:
    """Return a column's name in lower case, words apart, without a remark in brackets."""
    text = _HUMP.sub(" ", _REMARK.sub(" ", str(name)))
    return " ".join(_WORD.findall(text.lower()))


def _choice(text: str) -> tuple[str, str]:
    part, equals, name = text.partition("=")
    part = part.strip().replace(" ", "_").replace("-", "_")
    if not equals or not name.strip():
        raise ConfigError(
            f"--column {text!r} says no column: write `--column weight=Pts`",
            location="column",
        )
    if part not in PARTS:
        raise ConfigError(
            f"--column {text!r}: {part!r} is no part of a rubric; "
            f"{kind_remedy(part, PARTS)}",
            location="column",
        )
    return part, name.strip()


def _header_row(rows: Sequence[Sequence[Cell]], named: Sequence[str]) -> int | None:
    """Return the place of the first of the rows that hold most known names."""
    wanted = {_key(name) for name in named}
    best: int | None = None
    most = -1
    for place, cells in enumerate(rows[:_HEADER_ROWS]):
        if is_blank(cells):
            continue
        keys = {_key(cell) for cell in cells if isinstance(cell, str)}
        known = len({_PART_OF[key] for key in keys if key in _PART_OF})
        score = known + 2 * len(keys & wanted)
        if score > most:
            best = place
            most = score
    return best


def _filled(
    names: Sequence[Cell], body: Sequence[Sequence[Cell]], lost: Collection[int]
) -> list[Column]:
    """Return the columns that hold anything below their name, or have a part's own name."""
    width = max((len(cells) for cells in [names, *body]), default=0)
    columns = [Column(place, str(cell_at(names, place))) for place in range(width)]
    return [
        column
        for column in columns
        if _key(column.name) in PARTS
        or column.place in lost
        or any(cell_at(cells, column.place) != "" for cells in body)
    ]


def _named_column(name: str, columns: Sequence[Column], part: str) -> Column:
    exact = [column for column in columns if column.name.lower() == name.lower()]
    matches = exact or [column for column in columns if _key(column.name) == _key(name)]
    if not matches and _LETTERS.fullmatch(name):
        matches = [column for column in columns if column.letter == name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        letters = " and ".join(column.letter for column in matches)
        problem = f"columns {letters} are both called {name!r}: name one by its letter"
    else:
        listed = ", ".join(column.shown for column in columns[:_MOST_NAMED])
        problem = (
            f"no column with anything in it is called {name!r}; there are {listed}"
        )
    raise ConfigError(f"--column {part}={name}: {problem}", location="column")


@dataclass(frozen=True)
class _Guess:
    """All that is known of a table's columns before its header is."""

    columns: Sequence[Column]
    body: Sequence[Sequence[Cell]]
    chosen: Mapping[str, list[Column]]
    path: Path

    def header(self, row: int) -> Header:
        """Return the header with every column in its place."""
        settled = {column for columns in self.chosen.values() for column in columns}
        guessed: dict[str, list[Column]] = {part: [] for part in PARTS}
        unread: list[Column] = []
        for column in self.columns:
            part = self._part_of(column)
            if column in settled:
                continue
            if part is None or part in self.chosen:
                unread.append(column)
            else:
                guessed[part].append(column)
        self._split_names(guessed)
        copies: list[Column] = []
        for part, columns in guessed.items():
            if len(columns) > 1 and part not in _SEVERAL:
                self._check_copies(part, columns, row)
                copies += columns[1:]
                del columns[1:]
        guessed |= {part: list(columns) for part, columns in self.chosen.items()}
        read = {part: tuple(columns) for part, columns in guessed.items() if columns}
        return Header(row, read, tuple(copies), tuple(unread))

    def _part_of(self, column: Column) -> str | None:
        key = _key(column.name)
        if key != "id":
            return _PART_OF.get(key)
        ids = [value for value in self._values(column) if value != ""]
        return "id" if len(set(ids)) == len(ids) else "question_id"

    def _split_names(self, guessed: dict[str, list[Column]]) -> None:
        """Make the shorter of a criterion and its description the name."""
        candidates = guessed["criterion"]
        long = [each for each in candidates if _key(each.name) in _DESCRIPTIONS]
        short = [each for each in candidates if each not in long]
        has_name = guessed["name"] or "name" in self.chosen
        if len(long) == len(short) == 1 and not has_name:
            guessed["criterion"] = long
            guessed["name"] = short

    def _check_copies(self, part: str, columns: Sequence[Column], row: int) -> None:
        """Refuse columns that hold other values under names of the same part."""
        first = self._values(columns[0])
        if part == "question_id":
            if len({tuple(_pattern(self._values(each))) for each in columns}) == 1:
                return
        elif all(self._values(each) == first for each in columns):
            return
        listed = " and ".join(f"{each.shown} ({each.letter})" for each in columns)
        raise RubricFileError(
            f"{listed} may each be the {part_words(part)}, and they differ: name one of "
            f"them, by `--column {part}={columns[0].letter}`",
            path=self.path,
            line=row + 1,
        )

    def _values(self, column: Column) -> list[Cell]:
        return [cell_at(cells, column.place) for cells in self.body]


def _pattern(values: Sequence[Cell]) -> Iterator[int]:
    """Yield for each value the place where it is first."""
    first: dict[Cell, int] = {}
    for place, value in enumerate(values):
        yield first.setdefault(value, place)


def without(header: Header, names: Sequence[str]) -> Header:
    """Return a header without the unread columns that the user leaves out."""
    keys = {_key(name) for name in names}
    unread = [each for each in header.unread if _key(each.name) not in keys]
    return replace(header, unread=tuple(unread))
