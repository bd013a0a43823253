"""The command line's own furniture: the application and its exit statuses."""

from __future__ import annotations

from typing import Final

from cyclopts import App

__all__ = ["BAD_INPUT", "FAILED", "app"]

FAILED: Final = 1
"""Exit status of a command that ran and found what it must not."""
BAD_INPUT: Final = 2
"""Exit status for input that cannot be used."""

app = App(
    name="rubric-eval",
    help="Evaluate policies on held-out rubrics and on benchmarks, and compare them.",
    suppress_keyboard_interrupt=False,  # `main` says what was kept
)
