"""The application, its progress, and the tables of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich import box
from rich.table import Table as RichTable

from rubric_judge.console import Progress
from rubric_judge.console.command import command_app, console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_judge.tables import Table


_SHORT_CELL: Final = 14
_SHORT_NAME: Final = 20
"""Cells up to these are not broken into lines; the last column's always may be."""

app = command_app("rubric-judge", summary="Judge responses against rubrics.")


def working() -> Progress:
    """Return what is entered around the work of a command, and left before results are printed."""
    return Progress.of(app.name[0])


def print_tables(tables: Sequence[Table], *, footer: str) -> None:
    """Print a report's tables on stdout, and where the rest of it is."""
    stdout = console()
    for table in tables:
        if table.rows:
            printed = RichTable(
                title=table.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
            )
            for place, name in enumerate(table.header):
                longest = max(len(row[place]) for row in table.rows)
                fits = longest <= (_SHORT_CELL if place else _SHORT_NAME)
                fixed = fits and place < len(table.header) - 1
                printed.add_column(name, no_wrap=fixed, overflow="fold")
            for cells in table.rows:
                printed.add_row(*cells)
            stdout.print(printed)
    stdout.print(footer)
