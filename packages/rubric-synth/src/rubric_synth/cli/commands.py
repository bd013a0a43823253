"""All commands, registered with the application."""

from rubric_synth.cli import describing, planning, running
from rubric_synth.cli.console import app

__all__ = ["app", "describing", "planning", "running"]
