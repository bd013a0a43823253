"""The command `rubric-eval`: parse, call, print; no logic."""

from __future__ import annotations

from rubric_eval.cli.app import app
from rubric_eval.cli.entry import main

__all__ = ["app", "main"]
