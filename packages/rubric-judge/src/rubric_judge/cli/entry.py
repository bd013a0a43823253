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
from rubric_judge.cli.app import BAD_INPUT, app
from rubric_judge.cli.attack import attack
from rubric_judge.cli.imports import export_rubrics, import_rubrics
from rubric_judge.cli.init import init
from rubric_judge.cli.lint import lint
from rubric_judge.cli.rejudge import rejudge
from rubric_judge.cli.reliability import reliability
from rubric_judge.cli.score import score
from rubric_judge.cli.serve import serve
from rubric_judge.console import Terminated, sigterm_raised, typed_command

_INTERRUPTED: Final = 130

for _command in (attack, init, lint, rejudge, reliability, score, serve):
    app.command(_command)
app.command(import_rubrics, name="import")
app.command(export_rubrics, name="export")


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
    except (RubricError, OSError) as error:
        said = os_problem(error) if isinstance(error, OSError) else error
        print(f"rubric-judge: {said}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    sys.exit(status)


def _stopped(words: Sequence[str]) -> str:
    said = "rubric-judge: stopped; nothing was written"
    if not any(word.partition("=")[0] == "--ledger" for word in words):
        return f"{said}, and without --ledger no judgement is kept"
    again = typed_command("rubric-judge", words)
    return (
        f"{said} but the --ledger, and what that holds is not asked for again; go on with: {again}"
    )
