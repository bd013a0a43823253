"""How far a judge may be trusted: its noise, its agreement with others, and what both cost.

Needs the extra `reliability`.
"""

from __future__ import annotations

from importlib import import_module

from rubric_core import MissingExtraError
from rubric_core.errors import install_command

try:
    for _library in ("krippendorff", "matplotlib", "scipy", "sklearn"):
        import_module(_library)
except ImportError as error:
    raise MissingExtraError(
        f"{error.name!r} is not installed: {install_command('rubric-judge', 'reliability')}"
    ) from None

from rubric_judge.reliability.measure import measure
from rubric_judge.reliability.ratings import Rating, Ratings, collect, read_ratings
from rubric_judge.reliability.report import ReliabilityReport

__all__ = ["Rating", "Ratings", "ReliabilityReport", "collect", "measure", "read_ratings"]
