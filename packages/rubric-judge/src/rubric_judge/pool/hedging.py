"""When a call is asked a second time because the first takes long."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field

_LATENCIES_KEPT = 1024
_FEWEST_LATENCIES = 16
_MEDIAN_EVERY = 32
_SAVED_UP_CALLS = 1024
"""Calls whose share may be saved up: an endpoint that turns slow is not met with more at once."""
_SHORTEST_LOOK_S = 0.02
_LONGEST_LOOK_S = 1.0


class Hedging(BaseModel):
    """A second call for a straggler: the first usable answer counts, the other is cancelled.

    An invalid answer is an answer: a quick one of the second call ends the first, which might have
    scored. A call that takes no cancellation, as that of a judge which waits in a thread, is waited
    for to its end, and so is the result.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    after_medians: float = Field(default=6, gt=1)
    """Ask again when a call has taken this many times the running median."""

    max_extra_frac: float = Field(default=0.05, gt=0, le=1)
    """Most second calls, as a share of the first calls, at every moment."""


class Hedger:
    """Says which calls are stragglers, and how many may be asked again.

    late after k · median;   second calls ≤ f · first calls, at every moment
    """

    def __init__(self, hedging: Hedging) -> None:
        """Start without a median: nothing is late before 16 calls have been answered."""
        self._hedging = hedging
        self._latencies_s = deque[float](maxlen=_LATENCIES_KEPT)
        self._fresh = 0
        self._sorted_s: list[float] = []
        self._credit = 0.0

    def started(self) -> None:
        """Count a first call."""
        most = max(1.0, self._hedging.max_extra_frac * _SAVED_UP_CALLS)
        self._credit = min(most, self._credit + self._hedging.max_extra_frac)

    def answered(self, latency_s: float) -> None:
        """Take the seconds of a call that brought an answer."""
        self._latencies_s.append(latency_s)
        self._fresh += 1

    def spend(self) -> bool:
        """Take the right to one second call, if there is one."""
        # The sum of many small shares may fall short of 1 by rounding alone.
        if self._credit < 1 - 1e-9:
            return False
        self._credit -= 1
        return True

    def give_back(self) -> None:
        """Take back a right that was not used."""
        self._credit += 1

    def late_after_s(self, running_s: Iterable[float]) -> float | None:
        """Return after how many seconds a call is a straggler.

        Args:
            running_s: how long each call under way has taken so far. Those beyond the median of the
                answered ones count as longer: at the start only the quick ones have been answered.

        Returns:
            Seconds; None while too little is known.
        """
        if len(self._latencies_s) < _FEWEST_LATENCIES:
            return None
        if not self._sorted_s or self._fresh >= _MEDIAN_EVERY:
            self._sorted_s = sorted(self._latencies_s)
            self._fresh = 0
        known_s = self._sorted_s
        median_s = statistics.median(known_s)
        longer = sum(seconds > median_s for seconds in running_s)
        middle = (len(known_s) + longer) // 2
        return self._hedging.after_medians * known_s[middle] if middle < len(known_s) else None

    def look_again_s(self) -> float:
        """Return how long to wait before the next look at the calls under way."""
        # A straggler is found at most this late; looking is cheap beside a call.
        median_s = self._sorted_s[len(self._sorted_s) // 2] if self._sorted_s else 0.0
        return min(_LONGEST_LOOK_S, max(_SHORTEST_LOOK_S, median_s / 4))
