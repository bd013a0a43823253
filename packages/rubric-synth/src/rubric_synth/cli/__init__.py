"""`rubric-synth`: its subcommands, which parse, call, print; no logic."""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an expected error is one message and exit status 2.

    Args:
        arguments: What stands after the program's name; the process's own if None.
    """
    try:
        # Loaded here: an interruption meanwhile shows no stack either.
        from rubric_judge.ui.console.command import configure_log, run_command
        from rubric_synth.cli.commands import app
        from rubric_synth.errors import CallsStoppedError, EngineError

        configure_log(verbose=False)
    except KeyboardInterrupt:
        sys.stderr.write("rubric-synth: stopped\n")
        sys.exit(130)
    run_command(
        app,
        arguments,
        stopped=lambda _: "rubric-synth: stopped",
        broken_off=(CallsStoppedError, EngineError),
    )
