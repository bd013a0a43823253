"""A table of a report, for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """One table; the first column names the rows."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def as_markdown(table: Table) -> str:
    """Write a table below its title."""
    lines = (table.header, ["---"] * len(table.header), *table.rows)
    return f"## {table.title}\n\n" + "\n".join(_line(cells) for cells in lines)


def as_page(title: str, opening: str, tables: Sequence[Table], figures: Sequence[str]) -> str:
    """Write a report as a page.

    Args:
        title: its heading.
        opening: what a reader must know of the numbers.
        tables: those without rows are left out.
        figures: file names of pictures beside the page.

    Returns:
        Markdown.
    """
    parts = [f"# {title}", opening, *(as_markdown(table) for table in tables if table.rows)]
    parts += [f"![{name.rsplit('.', 1)[0].replace('_', ' ')}]({name})" for name in figures]
    return "\n\n".join(parts) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
