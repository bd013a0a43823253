"""Whether a dataset folder is what it says: it parses, adds up, leaks nothing, splits cleanly."""

from __future__ import annotations

from rubric_synth.check.folder import CheckReport, check_dataset

__all__ = ["CheckReport", "check_dataset"]
