"""How far a run is, for whoever waits for it."""

from __future__ import annotations

import time
from collections import deque
from typing import Final, NamedTuple

_WINDOW_S: Final = 30.0


class Progress(NamedTuple):
    """One look at a run."""

    done: int
    """Documents with an outcome, those of earlier runs included."""
    total: int
    """Documents to be done."""
    left_out: int
    """Documents of this run without a task."""
    calls_in_flight: int
    """Calls under way now."""
    cost_usd: float
    """Of all calls with a known price, those of earlier runs included."""
    documents_per_s: float
    """Over the last half minute."""

    @property
    def eta_s(self) -> float | None:
        """Seconds that the rest will take at this rate; None where there is none yet."""
        if not self.documents_per_s:
            return None
        return (self.total - self.done) / self.documents_per_s


class Rate:
    """Documents a second over the last half minute."""

    def __init__(self, done: int) -> None:
        """Start the clock.

        Args:
            done: Documents that were done before.
        """
        self._seen = deque([(time.monotonic(), done)])

    def of(self, done: int) -> float:
        """Return the rate, given how many are done now."""
        now_s = time.monotonic()
        self._seen.append((now_s, done))
        while now_s - self._seen[0][0] > _WINDOW_S:
            self._seen.popleft()
        since_s, before = self._seen[0]
        return (done - before) / (now_s - since_s) if now_s > since_s else 0.0
