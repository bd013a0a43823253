"""`rubric-synth collect | run | stats | show | check | questions`: parse, call, print; no logic."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_INTERRUPTED = 130
_TERMINATED = 143


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an expected error is one message and exit status 1.

    Args:
        arguments: What stands after the program's name; the process's own if None.
    """
    try:
        # Loaded here: whoever interrupts it meanwhile is not shown a stack either.
        from rubric_judge.console import sigterm_raised  # noqa: PLC0415
        from rubric_synth.cli.commands import run_command_line  # noqa: PLC0415

        with sigterm_raised():
            run_command_line(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("rubric-synth: interrupted\n")
        sys.exit(_INTERRUPTED)
    except SystemExit as error:
        if error.code == _TERMINATED:
            sys.stderr.write("rubric-synth: terminated\n")
        raise
