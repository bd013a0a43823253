"""The command line's own furniture: the application, exit statuses, the log, the progress bar."""

from __future__ import annotations

import logging
import sys
from typing import Final

import structlog
from cyclopts import App
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["BAD_INPUT", "FAILED", "app", "configure_log", "progress_bar"]

FAILED: Final = 1
"""Exit status of a command that ran and found what it must not."""
BAD_INPUT: Final = 2
"""Exit status for input that cannot be used."""

app = App(name="rubric-judge", help="Judge responses against rubrics.")


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


def progress_bar() -> Progress:
    """Return a bar on stderr that is silent where stderr is no terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=not console.is_terminal)
