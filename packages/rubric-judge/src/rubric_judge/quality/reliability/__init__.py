"""Reliability of judges: their noise, their agreement with others, and the cost of both.

Needs the extra `reliability`.
"""

from rubric_core.errors import needing_extra

with needing_extra("rubric-judge", "reliability", by="measuring a judge"):
    from rubric_judge.quality.reliability.measure import measure
    from rubric_judge.quality.reliability.ratings import (
        Rating,
        Ratings,
        collect,
        read_ratings,
    )
    from rubric_judge.quality.reliability.report import ReliabilityReport

__all__ = [
    "Rating",
    "Ratings",
    "ReliabilityReport",
    "collect",
    "measure",
    "read_ratings",
]
