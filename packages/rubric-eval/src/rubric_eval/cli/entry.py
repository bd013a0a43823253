"""The entry point, and the list of commands.

The module of a command imports nothing heavy before it is called.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Final

from cyclopts import CycloptsError

from rubric_core import RubricError
from rubric_core.files import os_problem
from rubric_eval.cli.app import BAD_INPUT, app
from rubric_eval.cli.compare import compare
from rubric_eval.cli.hacking import hacking
from rubric_eval.cli.heldout import heldout
from rubric_eval.cli.lm_eval import lm_eval
from rubric_eval.cli.rejudge import rejudge
from rubric_eval.cli.report import report
from rubric_eval.cli.transfer import transfer
from rubric_eval.cli.validate import tasks_path, validate
from rubric_judge.console import Terminated, sigterm_raised, typed_command

_INTERRUPTED: Final = 130
_KEEPS_ANSWERS: Final = ("heldout", "rejudge", "transfer")
"""Commands that find again what they were answered before they were stopped."""

_COMMANDS: Final = (
    compare,
    hacking,
    heldout,
    lm_eval,
    rejudge,
    report,
    tasks_path,
    transfer,
    validate,
)

for _command in _COMMANDS:
    app.command(_command)


def main() -> None:
    """Run the command; known errors end with one line on stderr and status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no τ still gets its table
    words = sys.argv[1:]
    try:
        with sigterm_raised():
            status = app(words, result_action="return_value", exit_on_error=False)
    except CycloptsError:  # an option that is none, or its value: said on stderr by cyclopts
        sys.exit(BAD_INPUT)
    except KeyboardInterrupt:
        print(_stopped(words), file=sys.stderr)
        sys.exit(_INTERRUPTED)
    except Terminated:
        print(_stopped(words), file=sys.stderr)
        raise
    except RubricError as error:
        print(f"rubric-eval: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except OSError as error:
        print(f"rubric-eval: {os_problem(error)}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    sys.exit(status)


def _stopped(words: Sequence[str]) -> str:
    if words and words[0] in _KEEPS_ANSWERS:
        return f"rubric-eval: stopped; go on with: {typed_command('rubric-eval', words)}"
    return "rubric-eval: stopped"
