"""One step of `judge_all`: calls are started, hedged, moved and settled until none is left."""

import statistics
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

import anyio
from anyio.abc import TaskGroup
from pydantic import BaseModel, ConfigDict, Field

from rubric_core import Judge, Outcome, Reason
from rubric_judge import events
from rubric_judge.errors import EventLoopError
from rubric_judge.models.event_loop import LoopGuard
from rubric_judge.models.replicas import Replica, Replicas, was_reached
from rubric_judge.pool.calls import Call, CallResults, Hedge, ask_for, innermost
from rubric_judge.pool.statistics import PoolStatistics


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


GRACE_S = 5.0
"""Seconds after its deadline in which a step may still be cancelling its calls."""


@contextmanager
def watched_deadline(deadline_s: float | None, *, judge: str) -> Generator[None]:
    """Cancel the block's waiting at the deadline; log where it hangs if that does not end it.

    A deadline cancels what waits. A judge that computes or sleeps in the event loop does not wait:
    the step cannot end before the judge does, and the log names the judge.

    Args:
        deadline_s: the step's deadline; without one nothing is cancelled or watched.
        judge: name of the judge.
    """
    if deadline_s is None:
        yield
        return
    thread = threading.get_ident()

    def log_place() -> None:
        frame = sys._current_frames().get(thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # documented, and the only way
        where = innermost(traceback.extract_stack(frame) if frame else ())
        events.loop_blocked(judge=judge, where=where, deadline_s=deadline_s)

    timer = threading.Timer(deadline_s + GRACE_S, log_place)
    timer.daemon = True
    timer.start()
    try:
        with anyio.move_on_after(deadline_s):
            yield
    finally:
        timer.cancel()
        timer.join()


@dataclass
class PoolState:
    """The state that all steps of a pool share."""

    replicas: Replicas[Judge]
    tally: PoolStatistics
    hedger: Hedger | None
    warm: bool
    in_flight: set[object] = field(default_factory=set[object])
    """A mark for each call in flight."""
    loop: LoopGuard = field(default_factory=lambda: LoopGuard("pool"))
    slots: anyio.CapacityLimiter = field(init=False)
    _change: anyio.Event | None = None

    def enter(self, step: object) -> None:
        """Let a step begin; on a new event loop, all counts of calls start at 0.

        Raises:
            EventLoopError: steps are under way on another loop.
        """
        if self.loop.enter(step):
            self.slots = anyio.CapacityLimiter(self.tally.limit)
            self._change = None
            self.in_flight.clear()
            for replica in self.replicas.all:
                replica.in_flight.clear()

    async def change(self) -> None:
        """Wait until a call of any step ends."""
        self._change = self._change or anyio.Event()
        await self._change.wait()

    def changed(self) -> None:
        """Report that a call ended."""
        if self._change is not None:
            self._change.set()
            self._change = None


class Step:
    """Carries out the calls of one step and settles each of them once."""

    def __init__(
        self,
        calls: Sequence[Call],
        state: PoolState,
        *,
        settle: Callable[[Call, CallResults, float], None],
    ) -> None:
        """Prepare the schedule.

        Args:
            calls: the judgements to ask for.
            state: the pool's judges and counts.
            settle: called with each call, its results and the seconds it took, as it ends.
        """
        self._state = state
        self._settle = settle
        self._schedule = Schedule(calls, state.replicas, warm=state.warm)
        self._running: dict[Call, None] = {}
        self._exits: list[BaseException] = []
        self._held: dict[object, Replica[Judge]] = {}

    async def run(self) -> None:
        """Settle every call.

        Raises:
            SystemExit, KeyboardInterrupt: as `ask_for`.
            EventLoopError: the pool or a judge is in use on another event loop.
            Exception: whatever `settle` raises.

        The calls in flight are cancelled first.
        """
        self._state.enter(self)
        try:
            async with anyio.create_task_group() as group:
                if self._state.hedger is not None:
                    group.start_soon(self._hedge_stragglers, group, self._state.hedger)
                await self._start_all(group)
                group.cancel_scope.cancel()  # the watch over stragglers
        finally:
            # The slots left belong to calls that were cancelled before they began.
            for slot in tuple(self._held):
                self._give_back(slot)
            self._state.loop.leave(self)
        if self._exits:
            raise self._exits[0]

    async def _start_all(self, group: TaskGroup) -> None:
        state = self._state
        schedule = self._schedule
        slots = state.slots
        while schedule.unsettled:
            slot = object()
            try:
                slots.acquire_on_behalf_of_nowait(slot)
            except anyio.WouldBlock:
                await slots.acquire_on_behalf_of(slot)
            # The next call is chosen when it can start, not before.
            call = schedule.next()
            if call is not None:
                call.replica.in_flight.add(slot)
                self._held[slot] = call.replica
                group.start_soon(self._carry_out, call, slot, group)
                continue
            slots.release_on_behalf_of(slot)
            # The last call may have ended while this waited for the slot.
            if schedule.unsettled:
                await state.change()

    async def _carry_out(self, call: Call, slot: object, group: TaskGroup) -> None:
        self._running[call] = None
        try:
            self._end(call, await self._answered(call, slot))
        except (SystemExit, KeyboardInterrupt, Exception) as end:  # noqa: BLE001
            # Raised in a child task, the first two would end the event loop midway, and what a
            # caller's `on_result` raises would come back to the caller as a group.
            self._exits.append(end)
            group.cancel_scope.cancel()
        finally:
            self._running.pop(call, None)
            if call.second is not None:  # it may have been cancelled before it began
                call.second.replica.in_flight.discard(call.second)
            self._give_back(slot)

    def _give_back(self, slot: object) -> None:
        replica = self._held.pop(slot, None)
        # If the loop has ended, nobody waits for the slot, and the next loop has its own.
        if replica is not None and self._state.loop.holds(self):
            replica.in_flight.discard(slot)
            self._state.slots.release_on_behalf_of(slot)
            self._state.changed()

    async def _answered(self, call: Call, slot: object) -> CallResults:
        if self._state.hedger is not None:
            self._state.hedger.started()
        call.started_s = time.perf_counter()
        call.begun_s = call.begun_s or call.started_s
        results: CallResults | None = None
        with call.first:
            results = await self._ask(call, call.replica, mark=slot)
            if call.answer is None and _is_usable(results):
                call.answer = results
        second = call.second
        if second is not None:
            if call.answer is not None:
                second.scope.cancel()
            await second.ended.wait()
            call.second = None
            # One of the two is the result; the attempts of the other were made all the same.
            is_second = call.answer is not None and call.answer is not results
            call.add_spent(results if is_second else second.results)
        # Without results of its own, the first call was cancelled by the second one's answer.
        return cast("CallResults", call.answer or results)

    async def _second(self, call: Call, hedge: Hedge, group: TaskGroup) -> None:
        self._state.tally.hedged += 1
        try:
            with hedge.scope:
                hedge.results = await self._ask(call, hedge.replica, mark=hedge)
            if call.answer is None and _is_usable(hedge.results):
                call.answer = hedge.results
                self._state.tally.hedge_wins += 1
                call.first.cancel()
        except (SystemExit, KeyboardInterrupt, EventLoopError) as end:
            self._exits.append(end)
            group.cancel_scope.cancel()
        finally:
            hedge.ended.set()

    async def _ask(
        self, call: Call, replica: Replica[Judge], *, mark: object
    ) -> CallResults:
        state = self._state
        started_s = time.perf_counter()
        results: CallResults | None = None
        replica.begin(mark)
        state.in_flight.add(mark)
        state.tally.peak_in_flight = max(
            state.tally.peak_in_flight, len(state.in_flight)
        )
        try:
            results = await ask_for(
                replica.target, [wanted.view for wanted in call.wanted]
            )
            return results
        finally:
            seconds = time.perf_counter() - started_s
            replica.in_flight.discard(mark)
            state.replicas.report(replica, _was_reached(results), seconds)
            state.in_flight.discard(mark)
            if state.hedger is not None and _is_usable(results):
                state.hedger.answered(seconds)

    def _end(self, call: Call, results: CallResults) -> None:
        replicas = self._state.replicas
        can_move = call.moves < len(replicas.all) - 1
        if (
            all(result.reason is Reason.CONNECTION for result in results)
            and can_move
            and replicas.another_is_up(call.replica)
        ):
            call.moves += 1
            call.add_spent(results)
            call.first = anyio.CancelScope()
            self._state.tally.moved += 1
            self._schedule.again(call)
            return
        self._schedule.settled(call)
        self._settle(call, call.with_spent(results), time.perf_counter() - call.begun_s)

    async def _hedge_stragglers(self, group: TaskGroup, hedger: Hedger) -> None:
        while True:
            await anyio.sleep(hedger.look_again_s())
            now_s = time.perf_counter()
            late_s = hedger.late_after_s(
                now_s - call.started_s for call in self._running
            )
            for call in tuple(self._running):  # in the order in which they started
                if late_s is None or now_s - call.started_s < late_s:
                    break
                if call.second is not None or call.answer is not None:
                    continue
                replica = self._state.replicas.pick(call.task_id, avoid=[call.replica])
                if replica is None:
                    continue
                if not hedger.spend():
                    break
                call.second = Hedge(replica)
                replica.in_flight.add(call.second)  # reserves its room
                group.start_soon(self._second, call, call.second, group)


def _was_reached(results: CallResults | None) -> bool | None:
    """Return what a call says about its replica; None of a call that was cancelled."""
    if results is None:
        return None
    return was_reached(None if _is_usable(results) else results[0].reason)


def _is_usable(results: CallResults | None) -> bool:
    return results is not None and any(
        result.outcome is not Outcome.UNAVAILABLE for result in results
    )
