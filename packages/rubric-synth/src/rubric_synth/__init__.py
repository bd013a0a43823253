"""From technical documents to tasks with rubrics."""

from __future__ import annotations

from rubric_core.lazy import attach

# Loaded at once, for a folder has the same name and would take its place.
from rubric_synth.collect.collection import collect as collect

__version__ = "0.1.0"

__getattr__, __all__ = attach(__name__, __file__)
