"""Outages of a judge, breaches of its contract, and when it judges again.

Each is logged once. A judge that breaks its contract for good ends the training, since a stack
sees rewards of 0, and goes on.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rubric_core import JudgeResult, Outcome
from rubric_judge import events
from rubric_judge.errors import JudgeContractError

_FIRST_CALM = 8
"""Judgements in a row that end the first outage; each later one needs twice as many, so that a
judge that fails now and then is not reported without end."""
WINDOW = 512
"""Number of latest judgements over which the share of invalid ones is taken."""


class Outage:
    """Log of each outage's reasons, once until the judge judges again; threads may share it."""

    def __init__(self, *, max_invalid_frac: float = 1.0) -> None:
        """Begin without an outage.

        Args:
            max_invalid_frac: largest share of invalid ones among the last `WINDOW` judgements.
        """
        self._lock = threading.Lock()
        self._episodes = {Outcome.UNAVAILABLE: _Episode(), Outcome.INVALID: _Episode()}
        self._latest: deque[bool] = deque(maxlen=WINDOW)
        self._most_invalid = max_invalid_frac

    def seen(self, results: Sequence[JudgeResult], *, on_unavailable: str) -> None:
        """Log the reasons of a batch that are new, or that an outage has ended.

        Raises:
            JudgeContractError: too many of the last judgements are invalid.
        """
        with self._lock:
            changes = {
                kind: episode.took(results, kind)
                for kind, episode in self._episodes.items()
            }
            self._latest.extend(
                result.outcome is Outcome.INVALID
                for result in results
                if result.outcome is not Outcome.UNAVAILABLE
            )
            invalid = sum(self._latest)
            is_broken = (
                len(self._latest) == WINDOW and invalid > self._most_invalid * WINDOW
            )
        for reason, (count, detail) in changes[Outcome.UNAVAILABLE].new.items():
            events.judgements_missing(
                lost=count,
                of=len(results),
                reason=reason,
                detail=detail,
                policy=on_unavailable,
            )
        for reason, (count, detail) in changes[Outcome.INVALID].new.items():
            events.judgements_invalid(
                lost=count, of=len(results), reason=reason, detail=detail
            )
        ends: Mapping[Outcome, Callable[..., None]] = {
            Outcome.UNAVAILABLE: events.judgements_back,
            Outcome.INVALID: events.judgements_valid,
        }
        for kind, end in ends.items():
            missing = changes[kind].ended_after
            if missing is not None:
                end(missing=missing)
        if is_broken:
            limit = f"{self._most_invalid:g}"
            raise JudgeContractError(
                f"{invalid} of the last {WINDOW} judgements are invalid, which is above "
                f"max_invalid_frac={limit}: see the reasons in the log "
                "(judge.reward.invalid), mend the judge, or set a larger max_invalid_frac"
            )


class _Change(NamedTuple):
    """New reasons in a batch, and the end of an episode."""

    new: Mapping[str, tuple[int, str]]
    """Number of results and detail of the first, by new reason."""
    ended_after: int | None
    """Number of results in the episode that ends here."""


class _Episode:
    """The results of one outcome, from the first to a calm."""

    def __init__(self) -> None:
        self._reported: set[str] = set()
        self._missing = self._in_a_row = 0
        self._calm = _FIRST_CALM

    def took(self, results: Sequence[JudgeResult], kind: Outcome) -> _Change:
        """Record a batch, and return the change."""
        lost = [result for result in results if result.outcome is kind]
        details = {str(result.reason): result.detail for result in reversed(lost)}
        new = details.keys() - self._reported
        self._reported |= new
        self._missing += len(lost)
        self._in_a_row = 0 if lost else self._in_a_row + len(results)
        ended_after = None
        if self._reported and self._in_a_row >= self._calm:
            ended_after = self._missing
            self._reported = set()
            self._missing = 0
            self._calm = 2 * self._calm
        counts = {
            reason: (
                sum(str(result.reason) == reason for result in lost),
                details[reason],
            )
            for reason in details
            if reason in new
        }
        return _Change(counts, ended_after)
