"""The command line itself; the commands register with it."""

from __future__ import annotations

from cyclopts import App

app = App(name="rubric-synth", help="From technical documents to tasks with rubrics.")
