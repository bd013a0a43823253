"""The judging that every adapter shares: one pool in each process, on an event loop of its own.

Stacks call rewards from a trainer's event loop, from threads, or from worker processes. A loop of
its own keeps one pool, one set of connections and one bound for all of them.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, Unpack

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from pydantic import BaseModel

from rubric_core import (
    ConfigError,
    Judge,
    JudgeResult,
    JudgeView,
    MissingExtraError,
    Outcome,
    Pooling,
    Task,
    Thought,
    Thoughts,
    Unanswered,
    UnavailableRewardError,
)
from rubric_core.configuration import validated
from rubric_core.reward.projection import (
    OnUnavailable,
    normalized_reward,
    weighted_scores_z,
)
from rubric_core.schema.trace import Trace
from rubric_core.traces.messages import answer_from
from rubric_core.traces.views import (
    TraceViews,
    answer_view,
    joined_results,
    trace_views,
)
from rubric_judge.adapters.options import (
    MaskingOptions,
    Options,
    ScorerOptions,
    Shared,
    SharedUnmasked,
    Unmasked,
)
from rubric_judge.adapters.outages import Outage
from rubric_judge.adapters.rows import task_source
from rubric_judge.adapters.ties import tied_reward
from rubric_judge.adapters.unclosed import UnclosedThoughts
from rubric_judge.config import JudgeSpec, read_judge_spec
from rubric_judge.judges.capabilities import close
from rubric_judge.judges.load import load_replicas
from rubric_judge.pool.ledger.store import Ledger
from rubric_judge.pool.pool import JudgePool
from rubric_judge.pool.statistics import PoolStatistics
from rubric_judge.quality.criteria.record import (
    RECORD,
    JudgementRecord,
    judgement_record,
)

__all__ = [
    "Judgement", "MaskingOptions", "RubricScorer", "ScorerOptions", "Submission", "shared_scorer",
]  # fmt: skip

_THREAD = "rubric-judge"
"""Name of the thread of a scorer's event loop."""


def stack_module(name: str, *, install: str) -> Any:  # no stack is typed here
    """Import a module of a stack.

    Args:
        name: name of the module.
        install: requirement for `pip install`.

    Raises:
        MissingExtraError: the stack, or something that it needs, is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"{name!r} cannot be imported ({error}): pip install {install}"
        ) from error


class Submission(NamedTuple):
    """One response as a stack hands it over."""

    row: Mapping[str, object]
    """Names the task, or holds its rubric: see `TaskSource.view`."""

    response: object
    """A text or messages, of which the answer is judged; or the answer, where it is known."""

    prompt: object = ""
    """A text or messages; the question of a row without that column."""

    opened: bool = False
    """Whether the prompt, as the policy read it, opened a thought."""

    trace: Callable[[], Trace] | None = None
    """Reads the trace that ends with the response, for criteria that judge more than that."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of one response, with its reward and metrics."""

    view: JudgeView
    result: JudgeResult
    on_unavailable: OnUnavailable
    name: str = "rubric"
    """Prefix of the names of its metrics."""
    pooling: Pooling = field(default_factory=Pooling)
    """Pools of criteria that share one metric."""
    is_logged: bool = False
    """Whether the stack's log is to hold a record of it."""

    @property
    def unavailable(self) -> bool:
        """Whether there was no judgement."""
        return self.result.outcome is Outcome.UNAVAILABLE

    @property
    def reward(self) -> float | None:
        """The normalised reward, in a trainer's bits (`ties`); None for a response to be masked.

        Raises:
            UnavailableRewardError: no judgement, under "raise".
        """
        if self.unavailable and self.on_unavailable != "raise":
            return 0.0 if self.on_unavailable == "zero" else None
        return tied_reward(normalized_reward(self.result, self.view.rubric))

    @property
    def metrics(self) -> dict[str, float]:
        """`rubric/score` and the shares beside it: these keys, always."""
        view = self.view
        shares = {
            "score": self.reward or 0.0,
            "invalid": self.result.outcome is Outcome.INVALID,
            "unavailable": self.unavailable,
            "thought": view.thought is not Thought.NONE,
            "unclosed_thought": view.thought is Thought.UNCLOSED,
            "empty_answer": view.unanswered is Unanswered.EMPTY,
        }
        return {f"{self.name}/{name}": float(value) for name, value in shares.items()}

    @property
    def criteria(self) -> dict[str, float]:
        """`rubric/<id>` or `rubric/kind.<kind>`: mean z_j of the criteria of an id or of a kind.

        Criteria are averaged by an id that repeats in the tasks, else by kind; `by_id` has all.
        """
        scores: defaultdict[str, list[float]] = defaultdict(list)
        z_by_id = weighted_scores_z(self.result, self.view.rubric)
        for criterion in self.view.rubric:
            if criterion.id in z_by_id:
                name = f"{self.name}/{self.pooling.pool(criterion).name}"
                scores[name].append(z_by_id[criterion.id])
        return {
            name: fmean(z) for name, z in scores.items() if name not in self.metrics
        }

    @property
    def by_id(self) -> dict[str, float]:
        """`rubric/<id>`: z_j of every criterion with a weight; nothing if it was not scored.

        A criterion whose id is one of the words of `metrics` is left to them.
        """
        z_by_id = weighted_scores_z(self.result, self.view.rubric)
        scores = {f"{self.name}/{name}": z for name, z in z_by_id.items()}
        return {name: z for name, z in scores.items() if name not in self.metrics}

    @property
    def record(self) -> JudgementRecord:
        """Scores and shares by criterion, without any text."""
        return judgement_record(self.view, self.result, self.pooling)

    @property
    def log_entry(self) -> dict[str, str]:
        """`rubric/judgement`: its record as JSON; nothing unless asked for."""
        if not self.is_logged:
            return {}
        return {f"{self.name}/{RECORD}": self.record.model_dump_json()}


def metric_columns(judgements: Sequence[Judgement]) -> dict[str, list[float]]:
    """Return the metrics of at least one judgement by name."""
    rows = [judgement.metrics for judgement in judgements]
    return {name: [row[name] for row in rows] for name in rows[0]}


class RubricScorer:
    """Judge of a stack's responses, with a policy for missing judgements.

    Holds the tasks, so that passages and rubrics stay on the judge's side. Can be pickled where its
    arguments can; the copy starts a pool of its own, and so does the child of a fork.
    """

    def __init__(
        self,
        *,
        maskable: bool = True,
        can_log: bool = False,
        **options: Unpack[MaskingOptions],
    ) -> None:
        """Read the configuration and the tasks, and make the judge; nothing is called.

        Args:
            maskable: whether the stack can leave a response out.
            can_log: whether the stack's log has a place for a record of each judgement.
            options: those of `MaskingOptions`.

        Raises:
            ConfigError: a configuration that is not usable, or a policy that the stack lacks.
            JudgeSetupError: a judge that cannot be called.
            LedgerError: a file that is not a valid ledger, or cannot be opened.
        """
        kind = Options if maskable else Unmasked
        settings = validated(kind, options, source="options")
        judge = settings.judge
        tasks = options.get("tasks")
        if isinstance(tasks, Iterator):
            options["tasks"] = tasks = tuple(tasks)  # for a copy to read again
        self._again = partial(
            RubricScorer, maskable=maskable, can_log=can_log, **options
        )
        if settings.log_judgements and not can_log:
            raise ConfigError(
                "log_judgements: this stack's log has no place for a record of each response: give "
                "a `ledger`, which `rubric-judge criteria` reads too",
                location="log_judgements",
            )
        self._on_unavailable: OnUnavailable = settings.on_unavailable
        self._workers = settings.workers
        self._ledger = settings.ledger
        self._name = settings.name or "rubric"
        self._most_invalid = settings.max_invalid_frac
        self._is_logged = settings.log_judgements
        self.thoughts: Thoughts = settings.thoughts
        """Way to tell thoughts from answers."""
        self._tasks = task_source(tasks)
        self._owned = isinstance(judge, str | Path | BaseModel)
        self._judge = judge
        self._judges = _judges_of(judge)
        # A wrong file is found here, not after hours of sampling.
        if self._ledger is not None:
            Ledger(self._ledger).close()
        self._begin()

    @property
    def known_tasks(self) -> Iterable[Task]:
        """The tasks on the judge's side; none where every row brings its rubric."""
        return self._tasks.known

    def views(self, submissions: Sequence[Submission]) -> list[TraceViews]:
        """Return the judge's views of submissions, one of each unless it is a trace.

        Raises:
            ConfigError, SchemaError: a row without a task: a fault of the data set, not of a judge.
        """
        return [self._view(submission) for submission in submissions]

    def _view(self, submission: Submission) -> TraceViews:
        answer = answer_from(
            submission.response, self.thoughts, opened=submission.opened
        )
        whole = self._tasks.view(
            submission.row, prompt=submission.prompt, response=answer
        )
        if submission.trace is None or not whole.rubric.judges_traces:
            return answer_view(whole)
        # The policy decides how many turns it takes: one that it did not take earns nothing.
        return trace_views(whole, submission.trace(), missing_turn="zero")

    async def judge(self, submissions: Sequence[Submission]) -> list[Judgement]:
        """Judge responses, keeping the caller's event loop free; results are in order.

        Raises:
            ConfigError, SchemaError: as `views`.
            JudgeSetupError: at the first call, a judge that is not there or has no right to be.
            JudgeContractError: too many of the last judgements are invalid.

        Cancellation cancels the calls in flight.
        """
        views = self.views(submissions)
        portal, pool = self._running()
        future = portal.start_task_soon(self._judge_all, pool, views)
        results = await asyncio.wrap_future(future)
        return self._judgements(views, results)

    def judge_from_thread(self, submissions: Sequence[Submission]) -> list[Judgement]:
        """Judge responses, and wait for it: for stacks that call rewards in threads.

        Raises:
            ConfigError, SchemaError, JudgeSetupError: as `judge`.
        """
        views = self.views(submissions)
        portal, pool = self._running()
        return self._judgements(views, portal.call(self._judge_all, pool, views))

    def statistics(self) -> PoolStatistics:
        """Return the statistics of the judging in this process."""
        return self._running()[1].statistics()

    def close(self) -> None:
        """Cancel the calls in flight, close a judge made here, and stop the event loop."""
        self._notice_fork()
        with self._lock:
            self._started = None
            self._exit.close()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._first = anyio.Lock()
        self._checked = False
        self._outage = Outage(max_invalid_frac=self._most_invalid)
        self._unclosed = UnclosedThoughts()
        self._exit = ExitStack()
        # A trainer cannot close a reward: the end of the process, or of the scorer, does.
        weakref.finalize(self, _close, self._exit, pid=self._pid)
        self._started: tuple[BlockingPortal, JudgePool] | None = None

    def _notice_fork(self) -> None:
        if os.getpid() == self._pid:
            return
        # The loop's thread is in the parent only, and connections and locks are the parent's.
        if self._owned:
            self._judges = _judges_of(self._judge)
        self._begin()

    async def _judge_all(
        self, pool: JudgePool, traces: Sequence[TraceViews]
    ) -> list[JudgeResult]:
        views = [view for trace in traces for view in trace.views]
        # A wrong key would mask every response of a training that then learns nothing.
        async with self._first:
            if not self._checked and not pool.knows(views):
                await pool.check()
                self._checked = True
        return joined_results(traces, await pool.judge_all(views))

    def _judgements(
        self, traces: Sequence[TraceViews], results: Sequence[JudgeResult]
    ) -> list[Judgement]:
        views = [trace.whole for trace in traces]
        judgements = [
            Judgement(
                view,
                result,
                self._on_unavailable,
                self._name,
                self._tasks.pooling,
                self._is_logged,
            )
            for view, result in zip(views, results, strict=True)
        ]
        lost = [judgement.result for judgement in judgements if judgement.unavailable]
        if lost and self._on_unavailable == "raise":
            detail = lost[0].detail or "no detail"
            raise UnavailableRewardError(
                f"{len(lost)} of {len(judgements)} judgements did not happen, the first for "
                f"{lost[0].reason}: {detail}; on_unavailable='raise' ends the training"
            )
        answered = [result for result in results if result.unanswered is None]
        self._outage.seen(answered, on_unavailable=self._on_unavailable)
        self._unclosed.seen(views)
        return judgements

    def _running(self) -> tuple[BlockingPortal, JudgePool]:
        self._notice_fork()
        with self._lock:
            if self._started is None:
                ledger = None
                if self._ledger is not None:
                    ledger = self._exit.enter_context(Ledger(self._ledger))
                portal = self._exit.enter_context(start_blocking_portal(name=_THREAD))
                # Cancels what is in flight: the end of a process does not wait for a judge.
                self._exit.callback(_stop, portal)
                if self._owned:
                    for judge in self._judges:
                        self._exit.callback(portal.call, close, judge)
                pool = JudgePool(self._judges, workers=self._workers, ledger=ledger)
                self._started = portal, pool
            return self._started

    def __reduce__(self) -> tuple[partial[RubricScorer], tuple[()]]:
        """Rebuild from the arguments: a loop and its connections belong to one process."""
        return self._again, ()


def _close(stack: ExitStack, *, pid: int) -> None:
    if os.getpid() != pid:  # the parent closes what it opened before a fork
        return
    if threading.current_thread().name == _THREAD:
        # Garbage is collected in any thread, and a loop's cannot wait for the end of its loop.
        threading.Thread(target=stack.close).start()
    else:
        stack.close()


def _stop(portal: BlockingPortal) -> None:
    portal.call(portal.stop, True)  # noqa: FBT003  # positional in anyio


def _judges_of(judge: Judge | JudgeSpec | Path | str) -> tuple[Judge, ...]:
    match judge:
        case str() | Path():
            return load_replicas(read_judge_spec(Path(judge)))
        case BaseModel():
            return load_replicas(judge)
        case Judge():
            return (judge,)
        case _:
            raise ConfigError(
                f"judge={type(judge).__name__}: give a judge, its configuration (such as "
                "JudgeConfig(model=...)), or a YAML file",
                location="judge",
            )


_shared: dict[Shared, RubricScorer] = {}
_shared_lock = threading.Lock()


def shared_scorer(
    source: str,
    can_log: bool = False,  # noqa: FBT001, FBT002  # keywords are the configuration's
    maskable: bool = False,  # noqa: FBT001, FBT002
    /,
    **options: object,
) -> RubricScorer:
    """Return this process's scorer for a stack that makes its rewards from a configuration.

    Args:
        source: name of the configuration in an error.
        can_log: as for `RubricScorer`.
        maskable: as for `RubricScorer`.
        options: `judge`, and where wanted `tasks`, `workers`, `on_unavailable`, `ledger`,
            `thoughts` and `log_judgements`.

    Raises:
        ConfigError: an unknown key or a wrong value, or as `RubricScorer`.
        JudgeSetupError, LedgerError: as `RubricScorer`.
    """
    kind = Shared if maskable else SharedUnmasked
    settings = validated(kind, options, source=source)
    with _shared_lock:
        if settings not in _shared:
            _shared[settings] = RubricScorer(
                **dict(settings), maskable=maskable, can_log=can_log
            )
        return _shared[settings]
