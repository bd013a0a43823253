"""How fast something goes, lately."""

from __future__ import annotations

from collections import deque
from typing import Final

_CHANGES_KEPT: Final = 30
_CLOSEST_S: Final = 1.0
"""Changes nearer to each other than this are one: the window is half a minute at least."""


class Pace:
    """A rate over the last 30 changes that were seen, each a second or more after the one before.

    That is half a minute of what is quick, and 30 steps of what is slow.
    """

    def __init__(self, done: float, *, now_s: float) -> None:
        """Begin to look.

        Args:
            done: what was done before.
            now_s: of a clock that never goes back.
        """
        self._seen = deque([(now_s, done)], maxlen=_CHANGES_KEPT + 1)

    def rate(self, done: float, *, now_s: float) -> float | None:
        """Return how much is done in a second, given how much is done now; None if unknown."""
        last_s, last = self._seen[-1]
        if done < last:  # begun again
            self._seen.clear()
        if done != last and (done < last or now_s - last_s >= _CLOSEST_S):
            self._seen.append((now_s, done))
        first_s, first = self._seen[0]
        return (done - first) / (now_s - first_s) if done > first and now_s > first_s else None
