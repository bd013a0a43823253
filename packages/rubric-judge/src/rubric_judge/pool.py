"""Many judgements at once: bounded, in order, counted, and never lost to an exception."""

from __future__ import annotations

import math
import statistics
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import anyio

from rubric_core import Judge, JudgeResult, JudgeView, Outcome, Reason, Usage
from rubric_judge import events

__all__ = ["JudgePool", "LatencyQuantiles", "PoolStatistics"]

_LATENCIES_KEPT = 8192


@dataclass(frozen=True, slots=True)
class LatencyQuantiles:
    """Seconds that judgements took, retries included, over the last 8,192 of them."""

    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    """What a pool has done since it was made."""

    limit: int
    """Most calls in flight at once."""
    in_flight: int
    peak_in_flight: int
    done: int
    by_outcome: dict[Outcome, int]
    by_reason: dict[Reason, int]
    latency: LatencyQuantiles | None
    """None before the first judgement."""
    usage: Usage
    """Tokens and cost of all judgements that reported them."""


@dataclass(slots=True)
class _Tally:
    """The running counts behind `PoolStatistics`."""

    in_flight: int = 0
    peak_in_flight: int = 0
    by_outcome: Counter[Outcome] = field(default_factory=Counter[Outcome])
    by_reason: Counter[Reason] = field(default_factory=Counter[Reason])
    latencies_s: deque[float] = field(default_factory=lambda: deque[float](maxlen=_LATENCIES_KEPT))
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float = 0.0

    def start(self) -> None:
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)

    def add(self, result: JudgeResult, *, latency_s: float) -> None:
        self.by_outcome[result.outcome] += 1
        if result.reason is not None:
            self.by_reason[result.reason] += 1
        self.latencies_s.append(latency_s)
        if result.usage is not None:
            self.prompt_tokens += result.usage.prompt_tokens
            self.completion_tokens += result.usage.completion_tokens
            self.cached_tokens += result.usage.cached_tokens
            self.cost_usd += result.usage.cost_usd or 0.0


class JudgePool:
    """Judges many responses through one limiter that all callers of the pool share.

    A worker holds up to `micro_batch` responses at once, so at most `workers · micro_batch` calls
    are in flight. Calls start in the order of the views: keep the responses of a prompt next to
    each other, and an endpoint meets their shared prefix while it is warm.
    """

    def __init__(self, judge: Judge, *, workers: int = 32, micro_batch: int = 4) -> None:
        """Make the limiter.

        Args:
            judge: the judge that every worker calls.
            workers: number of workers, at least 1.
            micro_batch: responses that a worker holds at once, at least 1.

        Raises:
            ValueError: `workers` or `micro_batch` is below 1.
        """
        if workers < 1 or micro_batch < 1:
            msg = f"workers={workers!r} and micro_batch={micro_batch!r} must both be at least 1"
            raise ValueError(msg)
        self._judge = judge
        self._limiter = anyio.CapacityLimiter(workers * micro_batch)
        self._limit = workers * micro_batch
        self._tally = _Tally()

    async def judge_all(
        self,
        views: Sequence[JudgeView],
        *,
        on_result: Callable[[int, JudgeResult], None] | None = None,
    ) -> list[JudgeResult]:
        """Judge every view.

        Args:
            views: any number of views.
            on_result: called with position and result as each judgement ends, in that order.

        Returns:
            One result for each view, in the order of the views. An exception that a judge lets
            out, or scores that are not the rubric's, become `unavailable` with reason
            `judge_error`, and a cancellation that did not come from outside of the judge becomes
            `cancelled`; neither ever fails the others.

        Raises:
            SystemExit, KeyboardInterrupt: a judge asked for the program to end; the calls in
                flight are cancelled first.

        Cancellation passes through: the calls in flight are cancelled and nothing is returned.
        """
        # A view that nothing else became of was cancelled, so that none is ever without a result.
        cancelled = JudgeResult.unavailable(Reason.CANCELLED, judge=self._judge.name, attempts=0)
        results = [cancelled] * len(views)
        queue = iter(range(len(views)))
        exits: list[BaseException] = []

        async def work(positions: Iterator[int]) -> None:
            for position in positions:
                try:
                    async with self._limiter:
                        result = await self._judge_one(views[position])
                except (SystemExit, KeyboardInterrupt) as end:
                    # Out of a child task, these would leave the event loop in the middle.
                    exits.append(end)
                    group.cancel_scope.cancel()
                    return
                results[position] = result
                if on_result is not None:
                    on_result(position, result)

        async with anyio.create_task_group() as group:
            for _ in range(min(self._limit, len(views))):
                group.start_soon(work, queue)
        if exits:
            raise exits[0]
        return results

    def statistics(self) -> PoolStatistics:
        """Return what the pool is doing and has done."""
        tally = self._tally
        return PoolStatistics(
            limit=self._limit,
            in_flight=tally.in_flight,
            peak_in_flight=tally.peak_in_flight,
            done=tally.by_outcome.total(),
            by_outcome=dict(tally.by_outcome),
            by_reason=dict(tally.by_reason),
            latency=_quantiles(list(tally.latencies_s)),
            usage=Usage(
                prompt_tokens=tally.prompt_tokens,
                completion_tokens=tally.completion_tokens,
                cached_tokens=tally.cached_tokens,
                cost_usd=tally.cost_usd,
            ),
        )

    async def _judge_one(self, view: JudgeView) -> JudgeResult:
        tally = self._tally
        started_s = time.perf_counter()
        tally.start()
        try:
            # An instance passes through; what else a plugin may return is an error.
            result = JudgeResult.model_validate(await self._judge.judge(view))
            if result.outcome is Outcome.SCORED:
                view.rubric.check_scores(result.scores)
        except anyio.get_cancelled_exc_class():
            # A library below the judge may cancel its own task and let that out. Only where the
            # pool itself is being cancelled is the deadline past for good.
            if anyio.current_effective_deadline() == -math.inf:
                raise
            result = JudgeResult.unavailable(
                Reason.CANCELLED, judge=self._judge.name, detail="the judge cancelled its own call"
            )
        # The named boundary for judges: one that breaks its promise not to raise costs its own
        # judgement, not the step. The message may hold a text, so only the type and place go on.
        except Exception as error:  # noqa: BLE001
            result = self._unexpected(view, error)
        finally:
            tally.in_flight -= 1
        tally.add(result, latency_s=time.perf_counter() - started_s)
        return result

    def _unexpected(self, view: JudgeView, error: Exception) -> JudgeResult:
        kind = type(error).__name__
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown"
        name = self._judge.name
        events.unexpected_exception(judge=name, task_id=view.task_id, error=kind, where=where)
        return JudgeResult.unavailable(
            Reason.JUDGE_ERROR, judge=name, detail=f"the judge raised {kind}"
        )


def _quantiles(latencies_s: list[float]) -> LatencyQuantiles | None:
    if not latencies_s:
        return None
    # `quantiles` needs two points.
    cuts = statistics.quantiles(latencies_s * 2, n=100, method="inclusive")
    return LatencyQuantiles(p50_s=cuts[49], p90_s=cuts[89], p99_s=cuts[98], max_s=max(latencies_s))
