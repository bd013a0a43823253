"""When a judge stops judging, and when it judges again: a log line for each."""

import threading
from collections.abc import Sequence
from typing import Final

from rubric_core import JudgeResult, Outcome
from rubric_judge import events

_FIRST_CALM: Final = 8
"""Judgements in a row that end the first outage; each later one needs twice as many, so that a
judge that fails now and then is not told of without end."""


class Outage:
    """Tells of each reason once, until the judge judges again; threads may share it."""

    def __init__(self) -> None:
        """Begin with a judge that judges."""
        self._lock = threading.Lock()
        self._told: set[str] = set()
        self._missing = self._in_a_row = 0
        self._calm = _FIRST_CALM

    def seen(self, results: Sequence[JudgeResult], *, on_unavailable: str) -> None:
        """Log the reasons of a batch that are new, or that an outage has ended."""
        lost = [one for one in results if one.outcome is Outcome.UNAVAILABLE]
        with self._lock:
            new = {str(one.reason): one.detail for one in reversed(lost)}
            new = {reason: new[reason] for reason in new.keys() - self._told}
            self._told |= new.keys()
            missing = self._missing = self._missing + len(lost)
            self._in_a_row = 0 if lost else self._in_a_row + len(results)
            has_ended = bool(self._told) and self._in_a_row >= self._calm
            if has_ended:
                self._told, self._missing, self._calm = set(), 0, 2 * self._calm
        for reason, detail in new.items():
            count = sum(str(one.reason) == reason for one in lost)
            events.judgements_missing(
                lost=count, of=len(results), reason=reason, detail=detail, policy=on_unavailable
            )
        if has_ended:
            events.judgements_back(missing=missing)
