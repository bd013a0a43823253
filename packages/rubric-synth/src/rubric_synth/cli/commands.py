"""All commands, registered with the application."""

from __future__ import annotations

from rubric_synth.cli import collecting, describing, running, showing
from rubric_synth.cli.app import app

__all__ = ["app", "collecting", "describing", "running", "showing"]
