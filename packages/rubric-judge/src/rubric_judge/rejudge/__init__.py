"""A stored step judged again: by another judge, or under another rubric."""

from __future__ import annotations

from rubric_judge.rejudge.comparison import Comparison, compare, reward_before
from rubric_judge.rejudge.sources import Matched, StoredResponse, match_tasks, read_stored

__all__ = [
    "Comparison",
    "Matched",
    "StoredResponse",
    "compare",
    "match_tasks",
    "read_stored",
    "reward_before",
]
