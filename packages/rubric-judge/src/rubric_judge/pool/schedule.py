"""The schedule of a step: what each call judges, in which order calls start, where each goes."""

import statistics
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import anyio
from pydantic import BaseModel, ConfigDict, Field

from rubric_core import Judge, JudgeResult, JudgeView, Usage
from rubric_judge.judges.capabilities import GroupJudge, check_group, group_identity
from rubric_judge.models.replicas import Replica, Replicas

CallResults = tuple[JudgeResult, ...]
"""CallResults of a call: one for each judgement that it asks for."""


@dataclass(slots=True, eq=False)
class Hedge:
    """The second call for a straggler."""

    replica: Replica[Judge]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    results: CallResults | None = None
    """The results; None if it was cancelled."""


@dataclass(slots=True, eq=False)
class Wanted:
    """One judgement that is asked for."""

    positions: list[int]
    """Positions of its result; several if the same judgement is asked for more than once."""
    view: JudgeView
    key: str = ""
    """Its key in the ledger; "" without a ledger."""


@dataclass(slots=True, eq=False)
class Call:
    """One call of a judge: for one judgement, or, of a `GroupJudge`, for a whole group."""

    wanted: Sequence[Wanted]
    """The judgements that it asks for: at least one, all of one task."""
    replica: Replica[Judge]
    """The replica that it is sent to; before that, any replica."""
    moves: int = 0
    """How often it was sent to another replica because one was not reached."""
    spent: int = 0
    """Attempts beyond the result's: on replicas not reached, and of a call that lost."""
    usage: Usage | None = None
    """Usage of those attempts, where it is known."""
    begun_s: float = 0.0
    """Time when it was first sent; 0 before."""
    started_s: float = 0.0
    """Time when it was last sent."""
    answer: CallResults | None = None
    """The first usable answer."""
    first: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    second: Hedge | None = None

    @property
    def task_id(self) -> str:
        """The task of all its judgements."""
        return self.wanted[0].view.task_id

    def add_spent(self, results: CallResults | None) -> None:
        """Count attempts whose results are not used; None of a call that was cancelled."""
        if results is None:
            self.spent += 1
            return
        self.spent += sum(result.attempts for result in results)
        for result in results:
            if result.usage is not None:
                self.usage = result.usage.plus(self.usage)

    def with_spent(self, results: CallResults) -> CallResults:
        """Return the results, with the unused attempts added to the first of them."""
        if not self.spent:
            return results
        first, *others = results
        usage = self.usage if first.usage is None else first.usage.plus(self.usage)
        attempts = first.attempts + self.spent
        return first.with_call(attempts=attempts, usage=usage), *others


Key = Callable[[JudgeView, str], str]
"""Function from a view and the identity of the group that it is judged in to the ledger's key."""


def wanted_of(
    views: Sequence[JudgeView], judge: Judge, *, key: Key | None, among: Sequence[int]
) -> list[list[Wanted]]:
    """Divide views into calls.

    Args:
        views: the views, in any order.
        judge: the judge; for a `GroupJudge` the views of a task are one call, in which equal
            responses are shown once.
        key: the ledger's function; without it, a judge of single responses judges each view.
        among: positions of the views that are to be judged.

    Returns:
        The judgements of each call. With a key, equal judgements are asked for once.

    Raises:
        JudgeSetupError: a group is larger than the judge allows.
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
    return [[wanted] for wanted in by_key.values()]


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
        shared = (view.task_id, view.question, view.grounding, view.rubric)
        group = groups.setdefault(shared, {})
        group.setdefault(view.identity, Wanted([], view)).positions.append(position)
    for group in groups.values():
        check_group(judge, [wanted.view for wanted in group.values()])
        if key is not None:
            identity = group_identity(group)
            for wanted in group.values():
                wanted.key = key(wanted.view, identity)
    return [list(group.values()) for group in groups.values()]


@dataclass(slots=True, eq=False)
class _Group:
    id: str
    calls: deque[Call]
    is_warming: bool = False
    """Whether its first call is under way alone, and the others wait for its end."""


class Schedule:
    """Hands out the calls of a step, group by group.

    The calls of one task start next to each other and go to one replica. A group begins when all
    calls of the groups before it have started, or are waiting.
    """

    def __init__(
        self, calls: Sequence[Call], replicas: Replicas[Judge], *, warm: bool
    ) -> None:
        """Group the calls by task; groups come in the order of their first calls.

        Args:
            calls: the calls of a step.
            replicas: the judges.
            warm: whether a group's first call is sent alone.
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
        """Return the next call that can start, with its replica; None if none can start now."""
        if not self._replicas.has_room:
            return None
        for group in self._begun.values():
            if group.is_warming:
                continue
            replica = self._replicas.pick(group.id, begins=False)
            if replica is not None:
                return self._take(group, replica)
        for group in self._waiting.values():
            replica = self._replicas.pick(group.id)
            if replica is not None:
                self._begun[group.id] = self._waiting.pop(group.id)
                group.is_warming = self._warm and len(group.calls) > 1
                return self._take(group, replica)
        return None

    def settled(self, call: Call) -> None:
        """Count a finished call off; the others of its group may start."""
        group = self._begun.get(call.task_id)
        if group is not None:
            group.is_warming = False
        self.unsettled -= 1

    def again(self, call: Call) -> None:
        """Put back a call that goes to another replica, before the others of its group."""
        group_id = call.task_id
        group = self._begun.setdefault(group_id, _Group(group_id, deque()))
        group.is_warming = False
        group.calls.appendleft(call)

    def _take(self, group: _Group, replica: Replica[Judge]) -> Call:
        call = group.calls.popleft()
        if not group.calls:
            del self._begun[group.id]
        call.replica = replica
        return call


_LATENCIES_KEPT = 1024
_FEWEST_LATENCIES = 16
_SAVED_UP_CALLS = 1024
"""Calls whose share may be saved up; it bounds what a slowing endpoint gets at once."""
_SHORTEST_LOOK_S = 0.02
_LONGEST_LOOK_S = 1.0


class Hedging(BaseModel):
    """A second call for a straggler: the first usable answer counts, the other is cancelled.

    An invalid answer counts as an answer: a quick one of the second call ends the first, which
    might have scored. A call that cannot be cancelled, such as that of a judge which waits in a
    thread, is waited for to its end, and so is the result.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    after_medians: float = Field(default=6, gt=1)
    """How many times the running median a call must take before it is asked again."""

    max_extra_frac: float = Field(default=0.05, gt=0, le=1)
    """Most second calls, as a share of the first calls, at any moment."""


class Hedger:
    """Decides which calls are stragglers, and how many may be asked again.

    late after k · median;   second calls ≤ f · first calls, at every moment
    """

    def __init__(self, hedging: Hedging) -> None:
        """Start without a median: nothing is late before 16 calls have been answered."""
        self._hedging = hedging
        self._latencies_s = deque[float](maxlen=_LATENCIES_KEPT)
        self._median_s = 0.0
        self._credit = 0.0

    def started(self) -> None:
        """Count a first call, which adds to the allowance."""
        most = max(1.0, self._hedging.max_extra_frac * _SAVED_UP_CALLS)
        self._credit = min(most, self._credit + self._hedging.max_extra_frac)

    def answered(self, latency_s: float) -> None:
        """Note the seconds of a call that brought an answer."""
        self._latencies_s.append(latency_s)

    def spend(self) -> bool:
        """Use the allowance for one second call, if there is one."""
        # The sum of many small shares may fall short of 1 by rounding alone.
        if self._credit < 1 - 1e-9:
            return False
        self._credit -= 1
        return True

    def late_after_s(self, running_s: Iterable[float]) -> float | None:
        """Return the seconds after which a call is a straggler.

        Args:
            running_s: seconds that each call under way has taken so far. Those beyond the median of
                the answered calls count as longer: at first only quick ones have been answered.

        Returns:
            The seconds; None while too little is known.
        """
        if len(self._latencies_s) < _FEWEST_LATENCIES:
            return None
        known_s = sorted(self._latencies_s)
        self._median_s = statistics.median(known_s)
        longer = sum(seconds > self._median_s for seconds in running_s)
        middle = (len(known_s) + longer) // 2
        if middle >= len(known_s):
            return None
        return self._hedging.after_medians * known_s[middle]

    def look_again_s(self) -> float:
        """Return the seconds to wait before the next look at the calls under way."""
        # A straggler is noticed at most this late; looking is cheap beside a call.
        return min(_LONGEST_LOOK_S, max(_SHORTEST_LOOK_S, self._median_s / 4))
