"""The service behind the endpoints: the pool, the tasks, the queue and the counts."""

import math
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager

import anyio

from rubric_core import JudgeResult, JudgeView, Rubric, SchemaError, Task, answer_of
from rubric_core.schema.judged import EVERY_TURN
from rubric_core.schema.task import TaskRow
from rubric_core.schema.trace import Trace
from rubric_core.traces.recorded import recorded_trace
from rubric_core.traces.views import answer_view, each_turn
from rubric_judge.adapters.rows import TaskSource
from rubric_judge.errors import JudgeSetupError
from rubric_judge.pool.pool import JudgePool
from rubric_judge.quality.responses import JudgedResponse, judged_rows
from rubric_judge.quality.trajectories import Submitted, views_of, views_of_all
from rubric_judge.serve import schemas, telemetry
from rubric_judge.serve.config import ServeConfig

_LONGEST_RETRY_S = 60
_LATENCY_WEIGHT = 0.1
"""Weight of the newest judgement in the running mean."""


class JudgeService:
    """Judges the responses of requests through one pool."""

    def __init__(
        self,
        pool: JudgePool,
        tasks: Mapping[str, Task],
        *,
        config: ServeConfig | None = None,
    ) -> None:
        """Keep the tasks that requests may name.

        Args:
            pool: the pool of judges; the caller closes its judge.
            tasks: tasks by id; empty if requests bring their own.
            config: the limits.
        """
        self.config = config or ServeConfig()
        self.tasks = TaskSource(tasks, check=schemas.check_size)
        """Finds the task of a label."""
        self._pool = pool
        self._tasks = tasks
        self.queued = 0
        """Number of responses that wait or are being judged."""
        self.draining = False
        """Whether the service is ending, and takes no more requests."""
        self._in_flight = pool.statistics().limit
        self._latency_s = 1.0
        self.recurring = telemetry.Recurring()
        """Decides which log lines are written."""
        self._open: set[anyio.CancelScope] = set()
        self.metrics = telemetry.ServiceMetrics(
            pool.statistics, queued=lambda: self.queued
        )

    def check_items(self, count: int) -> None:
        """Refuse a request with too many responses.

        Raises:
            RefusedError: there are more than the configuration allows.
        """
        if count > self.config.max_items:
            raise schemas.RefusedError(
                "too_many_items",
                f"{count} responses in one request, at most {self.config.max_items} are "
                "taken: send several requests",
            )

    def check_turns(self, rubric: Rubric, trace: Trace) -> None:
        """Refuse a trajectory with too many parts to judge, before they are made.

        Raises:
            RefusedError: a criterion judges every turn, of which there are more than the
                configuration allows.
        """
        if any(criterion.judges == EVERY_TURN for criterion in rubric):
            self.check_items(len(each_turn(trace)))

    def task(self, task_id: str, *, field: str) -> Task:
        """Return one of the server's tasks.

        Raises:
            RefusedError: no task has that id.
        """
        task = self._tasks.get(task_id)
        if task is None:
            raise schemas.RefusedError(
                "unknown_task",
                f"no task has this id; the server has {len(self._tasks)} tasks. Take ids from "
                "`Task.task_id`, or send the whole task",
                field=field,
            )
        return task

    def inline_task(self, row: TaskRow, *, field: str) -> Task:
        """Return the task of a request that brought its own.

        Raises:
            RefusedError: the task is not well formed.
        """
        try:
            return row.task()
        except SchemaError as error:
            place = f"{field}.{error.field}" if error.field else field
            raise schemas.RefusedError(
                "invalid_request", str(error), field=place
            ) from None

    def submitted(self, task: Task, response: object, *, field: str) -> Submitted:
        """Return what is judged of a response.

        Args:
            task: its task.
            response: a text, or a trajectory.
            field: its place in the request.

        Raises:
            RefusedError: a trajectory that is not read, or a text of which a criterion judges what
                only a trajectory has.
        """
        try:
            if isinstance(response, str):
                view = task.judge_view(answer_of(response, self.config.thoughts))
                return Submitted(0, answer_view(view))
            read = recorded_trace(response, thoughts=self.config.thoughts, cut=True)
            self.check_turns(task.rubric, read.trace)
            return Submitted(0, views_of(task, read), read)
        except SchemaError as error:
            raise schemas.RefusedError(
                "invalid_request", str(error), field=field
            ) from None

    def collected(self, submitted: Iterable[Submitted]) -> list[Submitted]:
        """Return all that one request submits.

        Raises:
            RefusedError: the trajectories have too many parts to judge, before all are read.
        """
        items: list[Submitted] = []
        parts = 0
        for item in submitted:
            items.append(item)
            parts += len(item.views.parts)
            self.check_items(parts)
        return items

    async def judge_submitted(
        self, submitted: Sequence[Submitted], *, gone: Callable[[], Awaitable[None]]
    ) -> list[JudgedResponse]:
        """Judge the responses and trajectories of one request.

        Args:
            submitted: what is judged of each.
            gone: as in `judge`.

        Raises:
            RefusedError: as `judge`.
        """
        views = views_of_all(submitted)
        return judged_rows(submitted, await self.judge(views, gone=gone))

    async def judge(
        self, views: Sequence[JudgeView], *, gone: Callable[[], Awaitable[None]]
    ) -> list[JudgeResult]:
        """Judge the responses of one request.

        Args:
            views: one view for each response, or for each part of a trajectory.
            gone: returns when nobody waits for the answer any more; pending judgements are then
                cancelled.

        Returns:
            One result for each view, in their order.

        Raises:
            RefusedError: the queue is full; a group is larger than the judge takes; or the service
                ended first, or the client has gone.
        """
        self.metrics.asked(views)
        results: list[JudgeResult] | None = None
        refused: schemas.RefusedError | None = None
        with self._admit(len(views)):
            async with anyio.create_task_group() as group:
                self._open.add(group.cancel_scope)

                async def watch() -> None:
                    await gone()
                    group.cancel_scope.cancel()

                group.start_soon(watch)
                try:
                    results = await self._pool.judge_all(
                        views, on_result=self._note, deadline_s=self.config.deadline_s
                    )
                except JudgeSetupError as error:  # a group too large for a call
                    refused = schemas.RefusedError("invalid_request", str(error))
                finally:
                    self._open.discard(group.cancel_scope)
                group.cancel_scope.cancel()
        if refused is not None:
            raise refused
        if results is None:
            raise schemas.RefusedError(
                "draining",
                "the service ended before these responses were judged: ask again",
            )
        return results

    def abandon(self) -> None:
        """Answer every open request that it will get no judgement."""
        for scope in self._open:
            scope.cancel()

    def _note(self, _position: int, result: JudgeResult) -> None:
        if result.latency_s is not None:
            self._latency_s += _LATENCY_WEIGHT * (result.latency_s - self._latency_s)
        self.metrics.judged(result)

    @contextmanager
    def _admit(self, count: int) -> Generator[None]:
        """Hold a place for each of `count` responses.

        Raises:
            RefusedError: the service is ending, or the queue is full.
        """
        if self.draining:
            wait_s = self._retry_after_s()
            raise schemas.RefusedError(
                "draining",
                "the service is ending: ask another one, or again when it is back",
                retry_after_s=wait_s,
            )
        # An empty queue accepts any request, however large.
        if self.queued and self.queued + count > self.config.max_queued:
            raise schemas.RefusedError(
                "busy",
                f"{self.queued} responses wait, and {count} more are above the bound of "
                f"{self.config.max_queued}: ask again after Retry-After seconds, or send fewer",
                retry_after_s=self._retry_after_s(),
            )
        self.queued += count
        try:
            yield
        finally:
            self.queued -= count

    def _retry_after_s(self) -> int:
        """Estimate how long the responses that wait now will take."""
        wait_s = self.queued * self._latency_s / self._in_flight
        return math.ceil(min(max(wait_s, 1), _LONGEST_RETRY_S))
