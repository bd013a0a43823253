"""The command `rubric-eval`: parse, call, print; no logic.

The module of a command imports nothing heavy before it is called.
"""

from collections.abc import Sequence

from rubric_eval.cli.app import app
from rubric_eval.cli.evaluate import (
    heldout,
    lm_eval,
    rejudge,
    tasks_path,
    transfer,
    validate,
)
from rubric_eval.cli.finished import compare, hacking, report
from rubric_eval.errors import HeldoutAbortError, TransferAbortError
from rubric_judge.ui.console.command import run_command, typed_command

__all__ = ["app", "main"]

_KEEPS_ANSWERS = ("heldout", "rejudge", "transfer")
"""Commands that find again what they were answered before they were stopped."""

for _one in (
    compare,
    hacking,
    heldout,
    lm_eval,
    rejudge,
    report,
    tasks_path,
    transfer,
    validate,
):
    app.command(_one)


def main() -> None:
    """Run the command; known errors end with one message on stderr, and status 2 or 1."""
    run_command(
        app, stopped=_stopped, broken_off=(HeldoutAbortError, TransferAbortError)
    )


def _stopped(words: Sequence[str]) -> str:
    if words and words[0] in _KEEPS_ANSWERS:
        return (
            f"rubric-eval: stopped; go on with: {typed_command('rubric-eval', words)}"
        )
    return "rubric-eval: stopped"
