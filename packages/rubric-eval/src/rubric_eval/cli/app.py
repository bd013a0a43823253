"""The application, its progress, and what several of its commands say."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rubric_judge.console import Progress
from rubric_judge.console.command import command_app, console

if TYPE_CHECKING:
    from collections.abc import Sequence


app = command_app(
    "rubric-eval",
    summary="Evaluate policies on held-out rubrics and on benchmarks, and compare them.",
)


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
