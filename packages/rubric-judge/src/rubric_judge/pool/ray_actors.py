"""Classes that run inside Ray's actors, and their counterpart in a process that calls them.

Nothing in this module needs a cluster: `ray` itself is imported by `ray_pool`.
"""

from __future__ import annotations

import pickle
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple, cast

import anyio

from rubric_core import Judge, JudgeView
from rubric_judge.config import JudgeSpec
from rubric_judge.judges.capabilities import (
    GroupJudge,
    ReadsExcerpts,
    check,
    close,
    fingerprint,
    wants_warm_call,
)
from rubric_judge.judges.load import load_judge
from rubric_judge.models.limits import Attempt, LimiterStatistics, LocalLimiter
from rubric_judge.models.model_config import LimitsConfig
from rubric_judge.pool.calls import ask_for

PIECE_BYTES = 64 * 1024
"""Longest piece; Ray adds a few hundred bytes to it."""


def pieces_of(value: object) -> list[bytes]:
    """Pickle a value and cut it into pieces.

    Returns:
        The pieces, at least one.
    """
    content = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    starts = range(0, len(content), PIECE_BYTES)
    return [content[start : start + PIECE_BYTES] for start in starts]


def joined(pieces: Iterable[bytes]) -> Any:
    """Return the value that `pieces_of` cut into pieces.

    Args:
        pieces: all of them, in order, from a process of the same pool.
    """
    return pickle.loads(b"".join(pieces))  # noqa: S301  # as Ray unpickles every argument


class Described(NamedTuple):
    """The words of a judge on itself, as an actor reports it."""

    name: str
    fingerprint: str
    warm_call: bool
    reads_excerpts: bool
    """Whether it judges parts of a trace."""
    max_group: int | None
    """Most different responses to a task in one call; None of a judge of single responses."""
    fails_apart: bool


class JudgeActor:
    """One judge with its own client; keys come from the environment of its worker."""

    def __init__(self, spec: JudgeSpec, limiter: SharedLimiter) -> None:
        """Keep the specification; Ray would wrap an exception of a constructor."""
        self._spec = spec
        self._limiter = limiter
        self._pieces: dict[int, dict[int, bytes]] = {}
        self._running: dict[int, anyio.CancelScope] = {}
        self._unwanted = set[int]()
        """Numbers of judgements that were abandoned before they came, or as they ended."""

    async def describe(self) -> Described:
        """Return what the judge says of itself.

        Raises:
            JudgeSetupError, ConfigError, PluginError: as `load_judge`.
        """
        judge = self._judge
        return Described(
            judge.name,
            fingerprint(judge),
            wants_warm_call(judge),
            isinstance(judge, ReadsExcerpts),
            judge.max_group if isinstance(judge, GroupJudge) else None,
            getattr(judge, "fails_apart", False),
        )

    async def check(self) -> None:
        """Check that the endpoint is available.

        Raises:
            JudgeSetupError: it is not available.
        """
        await check(self._judge)

    async def take(self, number: int, place: int, piece: bytes) -> None:
        """Keep a piece of what is judged that is too long for one call.

        Args:
            number: the judgement; `judge` gets it with the last piece, once the others are here.
            place: the piece's position, from 0; pieces come in any order.
            piece: a piece of `pieces_of`.
        """
        if number not in self._unwanted:
            self._pieces.setdefault(number, {})[place] = piece

    async def judge(self, number: int, piece: bytes) -> tuple[bytes, int]:
        """Judge one response, or a group of them in one call.

        Args:
            number: number of the judgement, in the process that asks.
            piece: the last piece of the views.

        Returns:
            The first piece of the results, and the number of further pieces for `give`; an empty
            piece if nobody waits for the result any more.
        """
        earlier = self._pieces.pop(number, {})
        if number in self._unwanted:
            self._unwanted.discard(number)
            return b"", 0
        pieces = [earlier[place] for place in sorted(earlier)]
        views: tuple[JudgeView, ...] = joined([*pieces, piece])
        first = b""
        rest = list[bytes]()
        try:
            with anyio.CancelScope() as self._running[number]:
                first, *rest = pieces_of(await ask_for(self._judge, views))
        finally:
            del self._running[number]
        if rest:
            self._pieces[number] = dict(enumerate(rest))
        return first, len(rest)

    async def give(self, number: int, place: int) -> bytes:
        """Return a further piece of a result, counted from 0; each can be fetched once."""
        piece = self._pieces[number].pop(place)
        if not self._pieces[number]:
            del self._pieces[number]
        return piece

    async def abandon(self, number: int) -> None:
        """Cancel a judgement that nobody waits for any more.

        Ray's own cancellation would also cancel the attempt's last message to the limiter, and its
        place there would never be given back.
        """
        self._pieces.pop(number, None)
        if number in self._running:
            self._running[number].cancel()
        else:
            self._unwanted.add(number)

    async def aclose(self) -> None:
        """Close the judge's connections."""
        await close(self._judge)

    @cached_property
    def _judge(self) -> Judge:
        return load_judge(self._spec, limiter=self._limiter)


class LimiterActor:
    """One limiter for the attempts of all actors.

    An attempt is identified by its owner, which is one judge's actor, and a number: when an actor
    dies, its attempts are given back together.
    """

    def __init__(self, config: LimitsConfig) -> None:
        """Start with no attempt in flight."""
        self._limiter = LocalLimiter(config)
        self._entries: dict[tuple[str, int], tuple[Attempt, anyio.CancelScope]] = {}
        """Each attempt, and the scope in which it waits."""
        self._gone = set[str]()

    async def enter(self, owner: str, number: int, tokens: int) -> None:
        """Wait until an attempt may be sent."""
        if owner in self._gone:  # asked before it died, and would never be counted out
            return
        attempt = self._limiter.attempt(tokens=tokens)
        scope = anyio.CancelScope()
        entry = self._entries[owner, number] = attempt, scope
        try:
            with scope:
                await attempt.__aenter__()
        except BaseException:
            self._entries.pop((owner, number), None)
            raise
        if attempt.number and self._entries.get((owner, number)) is not entry:
            self._limiter.leave(attempt)  # cancelled just as its turn came

    async def leave(self, owner: str, number: int) -> None:
        """Count an attempt out, or give up its place in the line."""
        entry = self._entries.pop((owner, number), None)
        if entry is not None:
            self._leave(*entry)

    async def forget(self, owner: str) -> None:
        """Count out all attempts of an actor that has died."""
        self._gone.add(owner)
        for key in [key for key in self._entries if key[0] == owner]:
            self._leave(*self._entries.pop(key))

    async def rate_limited(
        self, owner: str, number: int, retry_after_s: float | None
    ) -> None:
        """Lower the limit; see `Limiter.rate_limited`."""
        self._limiter.rate_limited(retry_after_s, of=self._attempt(owner, number))

    async def succeeded(self, owner: str, number: int, tokens: int | None) -> None:
        """Raise the limit; see `Limiter.succeeded`."""
        self._limiter.succeeded(tokens=tokens, of=self._attempt(owner, number))

    async def statistics(self) -> LimiterStatistics:
        """Return counts of what was let through."""
        return self._limiter.statistics()

    def _attempt(self, owner: str, number: int) -> Attempt | None:
        entry = self._entries.get((owner, number))
        return entry[0] if entry else None

    def _leave(self, attempt: Attempt, waiting: anyio.CancelScope) -> None:
        if attempt.number:  # it was let through
            self._limiter.leave(attempt)
        else:
            waiting.cancel()


class SharedLimiter:
    """A `Limiter` that forwards to the limiter's actor; it can be sent to other processes."""

    def __init__(self, actor: Any, *, owner: str | Callable[[], str] = "") -> None:
        """Speak for one owner of attempts, or for whichever is working at the time.

        Args:
            actor: handle of a `LimiterActor`.
            owner: id of what ends as a whole, such as the judge's actor, or a function of a module
                that returns whose attempt is being made; "" for a process without attempts.
        """
        self._actor = actor
        self._owner = owner
        self._numbers = count(1)
        self._final: LimiterStatistics | None = None

    def of(self, owner: str | Callable[[], str]) -> SharedLimiter:
        """Return the same limiter for another owner."""
        return SharedLimiter(self._actor, owner=owner)

    def close(self) -> None:
        """Keep the statistics before the actor ends."""
        self._final = self.statistics()

    def forget(self, owner: str) -> None:
        """Count out all attempts of an owner that has died."""
        self._actor.forget.remote(owner)

    @asynccontextmanager
    async def attempt(self, *, tokens: int) -> AsyncGenerator[None]:
        """Return the context of one attempt; see `Limiter.attempt`."""
        owner = self._owner_now()
        number = next(self._numbers)
        _latest.set(number)
        try:
            await self._actor.enter.remote(owner, number, tokens)
            yield
        finally:  # also after a cancellation in `enter`: the place must not be kept
            self._actor.leave.remote(owner, number)

    def rate_limited(self, retry_after_s: float | None) -> None:
        """Lower the limit for all; see `Limiter.rate_limited`."""
        self._actor.rate_limited.remote(self._owner_now(), _latest.get(), retry_after_s)

    def succeeded(self, *, tokens: int | None) -> None:
        """Raise the limit for all; see `Limiter.succeeded`."""
        self._actor.succeeded.remote(self._owner_now(), _latest.get(), tokens)

    def statistics(self) -> LimiterStatistics:
        """Return counts of what was let through, for all owners."""
        if self._final is not None:
            return self._final
        import ray

        return cast("LimiterStatistics", ray.get(self._actor.statistics.remote()))

    def _owner_now(self) -> str:
        return self._owner() if callable(self._owner) else self._owner


_latest: ContextVar[int] = ContextVar("latest_attempt_number", default=0)
