"""A pool of judges: it judges many responses at once, within limits, and keeps their order."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import cast

import anyio

from rubric_core import Judge, JudgeResult, JudgeView, Reason
from rubric_judge.errors import JudgeSetupError
from rubric_judge.judges.capabilities import (
    GroupJudge,
    check,
    close,
    fingerprint,
    require_excerpts,
    wants_warm_call,
)
from rubric_judge.models.limits import Limited
from rubric_judge.models.replicas import Replicas
from rubric_judge.pool.calls import (
    Call,
    CallResults,
    Wanted,
    wanted_of,
    without_answer,
)
from rubric_judge.pool.ledger import entry, store
from rubric_judge.pool.statistics import PoolStatistics
from rubric_judge.pool.step import Hedger, Hedging, PoolState, Step, watched_deadline


class _Results:
    """Results of one `judge_all`: counted, kept in the ledger and reported as they come."""

    def __init__(
        self,
        count: int,
        *,
        tally: PoolStatistics,
        record: Callable[[str, JudgeView, JudgeResult], None] | None,
        on_result: Callable[[int, JudgeResult], None] | None,
    ) -> None:
        """Begin without a result.

        Args:
            count: number of views.
            tally: counts of the pool.
            record: keeps a judgement in the ledger under its key; None without a ledger.
            on_result: called with position and result of each view.
        """
        self.by_position: list[JudgeResult | None] = [None] * count
        """Result of each view; None while its call is not settled."""
        self._tally = tally
        self._record = record
        self._on_result = on_result

    def place(self, positions: Sequence[int], result: JudgeResult) -> None:
        """Give a result to the views at these positions."""
        for position in positions:
            self.by_position[position] = result
            if self._on_result is not None:
                self._on_result(position, result)

    def settle(self, call: Call, results: CallResults, latency_s: float | None) -> None:
        """Count the results of a call, keep and place them."""
        for request, result in zip(call.wanted, results, strict=True):
            times = len(request.positions)
            self._tally.judged(request.view, result, latency_s, times)
            if self._record is not None:
                self._record(request.key, request.view, result)
            self.place(request.positions, result)

    def unsettled(self, calls: Sequence[Call]) -> list[Call]:
        """Return the calls that have no results."""
        return [
            call
            for call in calls
            if self.by_position[call.wanted[0].positions[0]] is None
        ]


class JudgePool:
    """Judges many responses under one bound on calls in flight, which all callers share.

    A worker holds up to `micro_batch` responses at once, so at most `workers · micro_batch` calls
    are in flight. The responses to one task are judged next to each other and by one replica, in
    whatever order they are given, so that an endpoint meets their shared prefix while it is warm.

    A `GroupJudge` is called once for all different responses to a task that are given together, and
    the ledger finds such a judgement only with the same group.

    It serves one event loop after another, never two at once: each thread with a loop of its own
    needs a pool, and judges, of its own.
    """

    def __init__(
        self,
        judge: Judge | Sequence[Judge],
        *,
        workers: int = 32,
        micro_batch: int = 4,
        hedge: Hedging | None = None,
        ledger: store.Ledger | None = None,
        replica_limit: int | None = None,
    ) -> None:
        """Prepare the judges; nothing is called.

        Args:
            judge: the judge, or several replicas of it.
            workers: number of workers, at least 1.
            micro_batch: responses that a worker holds at once, at least 1.
            hedge: when to ask a second time for a straggler; by default never.
            ledger: where judgements are looked up before they are asked for, and stored.
            replica_limit: most calls in flight on one replica; unbounded by default.

        Raises:
            ValueError: `workers`, `micro_batch` or `replica_limit` is below 1, or the judges are
                not replicas of one.
        """
        if workers < 1 or micro_batch < 1:
            raise ValueError(
                f"workers={workers!r} and micro_batch={micro_batch!r} must both be at least 1"
            )
        if replica_limit is not None and replica_limit < 1:
            raise ValueError(
                f"replica_limit={replica_limit!r} must be at least 1, or left out"
            )
        judges = tuple(judge) if isinstance(judge, Sequence) else (judge,)
        _require_replicas(judges)
        self._ledger = ledger
        self._state = PoolState(
            replicas=Replicas(judges, limit=replica_limit),
            tally=PoolStatistics(workers * micro_batch),
            hedger=None if hedge is None else Hedger(hedge),
            warm=wants_warm_call(judges[0]),
        )
        self._judge = judges[0]

    @property
    def name(self) -> str:
        """The judge's name, as in its results."""
        return self._judge.name

    @property
    def fingerprint(self) -> str:
        """The identity of its judges' scores, for keys of a ledger."""
        return fingerprint(self._judge)

    @property
    def judges_groups(self) -> bool:
        """Whether its judge scores the responses to a task that are given together in one call."""
        return isinstance(self._judge, GroupJudge)

    @property
    def warm_call(self) -> bool:
        """Whether the first response of a group that is given together is judged alone first."""
        return wants_warm_call(self._judge)

    async def judge_all(
        self,
        views: Sequence[JudgeView],
        *,
        on_result: Callable[[int, JudgeResult], None] | None = None,
        deadline_s: float | None = None,
        replicate: int = 0,
    ) -> list[JudgeResult]:
        """Judge every view.

        Judgements that the ledger holds are not asked for again, and equal views are asked for
        once. A response without an answer is not asked for and scores 0: see
        `JudgeResult.unanswered`.

        Args:
            views: any number of views, in any order.
            on_result: called with position and result as each judgement ends, in that order.
            deadline_s: when to give up pending judgements, as `unavailable (timeout)`. A judge that
                ignores cancellation is waited for; one that blocks the event loop is logged.
            replicate: number of this repetition of the same judgements, for the ledger.

        Returns:
            One result for each view, in order. An exception of a judge, or scores that do
            not fit the rubric, become `unavailable (judge_error)`; a cancellation from within
            becomes `cancelled`; neither affects other views.

        Raises:
            SystemExit, KeyboardInterrupt: a judge asked for the program to end, in the main thread;
                the calls in flight are cancelled first. In another thread, it is a `judge_error`.
            LedgerError: the ledger cannot be read, or takes no entries.
            EventLoopError: the pool, or a limiter of its judges, is in use on another event loop.
            JudgeSetupError: a group is larger than a `GroupJudge` takes, or the judge cannot judge
                a part of a trace; nothing was asked.
            ValueError: `deadline_s` is not above 0, or `replicate` is no count.
            Exception: whatever `on_result` raises; the calls in flight are cancelled first.

        Cancellation passes through: the calls in flight are cancelled and nothing is returned.
        """
        entry.check_replicate(replicate)
        if deadline_s is not None and not deadline_s > 0:
            raise ValueError(f"deadline_s={deadline_s!r} must be above 0, or left out")
        require_excerpts(self._judge, views)
        record = None
        if self._ledger is not None:
            judge = fingerprint(self._judge)
            record = partial(self._ledger.record, judge=judge, replicate=replicate)
        results = _Results(
            len(views), tally=self._state.tally, record=record, on_result=on_result
        )
        self._place_unanswered(views, results)
        calls = self._calls(views, results, replicate=replicate)
        with watched_deadline(deadline_s, judge=self._judge.name):
            await Step(calls, self._state, settle=results.settle).run()
        for call in results.unsettled(calls):
            results.settle(call, self._too_late(call, deadline_s), None)
        return cast("list[JudgeResult]", results.by_position)

    def knows(self, views: Sequence[JudgeView], *, replicate: int = 0) -> bool:
        """Return whether the ledger holds every judgement, so that none would be asked for."""
        ledger = self._ledger
        if ledger is None:
            return not _answered(views)
        for requests in self._wanted(views, replicate=replicate):
            if any(ledger.find(request.key) is None for request in requests):
                return False
        return True

    async def check(self) -> list[JudgeSetupError]:
        """Ask each replica that can tell whether it is available; takes seconds at most.

        Returns:
            Errors of the replicas that are not available, if another one is.

        Raises:
            JudgeSetupError: no replica is available.
        """
        replicas = self._state.replicas.all
        problems: dict[int, JudgeSetupError] = {}

        async def ask(number: int) -> None:
            try:
                await check(replicas[number].target)
            except JudgeSetupError as error:
                problems[number] = error

        async with anyio.create_task_group() as group:
            for number in range(len(replicas)):
                group.start_soon(ask, number)
        if len(problems) == len(replicas):
            raise problems[0]
        return [problems[number] for number in sorted(problems)]

    async def aclose(self) -> None:
        """Close the judges."""
        for replica in self._state.replicas.all:
            await close(replica.target)

    def statistics(self) -> PoolStatistics:
        """Return what the pool is doing now and has done so far."""
        replicas = self._state.replicas.all
        limiters = {
            id(replica.target.limiter): replica.target.limiter
            for replica in replicas
            if isinstance(replica.target, Limited)
        }
        return replace(
            deepcopy(self._state.tally),
            in_flight=len(self._state.in_flight),
            replicas=tuple(replica.statistics() for replica in replicas),
            limiters=tuple(limiter.statistics() for limiter in limiters.values()),
        )

    def _place_unanswered(self, views: Sequence[JudgeView], results: _Results) -> None:
        """Settle the responses without an answer."""
        for position, view in enumerate(views):
            reason = view.unanswered
            if reason is not None:
                result = JudgeResult.without_answer(
                    view.rubric, reason, judge=self._judge.name
                )
                self._state.tally.not_asked(result)
                results.place((position,), result)

    def _wanted(
        self, views: Sequence[JudgeView], *, replicate: int
    ) -> list[list[Wanted]]:
        """Divide the views that have an answer into calls."""
        ledger = self._ledger
        judge = fingerprint(self._judge)
        answered = _answered(views)
        if ledger is None:
            return wanted_of(views, self._judge, key=None, among=answered)

        def key(view: JudgeView, group: str) -> str:
            by = f"{judge} in group {group}" if group else judge
            return ledger.key(view, judge=by, replicate=replicate)

        return wanted_of(views, self._judge, key=key, among=answered)

    def _calls(
        self, views: Sequence[JudgeView], results: _Results, *, replicate: int
    ) -> list[Call]:
        """Return the calls to make; judgements that the ledger holds are placed."""
        any_replica = self._state.replicas.all[0]
        ledger = self._ledger
        calls: list[Call] = []
        for wanted in self._wanted(views, replicate=replicate):
            known: list[JudgeResult] = []
            if ledger is not None:
                entries = (ledger.find(request.key) for request in wanted)
                known = [result for result in entries if result is not None]
            # All of a group or none: scores of two calls do not come of one comparison.
            if len(known) < len(wanted):
                calls.append(Call(wanted, any_replica))
                continue
            for request, result in zip(wanted, known, strict=True):
                self._state.tally.found(result, times=len(request.positions))
                results.place(request.positions, result)
        return calls

    def _too_late(self, call: Call, deadline_s: float | None) -> CallResults:
        is_begun = call.begun_s > 0
        state = "waited for" if is_begun else "not asked for yet"
        return without_answer(
            len(call.wanted),
            Reason.TIMEOUT,
            judge=self._judge.name,
            detail=f"{state} when the step's deadline_s={deadline_s} was over",
            attempts=call.spent + int(is_begun),
        )


def _require_replicas(judges: Sequence[Judge]) -> None:
    """Refuse judges that are not replicas of one, and a pool without any."""
    if not judges:
        raise ValueError("a pool needs a judge")
    fingerprints = sorted({fingerprint(judge) for judge in judges})
    if len(fingerprints) > 1:
        first, second, *_ = fingerprints
        count = len(fingerprints)
        raise ValueError(
            f"the judges of a pool must be replicas of one, and here are {count}: "
            f"{first!r}, {second!r}; use a pool for each"
        )


def _answered(views: Sequence[JudgeView]) -> list[int]:
    """Return the positions of the responses that have an answer."""
    return [position for position, view in enumerate(views) if view.unanswered is None]
