"""The judge's side of a run: the only processes that hold a passage or a criterion.

Tasks, judge, ledger and judgement rows stay with the `JudgeCoordinator`, a process that Ray
restarts. The policy's side hands in a task id and an answer, and gets a reward and a name for the
judgement.
"""

import asyncio
from collections import ChainMap
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from typing import Any

import structlog

from rubric_core import Answer, JudgeResult, JudgeView, Outcome, Pooling, Reason, Task
from rubric_judge import JudgePool, Ledger, load_replicas
from rubric_judge.config import is_program
from rubric_judge.errors import JudgeSetupError
from rubric_judge.pool.ray_pool import RayJudgePool
from rubric_train_openrlhf.cluster.sampling.samples import JudgementId, Verdict
from rubric_train_openrlhf.config.sections import AuditConfig, JudgingConfig
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import ClusterError
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import (
    AuditFigures,
    AuditSource,
    HeldoutReward,
    Watched,
)
from rubric_train_openrlhf.step.admission import read_admission
from rubric_train_openrlhf.step.audit import Auditor, check_apart
from rubric_train_openrlhf.step.credit import Crediting, StepCredit, check_judge
from rubric_train_openrlhf.step.monitors import monitored
from rubric_train_openrlhf.step.probe import wait_for_judge
from rubric_train_openrlhf.step.rewards import Sizes, judge_rewards
from rubric_train_openrlhf.step.tasks import read_task_sets

Names = Sequence[Sequence[str]]
"""Names of judgements, group by group."""

_log = structlog.get_logger()


_Pool = JudgePool | RayJudgePool


def _pool(judging: JudgingConfig | AuditConfig, ledger: Ledger) -> _Pool:
    """Start a judge: a program where it is called, any other in actors of Ray.

    Raises:
        JudgeSetupError: as `refuse_groups`, and as the pools.
    """
    options: dict[str, Any] = {
        "micro_batch": judging.micro_batch,
        "hedge": judging.hedge,
        "ledger": ledger,
    }
    if is_program(judging.spec):
        replicas = load_replicas(judging.spec)
        return JudgePool(replicas, workers=judging.workers, **options)
    pool = RayJudgePool(judging.spec, actors=judging.workers, **options)
    refuse_groups(pool)
    return pool


class JudgeSide:
    """Everything that is open while judgements are made. Serves one event loop."""

    def __init__(self, config: TrainConfig) -> None:
        """Read the tasks, open the ledger and start the judge.

        A judge that is a program works where it is called; every other is given to Ray's
        actors, in the cluster that this process belongs to.

        Raises:
            TrainConfigError, RubricFileError, LeakError: as `read_task_set`.
            JudgeSetupError, ConfigError, PluginError: the judge cannot be built.
            LedgerError: the ledger cannot be used.
        """
        judge = config.judge
        self._tasks = ChainMap(*read_task_sets(config).values())
        self.folder = RunFolder(config.out)
        self._deadline_s = judge.deadline_s
        self._ledger = Ledger(self.folder.ledger)
        self.audit_pool: _Pool | None = None
        with ExitStack() as where_it_fails:
            where_it_fails.callback(self._ledger.close)
            self.pool = _pool(judge, self._ledger)
            tasks = self._tasks.values()
            identity = self.pool.fingerprint
            admission = read_admission(judge, tasks, judge_fingerprint=identity)
            admission.keep(self.folder)
            if config.audit is not None:
                self.audit_pool = _pool(config.audit, self._ledger)
                fingerprint = self.audit_pool.fingerprint
                check_apart(config, training=identity, audit=fingerprint)
            where_it_fails.pop_all()
        self.crediting = Crediting(config, admission, Pooling.of(tasks))
        self._under_way: dict[str, asyncio.Task[JudgeResult]] = {}
        self._warming: dict[str, asyncio.Task[JudgeResult]] = {}
        self._recent: dict[str, JudgeResult] = {}
        self._previous: dict[str, JudgeResult] = {}
        self._restarts_told = 0
        self._config = config
        self._auditor: Auditor | None = None

    @property
    def auditor(self) -> Auditor:
        """The audits so far, read when a run is under way and its rows are cut back."""
        if self._auditor is None:
            self._auditor = Auditor(
                self._config, self.folder, admission=self.crediting.admission
            )
        return self._auditor

    async def audited(
        self,
        source: AuditSource,
        step: int,
        judgements_PG: Names,
        answers_PG: Sequence[Sequence[Answer]],
    ) -> AuditFigures | None:
        """Audit a step or pass and return where the test stands; None where nothing is audited.

        What was audited already is not audited again.
        """
        if self.audit_pool is None or not self.auditor.audits(source):
            return None
        if (row := self.auditor.row(source, step)) is not None:
            return row.figures
        draw = self.auditor.draw(source, step, self.results(judgements_PG))
        tasks_P = self.tasks(judgements_PG)
        audit = self._config.audit
        results = await self.audit_pool.judge_all(
            draw.views(tasks_P, answers_PG),
            deadline_s=audit.deadline_s if audit else None,
        )
        pairs = draw.pairs(results)
        row = await asyncio.to_thread(self.auditor.note, source, step, pairs, tasks_P)
        return row.figures

    def task(self, task_id: str) -> Task:
        """Find a task.

        Raises:
            ClusterError: none has this id.
        """
        if (task := self._tasks.get(task_id)) is not None:
            return task
        raise ClusterError(
            f"no task {task_id!r} in the task files: the prompts are of other tasks than the "
            "judge's; start the run again in another `out`"
        )

    def reward(self, task_id: str, result: JudgeResult) -> float:
        """Reward of a judgement that happened, of what is admitted."""
        rubrics = [self.task(task_id).rubric]
        admission = self.crediting.admission
        rewards = judge_rewards(
            [[result]], rubrics, on_unavailable="mask", admission=admission
        )
        return float(rewards.rewards_PG[0, 0])

    async def judge(
        self, task_id: str, answer: str | Answer
    ) -> tuple[str, JudgeResult]:
        """Judge an answer; one that is being judged already is not judged twice.

        A response without an answer is not judged at all: its result follows from its name.

        Returns:
            The judgement's name and the result.

        Raises:
            ClusterError: no task has this id.
            LedgerError: the ledger cannot be read.
        """
        view = self.task(task_id).judge_view(answer)
        if view.unanswered is not None:
            (result,) = await self.pool.judge_all([view])
            return JudgementId(task_id=task_id, unanswered=view.unanswered).text, result
        key = self._ledger.key(view, judge=self.pool.fingerprint)
        if (task := self._under_way.get(key)) is None:
            task = self._under_way[key] = asyncio.create_task(self._judge_in_turn(view))
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        # One caller's end must not end it for the others.
        result = await asyncio.shield(task)
        judgement = JudgementId(task_id=task_id, key=key)
        if result.outcome is Outcome.UNAVAILABLE and result.reason is not None:
            judgement = JudgementId.failed(task_id, result.reason)
        self._recent[judgement.text] = result
        return judgement.text, result

    def results(self, judgements_PG: Names) -> list[list[JudgeResult]]:
        """Find the judgements of each group again, by their names.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        return [[self._result(name) for name in group] for group in judgements_PG]

    def tasks(self, judgements_PG: Names) -> list[Task]:
        """Return the task of each group."""
        return [
            self.task(JudgementId.read(group[0]).task_id) for group in judgements_PG
        ]

    def forget(self, judgements: Iterable[str]) -> None:
        """Drop judgements; the ledger keeps them."""
        for name in judgements:
            self._recent.pop(name, None)
            self._previous.pop(name, None)

    def drop_old(self) -> None:
        """Drop judgements from before the last call that nobody fetched, as when an engine died.

        With it goes what is known of the judge's prefix cache.
        """
        self._previous = self._recent
        self._recent = {}
        self._warming.clear()

    def take_restarts(self) -> int:
        """Count the judge's processes that were replaced since the last call."""
        replaced = self.pool.replaced if isinstance(self.pool, RayJudgePool) else 0
        new = replaced - self._restarts_told
        self._restarts_told = replaced
        return new

    async def aclose(self) -> None:
        """End the judge, and close the ledger."""
        await self.pool.aclose()
        if self.audit_pool is not None:
            await self.audit_pool.aclose()
        self._ledger.close()

    def _result(self, name: str) -> JudgeResult:
        if result := self._recent.get(name) or self._previous.get(name):
            return result
        # The coordinator was started again since.
        judgement = JudgementId.read(name)
        if (why := judgement.unanswered) is not None:
            rubric = self.task(judgement.task_id).rubric
            return JudgeResult.without_answer(rubric, why, judge=self.pool.name)
        if judgement.reason is not None:
            return JudgeResult.unavailable(judgement.reason)
        return self._ledger.find(judgement.key) or JudgeResult.unavailable(
            Reason.JUDGE_ERROR,
            detail="the ledger did not keep it when the judge coordinator died",
        )

    async def _judge_in_turn(self, view: JudgeView) -> JudgeResult:
        if self.pool.warm_call:
            if (first := self._warming.get(view.task_id)) is not None:
                await asyncio.wait([first])
            elif (this := asyncio.current_task()) is not None:
                self._warming[view.task_id] = this
        (result,) = await self.pool.judge_all([view], deadline_s=self._deadline_s)
        return result


def refuse_groups(pool: JudgePool) -> None:
    """Refuse a judge of whole groups.

    An engine asks for the verdict of each response as it ends, in so many places as the judge
    takes calls. Groups that wait for their last member would hold the places that it needs. And a
    response that is drawn again, because its engine died, would change verdicts on the others of
    its group that were given before.

    Raises:
        JudgeSetupError: it is one.
    """
    if pool.judges_groups:
        raise JudgeSetupError(
            f"the judge {pool.name!r} scores the responses to a task beside each other, and the "
            "engines of a cluster hand over each response as it ends, and wait for its verdict: "
            "give a judge of single responses, such as `type: llm`, or train with `backend: local`"
        )


class JudgeCoordinator:
    """Judges responses the moment they come, and divides the credit of a step.

    Its process may die and start again: what was judged is in the ledger, and the name of a
    judgement says where. Only one event loop may use it.
    """

    def __init__(self, config: TrainConfig) -> None:
        """Keep the configuration; what a constructor raises would be wrapped by Ray."""
        self._config = config
        self._opening = asyncio.Lock()
        self._opened: JudgeSide | None = None
        self._crediting = asyncio.Lock()
        self._auditing = asyncio.Lock()
        self._credited: tuple[tuple[int, tuple[str, ...]], StepCredit] | None = None
        """The last answer, which may be lost on its way: step and judgements, and the credit."""

    async def open(self) -> None:
        """Read the tasks, start the judge and see that it answers.

        Every other call does the first two where this was not called, as after a restart.

        Raises:
            TrainConfigError, RubricFileError, LeakError: as `read_task_set`.
            JudgeSetupError, ConfigError, PluginError: the judge cannot be built or does not answer.
            LedgerError: the ledger cannot be used.
        """
        side = await self._side()
        await wait_for_judge(side.pool.check)
        if side.audit_pool is not None:
            await wait_for_judge(side.audit_pool.check)

    async def judge(self, task_id: str, answer: str | Answer) -> Verdict:
        """Judge the answer in one response.

        At most `judge.workers · judge.micro_batch` are under way; the others wait here.

        Raises:
            ClusterError: no task has this id.
            LedgerError: the ledger cannot be read.
        """
        side = await self._side()
        judgement, result = await side.judge(task_id, answer)
        if result.outcome is not Outcome.UNAVAILABLE:
            return Verdict(judgement, side.reward(task_id, result))
        return Verdict(
            judgement, 0.0 if self._config.judge.on_unavailable == "zero" else None
        )

    async def spread(
        self, step: int, judgements_PG: Names, sizes: Sizes, before_PG: Names = ()
    ) -> list[bool]:
        """Tell which groups of a round have rewards that differ, penalties included.

        Args:
            step: that the groups were drawn for.
            judgements_PG: names of judgements.
            sizes: the responses' lengths, and whether they ended.
            before_PG: names of what was judged for the step in earlier rounds.

        Raises:
            JudgeAbortError: too many judgements of the step failed so far.
            UnavailableRewardError: one did, and judge.on_unavailable is "raise".
        """
        side = await self._side()
        before = side.results(before_PG)
        results_PG = side.results(judgements_PG)
        check_judge([*before, *results_PG], config=self._config.judge, step=step)
        return side.crediting.informative(results_PG, side.tasks(judgements_PG), sizes)

    async def credit(
        self, step: int, judgements_PG: Names, sizes: Sizes, dropped_PG: Names = ()
    ) -> StepCredit:
        """Divide the credit of a step and write its judgement rows.

        A repeated request gets the same answer.

        Args:
            step: number of the step.
            judgements_PG: names of judgements, in the order of the step's rows.
            sizes: the responses' lengths, and whether they ended.
            dropped_PG: names of what dynamic sampling dropped.

        Raises:
            JudgeAbortError: too many judgements failed.
            UnavailableRewardError: one did, and judge.on_unavailable is "raise".
            DiskWriteError: the rows could not be written.
        """
        asked = (step, tuple(chain(*judgements_PG)))
        async with self._crediting:
            if self._credited is not None and self._credited[0] == asked:
                return self._credited[1]
            side = await self._side()
            results_PG = side.results(judgements_PG)
            dropped = side.results(dropped_PG)
            check_judge([*results_PG, *dropped], config=self._config.judge, step=step)
            tasks_P = side.tasks(judgements_PG)
            credit, rows = side.crediting.of_step(
                step, results_PG, tasks_P, sizes, dropped
            )
            credit = replace(credit, judge_restarts=side.take_restarts())
            await asyncio.to_thread(side.folder.write_judgements, step, rows)
            side.forget(chain(*judgements_PG, *dropped_PG))
            side.drop_old()
            figures = credit.figures.model_dump(
                include={"invalid_frac", "unavailable_frac"}
            )
            figures["reward_mean"] = float(credit.rewards_PG[credit.valid_PG].mean())
            _log.info("train.judging.finished", step=step, **figures)
            self._credited = asked, credit
            return credit

    async def watch(
        self, step: int, judgements_PG: Names, answers_PG: Sequence[Sequence[Answer]]
    ) -> Watched:
        """Audit and monitor the responses of a step.

        A repeated request gets the same answer.

        Args:
            step: number of the step.
            judgements_PG: names of judgements, in the order of the step's rows.
            answers_PG: what was judged.

        Raises:
            DiskWriteError: the row of the audits could not be written.
        """
        side = await self._side()
        async with self._auditing:
            audit = await side.audited("training", step, judgements_PG, answers_PG)
        monitor: dict[str, float] = {}
        if self._config.is_monitored:
            tasks_P = side.tasks(judgements_PG)
            monitor = await asyncio.to_thread(monitored, answers_PG, tasks_P)
        return Watched(audit=audit, monitor=monitor)

    async def heldout(
        self,
        step: int,
        judgements_NS: Names,
        answers_NS: Sequence[Sequence[Answer]] = (),
    ) -> HeldoutReward:
        """Average the rewards of a held-out pass, without penalties, and audit it.

        Args:
            step: that the pass comes after.
            judgements_NS: names of judgements.
            answers_NS: what was judged, where some of it is audited.

        Raises:
            JudgeAbortError: too many judgements failed for the mean to say anything.
            UnavailableRewardError: one did, and judge.on_unavailable is "raise".
        """
        side = await self._side()
        results_NS = side.results(judgements_NS)
        tasks_N = side.tasks(judgements_NS)
        reward = side.crediting.of_heldout(step, results_NS, tasks_N)
        async with self._auditing:
            audit = await side.audited("heldout", step, judgements_NS, answers_NS)
        side.forget(chain(*judgements_NS))
        return reward if audit is None else reward.model_copy(update={"audit": audit})

    async def aclose(self) -> None:
        """End the judge, and close the ledger."""
        side = self._opened
        self._opened = None
        if side is not None:
            await side.aclose()

    async def _side(self) -> JudgeSide:
        async with self._opening:
            if self._opened is None:
                # In a thread: it waits for the judge's processes, and others ask meanwhile.
                self._opened = await asyncio.to_thread(JudgeSide, self._config)
        return self._opened
