"""The entry point, and the list of commands; each is imported when it is called."""

from __future__ import annotations

import sys

from rubric_core import RubricError
from rubric_judge.cli.app import BAD_INPUT, app

__all__ = ["app", "main"]

_COMMANDS = {
    "score": "Score responses and write one judgement for each.",
}
for _name, _help in _COMMANDS.items():
    app.command(f"rubric_judge.cli.{_name}:{_name}", name=_name, help=_help)


def main() -> None:
    """Run the command; known errors end with one line on stderr and status 2."""
    try:
        status = app(sys.argv[1:], result_action="return_value")
    except (RubricError, OSError) as error:
        print(f"rubric-judge: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    sys.exit(status)
