"""All commands, registered, and what a command line does with errors."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Final

import structlog

from rubric_core import RubricError
from rubric_synth.cli import collecting, describing, running, showing
from rubric_synth.cli.app import app
from rubric_synth.cli.console import fail

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["app", "collecting", "describing", "run_command_line", "running", "showing"]

_BROKEN_PIPE: Final = 141
"""What a shell says of a program that SIGPIPE ended."""


def run_command_line(arguments: Sequence[str] | None) -> None:
    """Run one command; an expected error is one message and exit status 1."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        app(arguments)
        sys.stdout.flush()
    except RubricError as error:
        fail(str(error))
    except BrokenPipeError:
        # Whoever read the output has had enough: what is left of it goes nowhere, at the end too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_BROKEN_PIPE)
