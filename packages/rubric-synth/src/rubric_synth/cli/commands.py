"""All commands, registered with the application."""

from rubric_synth.cli import describing, exporting, planning, running
from rubric_synth.cli.console import app

__all__ = ["app", "describing", "exporting", "planning", "running"]
