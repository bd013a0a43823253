"""The command line's own furniture: the application, exit statuses, the log, progress, tables."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Final

import structlog
from cyclopts import App
from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from rubric_judge.console import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_judge.tables import Table


FAILED: Final = 1
"""Exit status of a command that ran and found what it must not."""
BAD_INPUT: Final = 2
"""Exit status for input that cannot be used."""

_SHORT_CELL: Final = 14
_SHORT_NAME: Final = 20
"""Cells up to these are not broken into lines; the last column's always may be."""

app = App(
    name="rubric-judge",
    help="Judge responses against rubrics.",
    suppress_keyboard_interrupt=False,  # `main` says what was kept
)


def configure_log(*, verbose: bool) -> None:
    """Send the log to stderr: readable on a terminal, JSON elsewhere."""
    to_terminal = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.dev.ConsoleRenderer() if to_terminal else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.INFO if verbose else logging.WARNING
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def console(*, stderr: bool = False) -> Console:
    """Return a console that prints names and paths as they are, brackets included."""
    return Console(stderr=stderr, markup=False, highlight=False)


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
