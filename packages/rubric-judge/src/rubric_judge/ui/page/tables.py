"""Tables of unrounded numbers, and how pages, Markdown, LaTeX and JSON write them."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from string import Formatter
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from rubric_core.files import toml_beside
from rubric_judge.statistics.estimate import TOO_FEW, Estimate
from rubric_judge.ui.page.charts import Bars

Form = Literal[
    "text", "percent", "points", "count", "tenths", "probability", "decimal", "signed", "length",
    "number",
]  # fmt: skip
"""How a column is written; percentages, differences and marks out of ten are shares in data."""

_MISSING = "–"


class Part(BaseModel):
    """A part of a table or of a report, without nan or infinities."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Column(Part):
    """One column."""

    key: str
    title: str
    form: Form
    has_interval: bool = False
    """Whether its cells have bounds, which are written beside the value."""
    is_ranked: bool = False
    """Whether the best value of a group is bold; in a heat table, whether cells are shaded."""
    is_rare: bool = Field(default=False, exclude=True)
    """Whether it tells of what need not occur, so that readers are spared a column of zeros."""


class Cell(Part):
    """A value, with bounds if it has them, or a word."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    text: str = ""

    link: str = Field(default="", exclude=True)
    """Address that it leads to on a page."""

    @classmethod
    def of(cls, estimate: Estimate) -> Self:
        """Return the cell of an estimate: its value and its limits."""
        return cls(value=estimate.value, low=estimate.low, high=estimate.high)

    @property
    def holds_zero(self) -> bool:
        """Whether 0 is within its bounds, or there are none: no difference is shown by it."""
        return self.low is None or self.high is None or self.low <= 0 <= self.high


class Row(Part):
    """A row: its name and a cell for each column."""

    name: str
    cells: tuple[Cell, ...]
    group: str = ""
    """The group of the row; rows of one group stand together and share one best value."""

    role: str = Field(default="", exclude=True)
    """Colour of its dot on a page; without one, the dot is hollow."""

    link: str = Field(default="", exclude=True)
    """Address that its name leads to on a page."""


class Table(Part):
    """A table with a file name, a caption and its numbers, unrounded."""

    key: str = ""
    """Name of its files, without an ending."""

    title: str
    caption: str = ""
    first: str
    """Title of the rows' names."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    look: Literal["grid", "dots", "heat"] = Field(default="grid", exclude=True)
    """How a page shows it: intervals below their values, the first column drawn along an axis, or
    cells that are the darker the higher their share."""

    level: str = Field(default="95 %", exclude=True)
    """Confidence of the intervals of dots."""

    @classmethod
    def from_words(
        cls,
        words: Mapping[str, Any],
        rows: Iterable[Row],
        each: Mapping[str, str] | None = None,
        *,
        key: str,
        **values: object,
    ) -> Self:
        """Make a table from texts that are data, and from its rows.

        Args:
            words: `title`, `caption`, `first`, `columns` and `look` of the table; and, for the
                columns that stand before those, their common fields as `each`.
            rows: the rows, with a cell for each column.
            each: titles of the columns before the others, by key.
            key: name of the table's files.
            values: values for the slots of its texts; also `level`, that of its intervals.
        """
        columns = [
            Column(key=name, title=title, **words["each"])
            for name, title in (each or {}).items()
        ]
        columns += [Column(**column) for column in words.get("columns", ())]
        return cls(
            key=key,
            title=words.get("title", "").format(**values),
            caption=words.get("caption", "").format(**values),
            first=words.get("first", "").format(**values),
            columns=tuple(columns),
            rows=tuple(rows),
            look=words.get("look", "grid"),
            level=str(values.get("level", "95 %")),
        )

    @classmethod
    def from_texts(
        cls, title: str, header: Sequence[str], rows: Iterable[Sequence[str]]
    ) -> Self:
        """Make a table of cells that are written as given; the first column names the rows."""
        columns = [
            Column(key=str(at), title=name, form="text")
            for at, name in enumerate(header[1:])
        ]
        return cls(
            title=title,
            first=header[0],
            columns=tuple(columns),
            rows=tuple(
                Row(name=cells[0], cells=tuple(Cell(text=cell) for cell in cells[1:]))
                for cells in rows
            ),
        )

    @classmethod
    def from_forms(
        cls,
        words: Mapping[str, Any],
        figures: Iterable[Sequence[object]],
        **values: str,
    ) -> Self:
        """Make a table from texts that are data, and from its figures.

        Args:
            words: `title`, and `columns`: forms such as `{0.mean:.3f}`, by header. An unknown value
                is written as a dash.
            figures: objects for the slots of each row's forms.
            values: values for the slots of the title and of the headers.
        """
        forms: dict[str, str] = words["columns"]
        rows = (
            [_OR_DASH.format(form, *parts) for form in forms.values()]
            for parts in figures
        )
        header = [name.format(**values) for name in forms]
        return cls.from_texts(words["title"].format(**values), header, rows)

    @classmethod
    def turned(
        cls,
        words: Mapping[str, Any],
        figures: Sequence[Sequence[object]],
        header: Sequence[str] = ("value",),
    ) -> Self:
        """Make a table with a column for each item, and a row for each form in `rows`."""
        forms: dict[str, str] = words["rows"]
        rows = (
            (name, *(_OR_DASH.format(form, *parts) for parts in figures))
            for name, form in forms.items()
        )
        return cls.from_texts(words["title"], ("", *header), rows)

    @property
    def header(self) -> tuple[str, ...]:
        """Titles of the rows' names and of the columns."""
        return self.first, *(column.title for column in self.columns)

    @property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        """The name of each row and its cells, as they are written."""
        return tuple((row.name, *_written_cells(self, row)) for row in self.rows)

    @property
    def groups(self) -> dict[str, tuple[Row, ...]]:
        """Rows by group, in order."""
        groups: dict[str, list[Row]] = {}
        for row in self.rows:
            groups.setdefault(row.group, []).append(row)
        return {name: tuple(rows) for name, rows in groups.items()}

    @property
    def axis(self) -> tuple[float, float]:
        """Ends of the first column's axis: the whole range of its form, or that of its points."""
        if self.columns[0].form != "points":
            return -float(self.columns[0].form == "signed"), 1.0
        lengths = [0.0]
        for row in self.rows:
            cell = row.cells[0]
            ends = (cell.value, cell.low, cell.high)
            lengths += [abs(end) for end in ends if end is not None]
        reach = max(lengths) * 1.08 or 1.0
        return -reach, reach

    @property
    def axis_labels(self) -> tuple[str, str, str]:
        """Labels at the left, in the middle and at the right of the axis."""
        low, high = self.axis
        if low == 0:
            return "0", "50", "100"
        form = self.columns[0].form
        return written(low, form), "0", written(high, form)

    def place(self, value: float) -> str:
        """Return the position of a value on the axis, in per cent of its width."""
        low, high = self.axis
        return f"{100 * (value - low) / (high - low):.3f}%"

    def is_best(self, row: Row, at: int) -> bool:
        """Return whether a cell is bold: the highest as written, unless all are equal.

        Rows with a hollow dot, such as controls, are beside the competition.
        """
        mine = row.cells[at].value
        form = self.columns[at].form
        is_hollow = self.look == "dots" and not row.role
        if mine is None or is_hollow or not self.columns[at].is_ranked:
            return False
        values = (peer.cells[at].value for peer in self.groups[row.group])
        peers = [value for value in values if value is not None]
        differ = len({written(value, form) for value in peers}) > 1
        return differ and written(mine, form) == written(max(peers), form)


_TABLE = toml_beside(__file__, "tables.toml")


def written(value: float | None, form: Form) -> str:
    """Write a number for people, with a true minus sign."""
    if value is None:
        return _MISSING
    scale, shown = _TABLE["forms"][form]
    text = f"{scale * value:{shown}}"
    if form == "probability" and value < 0.001:  # noqa: PLR2004
        text = "<0.001"
    # A number that rounds to zero has no sign.
    if not any(digit in "123456789" for digit in text):
        text = text.lstrip("+-")
    return text.replace("-", "−")


def bounds(cell: Cell, form: Form) -> str:
    """Write an interval, or that there are too few items for one; "" without a value."""
    if cell.low is None or cell.high is None:
        return "" if cell.value is None else TOO_FEW
    return f"{written(cell.low, form)} to {written(cell.high, form)}"


def _written_cells(
    table: Table, row: Row, *, escape: Callable[[str], str] = str, best: str = "{}"
) -> Iterator[str]:
    for at, (column, cell) in enumerate(zip(table.columns, row.cells, strict=True)):
        text = written(cell.value, column.form)
        if column.form == "text":
            text = escape(cell.text)
        if table.is_best(row, at):
            text = best.format(text)
        interval = bounds(cell, column.form) if column.has_interval else ""
        yield f"{text} ({interval})" if interval else text


def plain_markdown(table: Table, figures: str = "---") -> str:
    """Write a table as Markdown without its title and caption, its texts as they are.

    Args:
        table: the table.
        figures: the rule below the headers of all columns but the first.
    """
    rule = ["---", *[figures] * len(table.columns)]
    lines: list[str] = []
    for cells in (table.header, rule, *table.texts):
        escaped = [cell.replace("|", r"\|").replace("\n", " ") for cell in cells]
        lines.append(_line(escaped))
    return "\n".join(lines)


def markdown(table: Table) -> str:
    """Write a table as Markdown, below its title and caption."""
    rule = ["---", *("---" if c.form == "text" else "---:" for c in table.columns)]
    lines = [_line(table.header), _line(rule)]
    for group, rows in table.groups.items():
        if group:
            lines.append(_line([f"*{_plain(group)}*", *("" for _ in table.columns)]))
        for row in rows:
            cells = _written_cells(table, row, escape=_plain, best="**{}**")
            lines.append(_line([_plain(row.name), *cells]))
    opening = f"**{_plain(table.title)}** {_plain(table.caption)}"
    return f"{opening}\n\n" + "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Escape what would be markup in a text, or end its cell."""
    for mark in "\\`*_|<>[]":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


class _OrDash(Formatter):
    """Formats `.1 %` as a share in per cent, `+.1pt` in points, and unknown values as a dash."""

    def get_field(
        self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        try:
            return super().get_field(field_name, args, kwargs)
        except AttributeError as error:
            if error.obj is not None:
                raise
            return None, field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return _MISSING
        for sign, unit in ((" %", " %"), ("pt", "")):
            if format_spec.endswith(sign):
                return f"{100 * value:{format_spec.removesuffix(sign)}f}{unit}"
        return super().format_field(value, format_spec)


_OR_DASH = _OrDash()


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun; the plural is the noun with an s by default."""
    if count != 1:
        noun = plural or f"{noun}s"
    return f"{count:,} {noun}"


def or_dash(value: float | None, form: str) -> str:
    """Write a number with a format specification; None is a dash."""
    return _MISSING if value is None else format(value, form)


class Report(Part):
    """Results of a command: numbers, which are written as JSON, and texts about them."""

    @property
    @abstractmethod
    def heading(self) -> str:
        """Title of the report."""

    @abstractmethod
    def summary(self) -> str:
        """Return the results in plain sentences, the main one first."""

    @abstractmethod
    def method(self) -> str:
        """Return what a reader must know about the numbers."""

    @abstractmethod
    def tables(self) -> list[Table]:
        """Return the tables; unknown values are dashes."""

    def drawn(self) -> list[Bars]:
        """Return the bars above the tables of its page."""
        return []

    def markdown(self, figures: Sequence[str]) -> str:
        """Write the report as a page with every table.

        Args:
            figures: file names of pictures beside the page.
        """
        return markdown_page(
            self.heading, f"{self.summary()}\n\n{self.method()}", self.tables(), figures
        )


def markdown_page(
    title: str, opening: str, tables: Sequence[Table], figures: Sequence[str]
) -> str:
    """Write a report as Markdown.

    Args:
        title: its heading.
        opening: what a reader must know about the numbers.
        tables: its tables; those without rows are left out.
        figures: file names of pictures beside the page.
    """
    parts = [f"# {title}", opening]
    shown_tables = [table for table in tables if table.rows]
    parts += [f"## {table.title}\n\n{plain_markdown(table)}" for table in shown_tables]
    for name in figures:
        alternative = name.rsplit(".", 1)[0].replace("_", " ")
        parts.append(f"![{alternative}]({name})")
    return "\n\n".join(parts) + "\n"


def latex(table: Table) -> str:
    r"""Write a table as LaTeX in the paper's own form, for `\input`; needs booktabs."""
    width = len(table.columns) + 1
    aligned = "l" + "".join("l" if c.form == "text" else "c" for c in table.columns)
    lines = [
        r"\begin{table}[!ht]",
        r"\centering",
        rf"\caption{{\textbf{{{_tex(table.title)}}} {_tex(table.caption)}}}",
        rf"\label{{tab:{table.key}}}",
        r"\begin{small}",
        rf"\begin{{tabular}}{{{aligned}}}",
        r"\toprule",
        " & ".join(rf"\textbf{{{_tex(title)}}}" for title in table.header) + r" \\",
        r"\midrule",
    ]
    for number, (group, rows) in enumerate(table.groups.items()):
        if number:
            lines.append(r"\midrule")
        if group:
            title = rf"\multicolumn{{{width}}}{{l}}{{\emph{{{_tex(group)}}}}} \\"
            lines.append(title)
        for row in rows:
            cells = [_tex(row.name), *_latex_cells(table, row)]
            lines.append(" & ".join(cells) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{small}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _latex_cells(table: Table, row: Row) -> Iterator[str]:
    for at, (column, cell) in enumerate(zip(table.columns, row.cells, strict=True)):
        if column.form == "text":
            yield _tex(cell.text)
            continue
        if cell.value is None:
            yield "--"
            continue
        text = _tex_number(written(cell.value, column.form))
        if table.is_best(row, at):
            text = rf"\mathbf{{{text}}}"
        if column.has_interval and cell.low is not None and cell.high is not None:
            low = _tex_number(written(cell.low, column.form))
            high = _tex_number(written(cell.high, column.form))
            text += rf"\;{{\scriptstyle [{low}, {high}]}}"
        yield f"${text}$"


def _tex_number(text: str) -> str:
    return text.replace("−", "-").replace(",", "{,}")


_TEX = str.maketrans(_TABLE["tex"])


def _tex(text: str) -> str:
    return text.translate(_TEX)
