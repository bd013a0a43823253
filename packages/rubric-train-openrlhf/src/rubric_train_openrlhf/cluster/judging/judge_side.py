"""What the judge's side holds: tasks, judge and ledger, and what was judged lately."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import anyio
import structlog

from rubric_core import JudgeResult, JudgeView, Outcome, Reason, Rubric
from rubric_judge import JudgePool, JudgeSetupError, JudgeSpec, Ledger, LexicalConfig, load_replicas
from rubric_judge.pool import RayJudgePool
from rubric_train_openrlhf.cluster.sampling.groups import JudgementId
from rubric_train_openrlhf.errors import ClusterError
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.step.tasks import TaskSet, read_task_set

if TYPE_CHECKING:
    from rubric_train_openrlhf.config import JudgingConfig, TrainConfig


_TRIES = 4
_AGAIN_S = 2.0

_log = structlog.get_logger()


async def wait_for_judge(check: Callable[[], Awaitable[object]]) -> None:
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
    if config.cluster.ray.is_own:
        anyio.run(_probe, config.judge.spec)


async def _probe(spec: JudgeSpec) -> None:
    pool = JudgePool(load_replicas(spec))
    try:
        await wait_for_judge(pool.check)
    finally:
        await pool.aclose()
    _log.info("train.judge.there", judge=spec.type)


class JudgeSide:
    """Everything that is open while judgements are made. Serves one event loop."""

    def __init__(
        self,
        *,
        books: Sequence[TaskSet],
        pool: JudgePool | RayJudgePool,
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
        self._previous: dict[str, JudgeResult] = {}
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
        view = self._book(task_id).judge_view(task_id, response=response)
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
        await wait_for_judge(self._pool.check)

    def results(self, judgements: Iterable[str]) -> list[JudgeResult]:
        """Find judgements again, by their names.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        return [self._result(name) for name in judgements]

    def forget(self, judgements: Iterable[str]) -> None:
        """Drop judgements; the ledger keeps them."""
        for name in judgements:
            self._recent.pop(name, None)
            self._previous.pop(name, None)

    def drop_old(self) -> None:
        """Drop what was judged before the last call and never asked for, as of an engine that died.

        With it goes what is known of the judge's prefix cache.
        """
        self._previous, self._recent = self._recent, {}
        self._warming.clear()

    def take_restarts(self) -> int:
        """Count the judge's processes that were replaced since the last call."""
        replaced = self._pool.replaced if isinstance(self._pool, RayJudgePool) else 0
        new, self._restarts_told = replaced - self._restarts_told, replaced
        return new

    async def aclose(self) -> None:
        """End the judge, and close the ledger."""
        await self._pool.aclose()
        self._ledger.close()

    def _book(self, task_id: str) -> TaskSet:
        for book in self._books:
            if task_id in book:
                return book
        raise ClusterError(
            f"no task {task_id!r} in the task files: the prompts are of other tasks than the "
            "judge's; start the run again in another `out`"
        )

    def _result(self, name: str) -> JudgeResult:
        found = self._recent.get(name) or self._previous.get(name)
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


def read_books(config: TrainConfig) -> dict[str, TaskSet]:
    """Read the tasks to train on, as `train`, and those of the held-out passes, as `validation`.

    Raises:
        TrainConfigError, RubricFileError, LeakError: as `read_task_set`.
    """
    data = config.data
    books = {"train": read_task_set(data.train, leak_ngram=data.leak_ngram, key="data.train")}
    if data.validation is not None:
        heldout = read_task_set(data.validation, leak_ngram=data.leak_ngram, key="data.validation")
        books["validation"] = heldout.first(config.validation.questions)
    return books


def open_judge_side(config: TrainConfig) -> JudgeSide:
    """Read the tasks, open the ledger and start the judge.

    The lexical judge is a program and works where it is called; every other is given to Ray's
    actors, in the cluster that this process belongs to.

    Raises:
        TrainConfigError, RubricFileError, LeakError: as `read_task_set`.
        JudgeSetupError, ConfigError, PluginError: the judge cannot be built.
        LedgerError: the ledger cannot be used.
    """
    books = list(read_books(config).values())
    folder = RunFolder(config.out)
    ledger = Ledger(folder.ledger)
    try:
        pool = _pool(config.judge, ledger=ledger)
    except BaseException:
        ledger.close()
        raise
    deadline_s = config.judge.deadline_s
    return JudgeSide(books=books, pool=pool, ledger=ledger, folder=folder, deadline_s=deadline_s)


def _pool(config: JudgingConfig, *, ledger: Ledger) -> JudgePool | RayJudgePool:
    spec, workers, micro_batch = config.spec, config.workers, config.micro_batch
    if isinstance(spec, LexicalConfig):
        replicas = load_replicas(spec)
        return JudgePool(replicas, workers=workers, micro_batch=micro_batch, ledger=ledger)
    return RayJudgePool(
        spec, actors=workers, micro_batch=micro_batch, hedge=config.hedge, ledger=ledger
    )
