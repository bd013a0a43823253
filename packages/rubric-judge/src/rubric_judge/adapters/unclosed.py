"""The log line on a policy whose thoughts do not end."""

import threading
from collections import deque
from collections.abc import Sequence

from rubric_core import JudgeView, Thought
from rubric_judge import events

_RECENT = 8
"""Number of responses that are counted together where a stack sends them one at a time."""


class UnclosedThoughts:
    """Log that reports once if more than half of a batch are thoughts that do not end."""

    def __init__(self) -> None:
        """Begin without a response."""
        self._lock = threading.Lock()
        self._recent = deque[bool](maxlen=_RECENT)
        self._is_told = False

    def seen(self, views: Sequence[JudgeView]) -> None:
        """Count a batch, or the last responses where a batch is a single one, and log."""
        unclosed = [view.thought is Thought.UNCLOSED for view in views]
        with self._lock:
            if self._is_told:
                return
            self._recent.extend(unclosed)
            if len(unclosed) == 1:
                unclosed = list(self._recent) if len(self._recent) == _RECENT else []
            is_new = 2 * sum(unclosed) > len(unclosed)
            self._is_told = is_new
        if is_new:
            events.thoughts_unclosed(unclosed=sum(unclosed), of=len(unclosed))
