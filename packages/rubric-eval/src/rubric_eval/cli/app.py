"""The command line's own furniture: application, exit statuses, log, progress, tables."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Final, cast, get_args

import structlog
from cyclopts import App, Parameter, convert
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from rubric_judge.console import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyclopts import Token


FAILED: Final = 1
"""Exit status of a command that ran and found what it must not."""
BAD_INPUT: Final = 2
"""Exit status for input that cannot be used."""
_SHORT_NAME: Final = 7
"""A name up to this is not broken, however narrow the terminal."""


def _exactly(kind: type, tokens: Sequence[Token]) -> object:
    """Convert what was given, but for a fraction where a whole number is wanted.

    Cyclopts would round it.
    """
    if int in (kind, *get_args(kind)):
        for token in tokens:
            if not float(token.value).is_integer():
                raise ValueError(f"{token.value!r} is no whole number")
    return cast("Any", convert)(kind, tokens)


app = App(
    name="rubric-eval",
    help="Evaluate policies on held-out rubrics and on benchmarks, and compare them.",
    suppress_keyboard_interrupt=False,  # `main` says what was kept
    default_parameter=Parameter(converter=_exactly),
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


def note(message: str) -> None:
    """Say something on stderr that a reader of the table should know."""
    print(f"rubric-eval: {message}", file=sys.stderr)


def print_edited(edited: Sequence[str]) -> None:
    """Say what of an evaluation is not as its run left it, and was accepted so."""
    for what in edited:
        console().print(f"edited, and accepted: {what}", soft_wrap=True)


def working() -> Progress:
    """Return what is entered around the work of a command, and left before results are printed."""
    return Progress.of(app.name[0])


def figures_table(title: str, *, names: Sequence[str], figures: Sequence[str]) -> Table:
    """Return a table that fits a terminal of 80 columns: names are broken before figures are."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.padding = (0, 1, 0, 0)
    for name in names:
        table.add_column(name, overflow="fold", min_width=_SHORT_NAME)
    for figure in figures:
        table.add_column(figure, justify="right", no_wrap=True)
    return table
