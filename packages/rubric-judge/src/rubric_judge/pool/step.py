"""One step of `judge_all`: calls are started, hedged, moved and settled until none is left."""

import math
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

import anyio
from anyio.abc import TaskGroup

from rubric_core import Judge, JudgeResult, JudgeView, Outcome, Reason
from rubric_core.judgement import result as judgement
from rubric_judge import events
from rubric_judge.errors import EventLoopError
from rubric_judge.models.event_loop import LoopGuard
from rubric_judge.models.replicas import Replica, Replicas, was_reached
from rubric_judge.pool.schedule import Call, CallResults, Hedge, Hedger, Schedule
from rubric_judge.pool.statistics import PoolStatistics


async def ask(judge: Judge, view: JudgeView) -> JudgeResult:
    """Judge one response; see `ask_for`."""
    (result,) = await ask_for(judge, (view,))
    return result


async def ask_for(judge: Judge, views: Sequence[JudgeView]) -> CallResults:
    """Make one call of a judge.

    Args:
        judge: the judge; a `GroupJudge` where there are several views.
        views: the views that it judges.

    Returns:
        A result for each view. If the judge raises, or does not return one valid result for each
        view, with scores of its rubric and one outcome (of a judge that `fails_apart`, any), they
        are `unavailable` with reason `judge_error`; if it cancels itself, they are `cancelled`.

    Raises:
        SystemExit, KeyboardInterrupt: the judge asked for the program to end, in the main thread.
        EventLoopError: the judge is in use on another event loop.

    Cancellation from outside of the judge passes through.
    """
    try:
        # An `isinstance` check of `GroupJudge` took a thirtieth of a judgement.
        ask_group = getattr(judge, "judge_group", None)
        if ask_group:
            answers = await ask_group(views)
        else:
            answers = [await judge.judge(views[0])]
        # An instance passes through; anything else that a plugin may return is an error.
        results = tuple(map(JudgeResult.model_validate, answers))
        _check_results(views, results, apart=getattr(judge, "fails_apart", False))
    except anyio.get_cancelled_exc_class():
        # A library below the judge may cancel its own task and raise that. Only if the call itself
        # is being cancelled has the deadline passed for good.
        if anyio.current_effective_deadline() == -math.inf:
            raise
        return without_answer(
            len(views),
            Reason.CANCELLED,
            judge=judge.name,
            detail="the judge cancelled its own call",
        )
    # The first is the caller's mistake; the second does not concern this call.
    except (EventLoopError, GeneratorExit):
        raise
    # The boundary for judges: a judge that breaks its promise not to raise costs its own judgement,
    # not the step. The message may hold a text, so only the type and place are logged.
    except BaseException as error:
        # Ctrl-C reaches only the main thread: in another, both were raised by the judge itself.
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and isinstance(error, SystemExit | KeyboardInterrupt):
            raise
        kind = type(error).__name__
        task_id = views[0].task_id
        where = innermost(traceback.extract_tb(error.__traceback__))
        events.unexpected_exception(
            judge=judge.name, task_id=task_id, error=kind, where=where
        )
        return without_answer(
            len(views),
            Reason.JUDGE_ERROR,
            judge=judge.name,
            detail=f"the judge raised {kind}",
        )
    return results


def _check_results(
    views: Sequence[JudgeView], results: CallResults, *, apart: bool
) -> None:
    for view, result in zip(views, results, strict=True):
        if result.outcome is Outcome.SCORED:
            view.rubric.check_scores(result.scores)
    if not apart and len({result.outcome for result in results}) != 1:
        raise ValueError("the results of one call have several outcomes")


def without_answer(
    count: int, reason: Reason, *, judge: str, detail: str, attempts: int = 1
) -> CallResults:
    """Return the results of a call without an answer; its attempts are counted once."""
    result = JudgeResult.unavailable(reason, judge=judge, detail=detail)
    shares = judgement.call_shares(judgement.Call(attempts=attempts), count)
    return tuple(result.with_call(**share) for share in shares)


def innermost(frames: Sequence[traceback.FrameSummary]) -> str:
    """Return file and line of the innermost frame."""
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown"


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


@dataclass(slots=True)
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
