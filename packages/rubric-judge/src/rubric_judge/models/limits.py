"""Limits on the calls of a model's endpoint: in flight, a minute, tokens a minute, after a 429.

Every attempt of a call passes a `Limiter`, retries included. The limiter is what knows the state of
the endpoint, so one limiter serves all that call it.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import anyio

from rubric_judge.models import event_loop, failures, model_config

_DECREASE = 0.5
_LONGEST_PAUSE_S = 60.0
"""Longest pause. Quotas are per minute; if a server asks for days, it is tried once a minute."""
_BURST_S = 1.0
"""Seconds' worth of a budget that may be spent at once."""


@dataclass
class LimiterStatistics:
    """Counts of what a limiter has let through since its creation."""

    limit: int | None = None
    """Attempts allowed in flight now; None if they are unbounded."""
    in_flight: int = 0
    peak_in_flight: int = 0
    waiting: int = 0
    attempts: int = 0
    """Attempts let through."""
    rate_limited: int = 0
    """Number of answers that said "too many requests"."""
    decreases: int = 0
    """Number of times that the limit was lowered for them."""
    waited_s: float = 0.0
    """Seconds that attempts have waited here, summed."""
    tokens: int = 0
    """Tokens of the attempts: the true count where it is known, otherwise the estimate."""


class Limiter(Protocol):
    """Decides when an attempt may be sent."""

    def attempt(self, *, tokens: int) -> AbstractAsyncContextManager[None]:
        """Return a context that is entered when the attempt may be sent, in order of arrival.

        Args:
            tokens: an estimate of its tokens, prompt and reply.
        """
        ...

    def rate_limited(self, retry_after_s: float | None) -> None:
        """Report that the endpoint answered "too many requests" to this task's latest attempt.

        Args:
            retry_after_s: how long the endpoint asks to wait, if it says so.
        """
        ...

    def succeeded(self, *, tokens: int | None) -> None:
        """Report that this task's latest attempt was answered.

        Args:
            tokens: the tokens that it took; None if the endpoint does not say.
        """
        ...

    def statistics(self) -> LimiterStatistics:
        """Return counts of what was let through."""
        ...


@runtime_checkable
class Limited(Protocol):
    """A judge whose attempts pass a limiter."""

    @property
    def limiter(self) -> Limiter:
        """The limiter."""
        ...


class _Budget:
    """A budget per minute, spent evenly: no minute holds more calls than `per_minute`.

    Its state is the time at which all that was taken is paid for. It can be corrected once the true
    amount is known; the buckets of libraries cannot give tokens back.
    """

    def __init__(self, per_minute: int | None) -> None:
        self._each_s = (60.0 + _BURST_S) / per_minute if per_minute else 0.0
        self._paid_until_s = 0.0

    def wait_s(self, amount: float, now_s: float) -> float:
        price_s = amount * self._each_s
        return max(0.0, self._paid_until_s + price_s - max(_BURST_S, price_s) - now_s)

    def take(self, amount: float, now_s: float) -> None:
        self._paid_until_s = max(self._paid_until_s, now_s) + amount * self._each_s

    def correct(self, difference: float) -> None:
        self._paid_until_s += difference * self._each_s


class LocalLimiter:
    """A limiter for the tasks of one event loop at a time; two at once are an `EventLoopError`.

    First come, first served: whatever frees a place counts in the first in line and wakes it, so
    that all places that one turn of the event loop frees are taken in that turn.

    Attempts in flight: at most `max_in_flight`. A 429 halves what was in flight, once for all the
    attempts that were under way by then; every answered attempt gives 1/limit back. A Retry-After
    holds back all that has not started, for a minute at most. The tokens of one answer hold it back
    for a minute at most, whatever the server counts.

        limit ← max(1, in flight / 2) after a 429;   limit ← limit + 1/limit after an answer
    """

    def __init__(self, config: model_config.LimitsConfig | None = None) -> None:
        """Start with no attempt in flight; without a configuration only a 429 limits the calls."""
        config = config or model_config.LimitsConfig()
        self._most = float(config.max_in_flight or math.inf)
        self._limit = self._most
        self._adaptive = config.adaptive
        self._most_tokens = min(
            config.tpm or failures.MOST_TOKENS, failures.MOST_TOKENS
        )
        self._requests = _Budget(config.rpm)
        self._tokens = _Budget(config.tpm)
        self._home = event_loop.LoopGuard("limiter")
        self._in_flight = dict[Attempt, None]()
        """Attempts in the order in which they were counted in; some are about to wake."""
        self._line = OrderedDict[Attempt, anyio.Event]()
        """Waiting attempts, and the event that wakes each: it has been counted in, or is first."""
        self._paused_until_s = 0.0
        self._lowered_at = 0
        self._so_far = LimiterStatistics()
        """Running counts; `statistics` fills in the momentary ones."""

    def attempt(self, *, tokens: int) -> Attempt:
        """Return the context of one attempt; see `Limiter.attempt`."""
        return Attempt(self, tokens=tokens)

    def statistics(self) -> LimiterStatistics:
        """Return counts of what was let through."""
        limit = None if math.isinf(self._limit) else int(self._limit)
        in_flight = len(self._in_flight)
        waiting = max(0, self._home.inside - in_flight)
        return replace(self._so_far, limit=limit, in_flight=in_flight, waiting=waiting)

    async def enter(self, attempt: Attempt) -> None:
        """Wait until an attempt may be sent, and count it in.

        Raises:
            EventLoopError: others wait or are in flight on another event loop.
        """
        if self._home.enter(attempt):
            self._in_flight.clear()
            self._line.clear()
        try:
            now_s = time.monotonic()
            if self._line or self._hold_s(attempt.tokens, now_s) > 0:
                await self._wait(attempt)
            else:
                self._count_in(attempt, now_s)
        except BaseException:
            # It may have been counted in and cancelled before it could go.
            if attempt in self._in_flight:
                self._give_back(attempt)
            self.leave(attempt)
            raise
        self._so_far.tokens += attempt.tokens
        self._so_far.attempts += 1
        attempt.number = self._so_far.attempts

    def leave(self, attempt: Attempt) -> None:
        """Count an attempt out, unless its loop has ended and it was forgotten."""
        self._in_flight.pop(attempt, None)
        self._line.pop(attempt, None)
        if self._home.leave(attempt):
            self._admit()

    def rate_limited(
        self, retry_after_s: float | None, *, of: Attempt | None = None
    ) -> None:
        """Lower the limit, unless that happened since the attempt started, and pause.

        Args:
            retry_after_s: as in `Limiter.rate_limited`.
            of: the attempt; by default this task's latest.
        """
        attempt = of or self._current()
        self._so_far.rate_limited += 1
        self._call_back()
        if self._adaptive and (attempt is None or attempt.number > self._lowered_at):
            self._limit = max(1.0, min(self._limit, len(self._in_flight)) * _DECREASE)
            self._lowered_at = self._so_far.attempts
            self._so_far.decreases += 1
        if retry_after_s is not None:
            pause_s = min(retry_after_s, _LONGEST_PAUSE_S)
            self._paused_until_s = max(self._paused_until_s, time.monotonic() + pause_s)

    def succeeded(self, *, tokens: int | None, of: Attempt | None = None) -> None:
        """Raise the limit if it is in use, and replace the estimated tokens by the true count.

        Args:
            tokens: as in `Limiter.succeeded`.
            of: the attempt; by default this task's latest.
        """
        attempt = of or self._current()
        if len(self._in_flight) >= self._limit * _DECREASE:
            self._limit = min(self._most, self._limit + 1 / self._limit)
        if attempt is not None and tokens is not None:
            # An attempt that was let through fits into a minute, and a server may count anything.
            tokens = max(0, min(tokens, max(self._most_tokens, attempt.tokens)))
            difference = tokens - attempt.tokens
            attempt.tokens = tokens  # so that a second report corrects nothing
            self._so_far.tokens += difference
            self._tokens.correct(difference)
        self._admit()

    def _current(self) -> Attempt | None:
        attempt = _latest.get()
        if attempt is None or attempt.limiter is not self:
            return None
        return attempt

    def _hold_s(self, tokens: int, now_s: float) -> float:
        if len(self._in_flight) + 1 > self._limit:
            return math.inf
        return max(
            0.0,
            self._paused_until_s - now_s,
            self._requests.wait_s(1, now_s),
            self._tokens.wait_s(tokens, now_s),
        )

    async def _wait(self, attempt: Attempt) -> None:
        started_s = time.monotonic()
        self._line[attempt] = anyio.Event()
        try:
            while True:
                woken = self._line.get(attempt)
                if woken is None:
                    return
                hold_s = math.inf
                if next(iter(self._line)) is attempt:
                    hold_s = self._hold_s(attempt.tokens, time.monotonic())
                if hold_s == math.inf:  # only the end of another attempt lets it go on
                    await woken.wait()
                    continue
                with anyio.move_on_after(hold_s):
                    await woken.wait()
                self._admit()
        finally:
            self._so_far.waited_s += time.monotonic() - started_s

    def _admit(self) -> None:
        """Count in all of the line that may go, and let the first of the rest watch the time."""
        while self._line:
            first, woken = next(iter(self._line.items()))
            now_s = time.monotonic()
            hold_s = self._hold_s(first.tokens, now_s)
            if hold_s > 0:
                if hold_s < math.inf:
                    self._line[first] = anyio.Event()
                    woken.set()
                return
            del self._line[first]
            self._count_in(first, now_s)
            woken.set()

    def _call_back(self) -> None:
        """Put attempts that were counted in but have not woken yet back at the head of the line."""
        asleep = [attempt for attempt in self._in_flight if not attempt.number]
        for attempt in reversed(asleep):
            del self._in_flight[attempt]
            self._give_back(attempt)
            # The event that was set wakes it all the same.
            self._line[attempt] = anyio.Event()
            self._line.move_to_end(attempt, last=False)

    def _count_in(self, attempt: Attempt, now_s: float) -> None:
        self._in_flight[attempt] = None
        self._so_far.peak_in_flight = max(
            self._so_far.peak_in_flight, len(self._in_flight)
        )
        self._requests.take(1, now_s)
        self._tokens.take(attempt.tokens, now_s)

    def _give_back(self, attempt: Attempt) -> None:
        self._requests.correct(-1)
        self._tokens.correct(-attempt.tokens)


class Attempt(AbstractAsyncContextManager[None]):
    """One attempt, from waiting for its turn to its end."""

    def __init__(self, limiter: LocalLimiter, *, tokens: int) -> None:
        """Note the estimate; use `LocalLimiter.attempt`."""
        self.limiter = limiter
        self.tokens = tokens
        """The estimate, until the true count is known."""
        self.number = 0
        """Number of attempts that the limiter had let through, including this one."""

    async def __aenter__(self) -> None:
        await self.limiter.enter(self)
        _latest.set(self)

    async def __aexit__(self, *_: object) -> None:
        self.limiter.leave(self)


_latest: ContextVar[Attempt | None] = ContextVar("latest_attempt", default=None)
"""The attempt that this task's `rate_limited` and `succeeded` are about."""
