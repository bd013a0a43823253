"""The command `rubric-judge`: parse, call, print; no logic."""

from __future__ import annotations

from rubric_judge.cli.app import app
from rubric_judge.cli.entry import main

__all__ = ["app", "main"]
