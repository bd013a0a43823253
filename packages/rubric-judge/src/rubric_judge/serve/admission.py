"""Who is let in: a bound on what waits, and none at all while the service ends."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager

from rubric_judge.serve.refusal import RefusedError

_LONGEST_RETRY_S = 60
_LATENCY_WEIGHT = 0.1
"""Of the newest judgement in the running mean."""


class Admission:
    """Counts the responses that wait or are being judged."""

    def __init__(self, *, max_queued: int, in_flight: int) -> None:
        """Start empty.

        Args:
            max_queued: most responses at once.
            in_flight: how many of them are judged at the same time.
        """
        self.queued = 0
        self.draining = False
        self._max_queued = max_queued
        self._in_flight = in_flight
        self._latency_s = 1.0

    @contextmanager
    def admit(self, count: int) -> Generator[None]:
        """Hold a place for each of `count` responses.

        Raises:
            RefusedError: the service is ending, or the queue has no such place.
        """
        if self.draining:
            raise RefusedError(
                "draining",
                "the service is ending: ask another one, or again when it is back",
                retry_after_s=self.retry_after_s(),
            )
        # A request that fits into an empty queue is never turned away from one.
        if self.queued and self.queued + count > self._max_queued:
            raise RefusedError(
                "busy",
                f"{self.queued} responses wait, and {count} more are above the bound of "
                f"{self._max_queued}: ask again after Retry-After seconds, or send fewer",
                retry_after_s=self.retry_after_s(),
            )
        self.queued += count
        try:
            yield
        finally:
            self.queued -= count

    def judged(self, *, latency_s: float | None) -> None:
        """Take note of how long a judgement took."""
        if latency_s is not None:
            self._latency_s += _LATENCY_WEIGHT * (latency_s - self._latency_s)

    def retry_after_s(self) -> int:
        """About how long what waits now will take."""
        return math.ceil(
            min(max(self.queued * self._latency_s / self._in_flight, 1), _LONGEST_RETRY_S)
        )
