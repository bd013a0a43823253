"""Shared parts of all packages' commands: application, numbers, exit statuses, errors, signals.

The table of exit statuses stands in docs/index.md.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import (
    Annotated,
    Any,
    NoReturn,
    cast,
    get_args,
)

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter, Token, convert
from cyclopts import ValidationError as RefusedError
from cyclopts.validators import Number
from rich.console import Console
from rich.text import Text

from rubric_core.errors import RubricError
from rubric_judge.ui.console import printing, progress, settings
from rubric_judge.ui.page.tables import Table

Positive = Annotated[int, Parameter(validator=Number(gte=1, lte=10**6))]
"""At least 1; more than a million workers, draws or rows is a slip, and would take all memory."""
Seconds = Annotated[float, Parameter(validator=Number(gt=0, lte=10**7))]
"""Above 0 and at most some months: a thread cannot wait for ever."""
Share = Annotated[float, Parameter(validator=Number(gte=0, lt=1))]
Count = Annotated[int, Parameter(validator=Number(gte=0, lt=2**63))]
"""At least 0, and no larger than a file can hold."""
Flag = Annotated[bool, Parameter(negative=())]
"""Given or not: without a `--no-` of its own."""
EachPath = Annotated[tuple[Path, ...], Parameter(negative=())]
"""Files, each after an option of its own."""
_SEVERAL = Parameter(negative=(), consume_multiple=True)
Paths = Annotated[tuple[Path, ...], _SEVERAL]
"""Files after one option, as a shell writes them out for `*`."""
Names = Annotated[tuple[str, ...], _SEVERAL]
"""Words after one option."""


class Terminated(SystemExit):
    """Raised on SIGTERM; uncaught, it ends the process with the status that a shell expects."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


@contextlib.contextmanager
def sigterm_raised() -> Generator[None]:
    """Let SIGTERM end the work through every `finally`, as Ctrl-C does, where that can be set.

    An event loop is stopped as Ctrl-C stops it, by cancelling its main task: an exception raised in
    the middle of a callback could leave it waiting for ever.

    Raises:
        Terminated: the signal came; raised in the main thread.
    """
    came = False

    def stop(signum: int, frame: FrameType | None) -> None:
        nonlocal came
        del signum
        came = True
        interrupt = signal.getsignal(signal.SIGINT)
        if callable(interrupt) and interrupt is not signal.default_int_handler:
            interrupt(signal.SIGINT, frame)
        else:
            raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # only the main thread may set a handler
        yield
        return
    try:
        yield
    except KeyboardInterrupt:
        if came:
            raise Terminated from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def typed_command(program: str, words: Sequence[str], *more: str) -> str:
    """Return a command line as it would be typed into a shell.

    Args:
        program: the command's name.
        words: the command's arguments.
        more: options that are added if they are missing.
    """
    missing = [word for word in more if word not in words]
    return shlex.join([program, *words, *missing])


FAILED = 1
"""Exit status of a command whose work has a bad result, or broke off."""
BAD_INPUT = 2
"""Exit status for arguments, files or settings that cannot be used."""
DIVERGED = 6
"""Exit status of a training run that an alarm of its audit judge ended."""
INTERRUPTED = 130
"""Exit status after Ctrl-C."""
_BROKEN_PIPE = 141
"""Exit status that a shell reports for a program that SIGPIPE ended."""

_REMEDIES = {
    errno.ENOSPC: "; free some, or write elsewhere",
    errno.EDQUOT: "; free some, or write elsewhere",
    errno.EADDRINUSE: "; choose another port, or 0 for any that is free",
}
_ENDLESS = re.compile(r"(\S{80})\S{920,}")
"""Matches runs longer than any path or word that somebody wrote on purpose."""


def _exactly(kind: type, tokens: Sequence[Token]) -> object:
    """Convert an argument, but refuse a fraction for a whole number, which cyclopts would round."""
    if int in (kind, *get_args(kind)):
        for token in tokens:
            try:
                whole = token.value.isdecimal() or float(token.value).is_integer()
            except ValueError:
                continue  # cyclopts reports what is wrong, or another type of a union fits
            if not whole:
                raise ValueError(f"{token.value!r} is no whole number")
    return cast("Any", convert)(kind, tokens)


def command_app(name: str, *, summary: str) -> App:
    """Return the application of a command, to which its subcommands are added."""
    return App(
        name=name,
        help=summary,
        suppress_keyboard_interrupt=False,  # `run_command` reports what was kept
        default_parameter=Parameter(converter=_exactly),
    )


def working(app: App) -> progress.Progress:
    """Return the context of a command's work, to be left before results are printed."""
    return progress.Progress.of(app.name[0])


def run_command(
    app: App,
    arguments: Sequence[str] | None = None,
    *,
    stopped: Callable[[Sequence[str]], str | None] | None = None,
    broken_off: tuple[type[RubricError], ...] = (),
) -> NoReturn:
    """Run a command line and end the process with its status; a known error is one message.

    Args:
        app: the application.
        arguments: the words after the program's name; the process's own if None.
        stopped: returns what a stopped command with these arguments kept; None for no report.
        broken_off: errors of work that broke off after it began; they end with status 1.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal without τ still gets its table.
            stream.reconfigure(errors="replace")
    settings.let_threads_sleep()
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    try:
        with sigterm_raised():
            status = app(
                words,
                result_action="return_value",
                exit_on_error=False,
                print_error=False,
            )
            sys.stdout.flush()
    except CycloptsError as error:  # an unknown option or a bad value
        fail(app.name[0], _usage_problem(error), status=BAD_INPUT)
    except (KeyboardInterrupt, Terminated) as stop:
        message = None if stopped is None else stopped(words)
        if message is not None:
            say_on_stderr(message)
        if isinstance(stop, Terminated):
            raise
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of the output has gone: the rest is discarded, also when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_BROKEN_PIPE)
    except (RubricError, OSError) as error:
        status = FAILED if isinstance(error, broken_off) else BAD_INPUT
        fail(app.name[0], error, status=status)
    sys.exit(status or 0)


def _usage_problem(error: CycloptsError) -> str:
    """Describe what is wrong with the arguments."""
    from pydantic import ValidationError

    from rubric_core.configuration import config_error

    cause = error.__cause__
    argument = error.argument
    message = str(error)
    # The error may be about options that are a model, options together, or a single value.
    if isinstance(cause, ValidationError) and argument is not None:
        return str(config_error(cause, model=argument.hint, source="the options"))
    if isinstance(error, RefusedError) and error.group is not None:
        return error.exception_message
    if isinstance(error, RefusedError) and argument is not None:
        value = cast("object", argument.value)
        if isinstance(value, tuple):
            words = " ".join(map(str, cast("tuple[object, ...]", value)))
            message = message.replace(f'"{value}"', f'"{words}"', 1)
        return message
    if isinstance(error, MissingArgumentError):
        return _missing_argument(error, message)
    return message


def _missing_argument(error: MissingArgumentError, message: str) -> str:
    """Describe a missing value or argument, with the argument's help."""
    argument = error.argument
    app = error.app
    if argument is None or app is None:
        return message
    _, is_usual, rest = message.partition(" requires an argument.")
    if not is_usual:
        return message
    name = argument.name
    if argument.index is not None:
        name = name.lstrip("-").upper()
    if error.keyword is not None or argument.tokens:
        return f"{error.keyword or name} needs a value{rest}"
    text = ""
    for known in app.assemble_argument_collection(parse_docstring=True):
        if known.name == argument.name:
            text = " ".join((known.parameter.help or "").split())
    return f"{name} is required: {text}{rest}"


def fail(program: str, error: RubricError | OSError | str, *, status: int) -> NoReturn:
    """Print an error and its notes on standard error, and end the process."""
    known = isinstance(error, (RubricError, str))
    lines = [f"{program}: {error if known else _os_problem(error)}"]
    lines += getattr(error, "__notes__", ())
    say_on_stderr(_ENDLESS.sub(r"\1…", "\n".join(lines)), style="red")
    sys.exit(status)


def _os_problem(error: OSError) -> str:
    """Name the file that an error is about and what is wrong, without Python's error number."""
    place = "" if error.filename is None else f"{error.filename}: "
    problem = error.strerror or str(error) or type(error).__name__
    return f"{place}{problem}{_REMEDIES.get(error.errno or 0, '')}"


def say_on_stderr(message: str, *, style: str | None = None) -> None:
    """Print a message on standard error without line breaks, coloured on a terminal."""
    console(stderr=True).print(message, style=style, soft_wrap=True)


def configure_log(*, verbose: bool) -> None:
    """Send the log to standard error: readable on a terminal, as JSON lines elsewhere."""
    import structlog

    to_terminal = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.dev.ConsoleRenderer()
            if to_terminal
            else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.INFO if verbose else logging.WARNING
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave a broken pipe to `run_command`; rich would end with the status of a failure."""
        if self.stderr:
            super().on_broken_pipe()
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    """Return a console that prints names and paths as they are, brackets included."""
    return _Console(stderr=stderr, markup=False, highlight=False)


def styled(*parts: str | tuple[str, str]) -> Text:
    """Return a text of parts, each plain or a pair of text and style."""
    return Text.assemble(*parts)


def print_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and their values, below each other, on standard output."""
    print_rows(("", ""), ((name, str(value)) for name, value in pairs))


def print_rows(
    header: Sequence[str], rows: Iterable[Sequence[printing.Printed]], title: str = ""
) -> None:
    """Print a table on standard output; see `printing.print_cells`."""
    printing.print_cells(console(), title, header, rows)


def print_tables(tables: Iterable[Table], *, footer: str) -> None:
    """Print a report's tables on standard output, and then the footer."""
    stdout = console()
    for table in tables:
        printing.print_table(stdout, table)
    stdout.print(footer)


def print_figures(
    words: Mapping[str, Any], figures: Iterable[Sequence[object]], **values: str
) -> None:
    """Print a table whose texts are data, as in `Table.from_forms`.

    Args:
        words: its `title` and `columns`.
        figures: objects for the slots of each row's forms; without any, nothing is printed.
        values: values for the slots of the title and of the headers.
    """
    printing.print_table(console(), Table.from_forms(words, figures, **values))
