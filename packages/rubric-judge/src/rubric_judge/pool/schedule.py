"""What each call of a step is to judge, in which order calls start, and where each goes."""

import statistics
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio
from pydantic import BaseModel, ConfigDict, Field

from rubric_core import Judge, JudgeResult, JudgeView, Usage
from rubric_judge.capabilities import GroupJudge, check_group, group_identity
from rubric_judge.pool.replicas import Replica, Replicas

Results: TypeAlias = tuple[JudgeResult, ...]
"""What a call brings: one result for each judgement that is wanted of it."""


@dataclass(slots=True, eq=False)
class Hedge:
    """The second call for a straggler."""

    replica: Replica
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    results: Results | None = None
    """None where it was cancelled."""


@dataclass(slots=True, eq=False)
class Wanted:
    """One judgement that is wanted."""

    positions: list[int]
    """Where its result belongs; several where the same is asked for more than once."""
    view: JudgeView
    key: str = ""
    """Its key in the ledger; empty without one."""


@dataclass(slots=True, eq=False)
class Call:
    """One call of a judge: for one judgement, or for all of a group where a `GroupJudge` is."""

    wanted: Sequence[Wanted]
    """At least one, all of one task."""
    replica: Replica
    """Where it is sent; any, before it is."""
    moves: int = 0
    """How often it was sent elsewhere because a replica was not reached."""
    spent: int = 0
    """Attempts beside those of the result: of replicas not reached, of the call that lost."""
    usage: Usage | None = None
    """What those consumed, where it is known."""
    begun_s: float = 0.0
    """When it was first sent; 0 before."""
    started_s: float = 0.0
    """When it was last sent."""
    answer: Results | None = None
    """The first usable answer."""
    first: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    second: Hedge | None = None

    @property
    def task_id(self) -> str:
        """The task of all that is wanted."""
        return self.wanted[0].view.task_id

    def add_spent(self, results: Results | None) -> None:
        """Count what was done for nothing; None of a call that was cancelled."""
        self.spent += (
            1 if results is None else sum(result.attempts for result in results)
        )
        for result in results or ():
            if result.usage is not None:
                self.usage = result.usage.plus(self.usage)

    def with_spent(self, results: Results) -> Results:
        """Return the results with all that it took; what was for nothing is with the first."""
        if not self.spent:
            return results
        first, *others = results
        usage = self.usage if first.usage is None else first.usage.plus(self.usage)
        return first.with_call(
            attempts=first.attempts + self.spent, usage=usage
        ), *others


Key: TypeAlias = Callable[[JudgeView, str], str]
"""From a view, and what identifies the group that it is judged in, to the ledger's key."""


def wanted_of(
    views: Sequence[JudgeView], judge: Judge, *, key: Key | None, among: Sequence[int]
) -> list[list[Wanted]]:
    """Part views into calls.

    Args:
        views: in any order.
        among: the positions of those that are to be judged.
        judge: for a `GroupJudge` the views of a task are one call, and a response that stands in
            it twice is shown once.
        key: of the ledger; without one, a judge of single responses judges each view.

    Returns:
        What is wanted of each call. With a key, what is the same twice is wanted once.

    Raises:
        JudgeSetupError: a group is larger than the judge takes.
    """
    if isinstance(judge, GroupJudge):
        return _groups(views, judge, key=key, among=among)
    if key is None:
        return [[Wanted([position], views[position])] for position in among]
    by_key: dict[str, Wanted] = {}
    for position in among:
        view = views[position]
        name = key(view, "")
        by_key.setdefault(name, Wanted([], view, name)).positions.append(position)
    return [[one] for one in by_key.values()]


def _groups(
    views: Sequence[JudgeView],
    judge: GroupJudge,
    *,
    key: Key | None,
    among: Sequence[int],
) -> list[list[Wanted]]:
    groups: dict[object, dict[str, Wanted]] = {}
    for position in among:
        view = views[position]
        group = groups.setdefault(
            (view.task_id, view.question, view.grounding, view.rubric), {}
        )
        group.setdefault(view.response, Wanted([], view)).positions.append(position)
    for group in groups.values():
        check_group(judge, [one.view for one in group.values()])
        if key is not None:
            identity = group_identity(group)
            for one in group.values():
                one.key = key(one.view, identity)
    return [list(group.values()) for group in groups.values()]


@dataclass(slots=True, eq=False)
class _Group:
    id: str
    calls: deque[Call]
    is_warming: bool = False
    """Its first call is out alone; the others wait for its end."""


class Schedule:
    """Hands out the calls of a step, group by group.

    The calls for one task start next to each other and go to one replica. A group begins when all
    calls of those before it have started, or wait for something.
    """

    def __init__(
        self, calls: Sequence[Call], replicas: Replicas, *, warm: bool
    ) -> None:
        """Group the calls by task; groups come in the order of their first calls.

        Args:
            calls: the calls of a step.
            replicas: the judges.
            warm: whether a group's first call goes alone.
        """
        groups: dict[str, _Group] = {}
        for call in calls:
            group = groups.setdefault(call.task_id, _Group(call.task_id, deque()))
            group.calls.append(call)
        self.unsettled = len(calls)
        self._replicas = replicas
        self._warm = warm
        self._waiting = groups
        self._begun: dict[str, _Group] = {}

    def next(self) -> Call | None:
        """Return the next call that can start, with its replica; None where none can now."""
        if not self._replicas.has_room:
            return None
        for group in self._begun.values():
            if (
                not group.is_warming
                and (replica := self._replicas.of(group.id)) is not None
            ):
                return self._take(group, replica)
        for group in self._waiting.values():
            if (replica := self._replicas.of(group.id, begins=True)) is not None:
                self._begun[group.id] = self._waiting.pop(group.id)
                group.is_warming = self._warm and len(group.calls) > 1
                return self._take(group, replica)
        return None

    def settled(self, call: Call) -> None:
        """Count a call off: it has its result, and the others of its group may go."""
        if (group := self._begun.get(call.task_id)) is not None:
            group.is_warming = False
        self.unsettled -= 1

    def again(self, call: Call) -> None:
        """Put back a call that is to be sent elsewhere, before the others of its group."""
        group_id = call.task_id
        group = self._begun.setdefault(group_id, _Group(group_id, deque()))
        group.is_warming = False
        group.calls.appendleft(call)

    def _take(self, group: _Group, replica: Replica) -> Call:
        call = group.calls.popleft()
        if not group.calls:
            del self._begun[group.id]
        call.replica = replica
        return call


_LATENCIES_KEPT = 1024
_FEWEST_LATENCIES = 16
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
        self._median_s = 0.0
        self._credit = 0.0

    def started(self) -> None:
        """Count a first call."""
        most = max(1.0, self._hedging.max_extra_frac * _SAVED_UP_CALLS)
        self._credit = min(most, self._credit + self._hedging.max_extra_frac)

    def answered(self, latency_s: float) -> None:
        """Take the seconds of a call that brought an answer."""
        self._latencies_s.append(latency_s)

    def spend(self) -> bool:
        """Use the allowance for one second call, if there is one."""
        # The sum of many small shares may fall short of 1 by rounding alone.
        if self._credit < 1 - 1e-9:
            return False
        self._credit -= 1
        return True

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
        known_s = sorted(self._latencies_s)
        self._median_s = statistics.median(known_s)
        longer = sum(seconds > self._median_s for seconds in running_s)
        middle = (len(known_s) + longer) // 2
        return (
            self._hedging.after_medians * known_s[middle]
            if middle < len(known_s)
            else None
        )

    def look_again_s(self) -> float:
        """Return how long to wait before the next look at the calls under way."""
        # A straggler is found at most this late; looking is cheap beside a call.
        return min(_LONGEST_LOOK_S, max(_SHORTEST_LOOK_S, self._median_s / 4))
