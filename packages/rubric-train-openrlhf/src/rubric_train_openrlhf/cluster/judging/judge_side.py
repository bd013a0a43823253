"""What the judge's side holds: tasks, judge and ledger, and what was judged lately."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import anyio
import structlog

from rubric_core import JudgeResult, Outcome, Reason
from rubric_judge import JudgePool, JudgeSetupError, Ledger, LexicalConfig, load_replicas
from rubric_judge.pool import RayJudgePool
from rubric_train_openrlhf.cluster.sampling.groups import JudgementId
from rubric_train_openrlhf.errors import ClusterError
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.step.tasks import TaskBook, read_book

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rubric_core import JudgeView, Rubric
    from rubric_judge import JudgeSpec
    from rubric_judge.pool import PoolStatistics
    from rubric_train_openrlhf.config import JudgingConfig, TrainConfig


_TRIES = 4
_AGAIN_S = 2.0

_log = structlog.get_logger()


async def until_there(check: Callable[[], Awaitable[object]]) -> None:
    """Ask the judge a question of one line, and again where it fails, as it may now and then.

    Args:
        check: of the judge's pool.

    Raises:
        JudgeSetupError: it does not answer.
    """
    for left in reversed(range(_TRIES)):
        try:
            await check()
        except JudgeSetupError:
            if not left:
                raise
            await asyncio.sleep(_AGAIN_S)
        else:
            return


def probe_judge(config: TrainConfig) -> None:
    """Ask the judge of a run whether it answers and takes the key, within seconds.

    The processes of a cluster that runs already have an environment and a network of their own:
    there the judge coordinator alone asks, as it does on any cluster.

    Raises:
        JudgeSetupError: no replica of the judge answers; says why, and what to do.
        ConfigError, PluginError: the judge cannot be built.
    """
    if config.cluster.ray.address is None and config.cluster.ray.dashboard is None:
        anyio.run(_probe, config.judge.spec)


async def _probe(spec: JudgeSpec) -> None:
    pool = JudgePool(load_replicas(spec))
    try:
        await until_there(pool.check)
    finally:
        await pool.aclose()
    _log.info("train.judge.there", judge=spec.type)


class Pool(Protocol):
    """`JudgePool` and `RayJudgePool`, as far as they are used here."""

    @property
    def fingerprint(self) -> str:
        """What identifies the judge's scores."""
        ...

    @property
    def warm_call(self) -> bool:
        """Whether a group's first response goes alone."""
        ...

    async def judge_all(
        self, views: Sequence[JudgeView], *, deadline_s: float | None = ...
    ) -> list[JudgeResult]:
        """Judge every view."""
        ...

    async def check(self) -> list[JudgeSetupError]:
        """Ask whether the judge is there."""
        ...

    def statistics(self) -> PoolStatistics:
        """What it has done."""
        ...

    async def aclose(self) -> None:
        """End the judges."""
        ...


@dataclass(frozen=True, slots=True)
class CoordinatorStatistics:
    """What the judge's side has done since its process started."""

    pool: PoolStatistics
    actors_replaced: int
    """Processes of the judge that died and were replaced."""
    unwritten: int
    """Judgements that the ledger could not keep."""


class JudgeSide:
    """Everything that is open while judgements are made. Serves one event loop."""

    def __init__(
        self,
        *,
        books: Sequence[TaskBook],
        pool: Pool,
        ledger: Ledger,
        folder: RunFolder,
        deadline_s: float | None,
    ) -> None:
        """Use `open_judge_side`."""
        self.folder = folder
        self._books = books
        self._pool = pool
        self._ledger = ledger
        self._deadline_s = deadline_s
        self._under_way: dict[str, asyncio.Task[JudgeResult]] = {}
        self._warming: dict[str, asyncio.Task[JudgeResult]] = {}
        self._recent: dict[str, JudgeResult] = {}
        self._older: dict[str, JudgeResult] = {}
        self._restarts_told = 0

    def rubric(self, task_id: str) -> Rubric:
        """Rubric of a task."""
        return self._book(task_id).rubric(task_id)

    async def judge(self, task_id: str, response: str) -> tuple[str, JudgeResult]:
        """Judge a response; one that is being judged already is not judged twice.

        Returns:
            The judgement's name and the result.

        Raises:
            ClusterError: no task has this id.
            LedgerError: the ledger cannot be read.
        """
        view = self._book(task_id).view_of(task_id, response=response)
        key = self._ledger.key(view, judge=self._pool.fingerprint)
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(self._judge_in_turn(view))
            self._under_way[key] = task
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        # One caller's end must not end it for the others.
        result = await asyncio.shield(task)
        if result.outcome is Outcome.UNAVAILABLE and result.reason is not None:
            judgement = JudgementId.failed(task_id, result.reason)
        else:
            judgement = JudgementId(task_id=task_id, key=key)
        self._recent[judgement.text] = result
        return judgement.text, result

    async def check(self) -> None:
        """See that the judge answers, from where it will be asked.

        Raises:
            JudgeSetupError: it does not answer.
        """
        await until_there(self._pool.check)

    def results(self, judgements: Sequence[str]) -> list[JudgeResult]:
        """Find judgements again, by their names.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        return [self._result(name) for name in judgements]

    def forget(self, judgements: Sequence[str]) -> None:
        """Drop judgements; the ledger keeps them."""
        for name in judgements:
            self._recent.pop(name, None)
            self._older.pop(name, None)

    def grow_old(self) -> None:
        """Drop what was judged before the last call and never asked for, as of an engine that died.

        With it goes what is known of the judge's prefix cache.
        """
        self._older, self._recent = self._recent, {}
        self._warming.clear()

    def statistics(self) -> CoordinatorStatistics:
        """Return what was done; waits for the judge's limiter."""
        return CoordinatorStatistics(
            pool=self._pool.statistics(),
            actors_replaced=self._replaced,
            unwritten=self._ledger.unwritten,
        )

    def take_restarts(self) -> int:
        """Count the judge's processes that were replaced since the last call."""
        new = self._replaced - self._restarts_told
        self._restarts_told = self._replaced
        return new

    @property
    def _replaced(self) -> int:
        return self._pool.replaced if isinstance(self._pool, RayJudgePool) else 0

    async def aclose(self) -> None:
        """End the judge, and close the ledger."""
        await self._pool.aclose()
        self._ledger.close()

    def _book(self, task_id: str) -> TaskBook:
        for book in self._books:
            if task_id in book:
                return book
        raise ClusterError(
            f"no task {task_id!r} in the task files: the prompts are of other tasks than the "
            "judge's; start the run again in another `out`"
        )

    def _result(self, name: str) -> JudgeResult:
        found = self._recent.get(name) or self._older.get(name)
        if found is not None:
            return found
        # The coordinator was started again since.
        judgement = JudgementId.read(name)
        if judgement.reason is not None:
            return JudgeResult.unavailable(judgement.reason)
        return self._ledger.find(judgement.key) or JudgeResult.unavailable(
            Reason.JUDGE_ERROR, detail="the ledger did not keep it when the judge coordinator died"
        )

    async def _judge_in_turn(self, view: JudgeView) -> JudgeResult:
        if self._pool.warm_call:
            first = self._warming.get(view.task_id)
            if first is not None:
                await asyncio.wait([first])
            elif (this := asyncio.current_task()) is not None:
                self._warming[view.task_id] = this
        (result,) = await self._pool.judge_all([view], deadline_s=self._deadline_s)
        return result


def open_judge_side(config: TrainConfig) -> JudgeSide:
    """Read the tasks, open the ledger and start the judge.

    The lexical judge is a program and works where it is called; every other is given to Ray's
    actors, in the cluster that this process belongs to.

    Raises:
        TrainConfigError, RubricFileError, LeakError: as `read_book`.
        JudgeSetupError, ConfigError, PluginError: the judge cannot be built.
        LedgerError: the ledger cannot be used.
    """
    data = config.data
    books = [read_book(data.train, leak_ngram=data.leak_ngram)]
    if data.validation is not None:
        books.append(read_book(data.validation, leak_ngram=data.leak_ngram))
    folder = RunFolder(config.out)
    ledger = Ledger(folder.ledger)
    try:
        pool = _pool(config.judge, ledger=ledger)
    except BaseException:
        ledger.close()
        raise
    return JudgeSide(
        books=books,
        pool=pool,
        ledger=ledger,
        folder=folder,
        deadline_s=config.judge.deadline_s,
    )


def _pool(config: JudgingConfig, *, ledger: Ledger) -> Pool:
    if isinstance(config.spec, LexicalConfig):
        return JudgePool(
            load_replicas(config.spec),
            workers=config.workers,
            micro_batch=config.micro_batch,
            ledger=ledger,
        )
    return RayJudgePool(
        config.spec,
        actors=config.workers,
        micro_batch=config.micro_batch,
        hedge=config.hedge,
        ledger=ledger,
    )
