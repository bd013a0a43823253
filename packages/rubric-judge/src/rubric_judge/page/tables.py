"""A table: numbers as they are, and how pages, Markdown, LaTeX and JSON write them."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from rubric_core.files import toml_beside
from rubric_judge.page.charts import Bars

Form = Literal[
    "text", "percent", "points", "count", "tenths", "probability", "decimal", "signed", "length",
    "number",
]  # fmt: skip
"""How a column is written; a percentage, a difference and a mark out of ten are shares in data."""

_MISSING: Final = "–"
TooFew = Literal["too few to say"]
TOO_FEW: Final[TooFew] = "too few to say"
"""In place of an interval: so few documents, tasks or responses say nothing of their spread."""


@dataclass(frozen=True)
class Figure:
    """One number at the top of a page: what it is, and what it was."""

    label: str
    value: str
    before: str = ""
    note: str = ""


class Part(BaseModel):
    """Of a table or of a report; nan and infinities are no figures."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Column(Part):
    """One column."""

    key: str
    title: str
    form: Form
    has_interval: bool = False
    """Whether its cells have bounds, which are written beside the value."""
    is_ranked: bool = False
    """Whether the best value of a group is in bold, or in a heat table every cell is shaded."""


class Cell(Part):
    """A value, its bounds where it has them, or a word."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    text: str = ""


class Row(Part):
    """A row: its name and a cell for each column."""

    name: str
    cells: tuple[Cell, ...]
    group: str = ""
    """Rows of one group stand together; the best value is that of the group."""

    role: str = Field(default="", exclude=True)
    """Colour of its dot on a page; a hollow one without."""


class Table(Part):
    """A table with a file name, a caption and its numbers, unrounded."""

    key: str
    """Of its files."""

    title: str
    caption: str
    first: str
    """Title of the rows' names."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    look: Literal["grid", "dots", "heat"] = Field(default="grid", exclude=True)
    """On a page: intervals under their values, the first column drawn along an axis, or cells
    whose ground is the fuller the higher their share."""

    level: str = Field(default="95 %", exclude=True)
    """Confidence of the intervals of dots."""

    @classmethod
    def told(
        cls,
        words: Mapping[str, Any],
        rows: Iterable[Row],
        each: Mapping[str, str] | None = None,
        *,
        key: str,
        **values: object,
    ) -> Self:
        """Make a table of which all but the numbers is data.

        Args:
            words: `title`, `caption` and `first`, its `columns` and its `look`; and what the
                columns have in common that stand before them, one for `each`.
            rows: with a cell for each column.
            each: titles of those columns, by their keys.
            key: of its files.
            values: for the slots of its texts; the `level` of its intervals too.
        """
        titles = (each or {}).items()
        return cls(
            key=key,
            columns=(
                *(
                    Column(key=name, title=title, **words["each"])
                    for name, title in titles
                ),
                *(Column(**column) for column in words.get("columns", ())),
            ),
            rows=tuple(rows),
            look=words.get("look", "grid"),
            level=str(values.get("level", "95 %")),
            **{
                text: words.get(text, "").format(**values)
                for text in ("title", "caption", "first")
            },
        )

    @property
    def groups(self) -> dict[str, tuple[Row, ...]]:
        """Rows by group, in order."""
        names = dict.fromkeys(row.group for row in self.rows)
        return {
            name: tuple(row for row in self.rows if row.group == name) for name in names
        }

    @property
    def axis(self) -> tuple[float, float]:
        """Of the first column: all of a share or of what has a sign, or whatever points reach."""
        if self.columns[0].form != "points":
            return -float(self.columns[0].form == "signed"), 1.0
        cells = [row.cells[0] for row in self.rows]
        ends = (end for cell in cells for end in (cell.value, cell.low, cell.high))
        reach = (
            max((abs(end) for end in ends if end is not None), default=0.0) * 1.08
            or 1.0
        )
        return -reach, reach

    @property
    def axis_labels(self) -> tuple[str, str, str]:
        """Left, middle and right."""
        low, high = self.axis
        if low == 0:
            return "0", "50", "100"
        form = self.columns[0].form
        return written(low, form), "0", written(high, form)

    def place(self, value: float) -> str:
        """Where a value lies on the axis, in per cent of its width."""
        low, high = self.axis
        return f"{100 * (value - low) / (high - low):.3f}%"

    def is_best(self, row: Row, at: int) -> bool:
        """Whether a cell is to be in bold: the highest as it is written, and not of all."""
        mine = row.cells[at].value
        form = self.columns[at].form
        if mine is None or not self.columns[at].is_ranked:
            return False
        values = (peer.cells[at].value for peer in self.groups[row.group])
        peers = [value for value in values if value is not None]
        differ = len({written(value, form) for value in peers}) > 1
        return differ and written(mine, form) == written(max(peers), form)


_TABLE: Final = toml_beside(__file__, "tables.toml")


def written(value: float | None, form: Form) -> str:
    """Write a number for people, with a true minus sign."""
    if value is None:
        return _MISSING
    scale, shown = _TABLE["forms"][form]
    text = f"{scale * value:{shown}}"
    if form == "probability" and value < 0.001:  # noqa: PLR2004
        text = "<0.001"
    # What is rounded away has no sign.
    text = (
        text.lstrip("+-") if not any(digit in "123456789" for digit in text) else text
    )
    return text.replace("-", "−")


def bounds(cell: Cell, form: Form) -> str:
    """Write an interval, or that there is too little for one; nothing without a value."""
    if cell.low is None or cell.high is None:
        return "" if cell.value is None else TOO_FEW
    return f"{written(cell.low, form)} to {written(cell.high, form)}"


def markdown(table: Table) -> str:
    """Write a table as Markdown, below its title and caption."""
    head = [table.first, *(column.title for column in table.columns)]
    rule = ["---", *("---" if c.form == "text" else "---:" for c in table.columns)]
    lines = [_line(head), _line(rule)]
    for group, rows in table.groups.items():
        if group:
            lines.append(_line([f"*{_plain(group)}*", *("" for _ in table.columns)]))
        lines += [
            _line([_plain(row.name), *_markdown_cells(table, row)]) for row in rows
        ]
    return (
        f"**{_plain(table.title)}** {_plain(table.caption)}\n\n"
        + "\n".join(lines)
        + "\n"
    )


def _markdown_cells(table: Table, row: Row) -> Iterator[str]:
    for at, (column, cell) in enumerate(zip(table.columns, row.cells, strict=True)):
        text = (
            _plain(cell.text)
            if column.form == "text"
            else written(cell.value, column.form)
        )
        text = f"**{text}**" if table.is_best(row, at) else text
        interval = bounds(cell, column.form) if column.has_interval else ""
        yield f"{text} ({interval})" if interval else text


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Keep what a name holds from being markup, or from ending a cell."""
    for mark in "\\`*_|<>[]":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


@dataclass(frozen=True)
class TextTable:
    """A table of cells that are written as they are; the first column names the rows."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def of(
        cls, words: Mapping[str, Any], told: Iterable[Sequence[object]], **values: str
    ) -> Self:
        """Make a table of which all but the figures is data.

        Args:
            words: `title`, and `columns`: forms such as `{0.mean:.3f}`, by their headers; what is
                not known is a dash.
            told: what each row tells of.
            values: for the slots of the title and of the headers.
        """
        forms: dict[str, str] = words["columns"]
        rows = (
            tuple(_OR_DASH.format(form, *parts) for form in forms.values())
            for parts in told
        )
        header = tuple(name.format(**values) for name in forms)
        return cls(words["title"].format(**values), header, tuple(rows))

    @classmethod
    def turned(
        cls,
        words: Mapping[str, Any],
        told: Sequence[Sequence[object]],
        header: Sequence[str] = ("value",),
    ) -> Self:
        """Make one with a column for what each tells of, and a row for each form of `rows`."""
        forms: dict[str, str] = words["rows"]
        rows = (
            (name, *(_OR_DASH.format(form, *parts) for parts in told))
            for name, form in forms.items()
        )
        return cls(words["title"], ("", *header), tuple(rows))

    def markdown(self, figures: str = "---") -> str:
        """Write it as Markdown, without its title; `figures` is the rule below their headers."""
        lines = (self.header, ["---", *[figures] * (len(self.header) - 1)], *self.rows)
        escaped = (
            [one.replace("|", r"\|").replace("\n", " ") for one in line]
            for line in lines
        )
        return "\n".join(map(_line, escaped))


class _OrDash(Formatter):
    """Knows `.1 %`, a share in per cent, and `+.1pt`, in points; what is not known is a dash."""

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


_OR_DASH: Final = _OrDash()


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun; the plural is that of the noun with an s if it is left out."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def or_dash(value: float | None, form: str) -> str:
    """Write a number in a form of `format`, and a dash where there is none."""
    return _MISSING if value is None else format(value, form)


class Report(Part):
    """What a command found: its numbers, which are written as JSON, and how people read them."""

    @property
    @abstractmethod
    def heading(self) -> str:
        """What the report is of."""

    @abstractmethod
    def summary(self) -> str:
        """Return what was found in plain sentences, the result first."""

    @abstractmethod
    def method(self) -> str:
        """Return what a reader must know of the numbers."""

    @abstractmethod
    def tables(self) -> list[TextTable]:
        """Return what it says; what it cannot say is a dash."""

    def drawn(self) -> list[Bars]:
        """Return what its page draws above the tables."""
        return []

    def markdown(self, figures: Sequence[str]) -> str:
        """Write it as a page with every table.

        Args:
            figures: file names of pictures beside the page.
        """
        opening = f"{self.summary()}\n\n{self.method()}"
        return markdown_page(self.heading, opening, self.tables(), figures)


def markdown_page(
    title: str, opening: str, tables: Sequence[TextTable], figures: Sequence[str]
) -> str:
    """Write a report as Markdown.

    Args:
        title: its heading.
        opening: what a reader must know of the numbers.
        tables: those without rows are left out.
        figures: file names of pictures beside the page.
    """
    parts = [f"# {title}", opening]
    parts += [
        f"## {table.title}\n\n{table.markdown()}" for table in tables if table.rows
    ]
    parts += [
        f"![{name.rsplit('.', 1)[0].replace('_', ' ')}]({name})" for name in figures
    ]
    return "\n\n".join(parts) + "\n"


def latex(table: Table) -> str:
    r"""Write a table as LaTeX in the paper's own form, for `\input`; needs booktabs."""
    width = len(table.columns) + 1
    aligned = "l" + "".join("l" if c.form == "text" else "c" for c in table.columns)
    head = [table.first, *(column.title for column in table.columns)]
    lines = [
        r"\begin{table}[!ht]",
        r"\centering",
        rf"\caption{{\textbf{{{_tex(table.title)}}} {_tex(table.caption)}}}",
        rf"\label{{tab:{table.key}}}",
        r"\begin{small}",
        rf"\begin{{tabular}}{{{aligned}}}",
        r"\toprule",
        " & ".join(rf"\textbf{{{_tex(title)}}}" for title in head) + r" \\",
        r"\midrule",
    ]
    for number, (group, rows) in enumerate(table.groups.items()):
        lines += [r"\midrule"] if number else []
        lines += (
            [rf"\multicolumn{{{width}}}{{l}}{{\emph{{{_tex(group)}}}}} \\"]
            if group
            else []
        )
        lines += [
            " & ".join([_tex(row.name), *_latex_cells(table, row)]) + r" \\"
            for row in rows
        ]
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{small}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _latex_cells(table: Table, row: Row) -> Iterator[str]:
    for at, (column, cell) in enumerate(zip(table.columns, row.cells, strict=True)):
        if column.form == "text":
            yield _tex(cell.text)
            continue
        text = _tex_number(written(cell.value, column.form))
        text = rf"\mathbf{{{text}}}" if table.is_best(row, at) else text
        low, high = (
            _tex_number(written(x, column.form)) for x in (cell.low, cell.high)
        )
        has_bounds = (
            column.has_interval and cell.low is not None and cell.high is not None
        )
        interval = rf"\;{{\scriptstyle [{low}, {high}]}}" if has_bounds else ""
        yield "--" if cell.value is None else f"${text}{interval}$"


def _tex_number(text: str) -> str:
    return text.replace("−", "-").replace(",", "{,}")


_TEX: Final = str.maketrans(_TABLE["tex"])


def _tex(text: str) -> str:
    return text.translate(_TEX)
