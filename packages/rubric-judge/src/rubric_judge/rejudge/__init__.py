"""A stored step judged again: by another judge, or under another rubric."""

from __future__ import annotations

from rubric_judge.rejudge.comparison import Comparison, compare, reward_before
from rubric_judge.rejudge.matching import Matched, match_tasks
from rubric_judge.rejudge.sources import StoredResponse, read_stored

__all__ = [
    "Comparison",
    "Matched",
    "StoredResponse",
    "compare",
    "match_tasks",
    "read_stored",
    "reward_before",
]
