"""The command line itself; the commands register with it."""

from __future__ import annotations

from rubric_judge.console.command import command_app

app = command_app("rubric-synth", summary="From technical documents to tasks with rubrics.")
