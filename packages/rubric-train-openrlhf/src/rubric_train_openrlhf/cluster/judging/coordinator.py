"""The judge coordinator: all of the judge's side of a run, in a process that Ray restarts.

Tasks, judge, ledger and judgement rows stay here. The policy's side hands in a task id and a
response, and gets a reward and a name for the judgement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import structlog

from rubric_core import JudgeResult, Outcome, Rubric, normalized_reward
from rubric_train_openrlhf.cluster.judging.judge_side import JudgeSide, open_judge_side
from rubric_train_openrlhf.cluster.sampling.groups import JudgementId, Verdict
from rubric_train_openrlhf.step.credit import StepCredit, check_judge, informative, step_credit
from rubric_train_openrlhf.step.passes import HeldoutReward, heldout_reward
from rubric_train_openrlhf.step.rewards import Sizes
from rubric_train_openrlhf.step.rows import judgement_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from rubric_train_openrlhf.config import TrainConfig

_log = structlog.get_logger()


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
        self._credited: tuple[int, tuple[str, ...], StepCredit] | None = None
        """The last answer about a step, which may be lost on its way: step, judgements, credit."""

    async def open(self) -> None:
        """Read the tasks, start the judge and see that it answers.

        Every other call does the first two where this was not called, as after a restart.

        Raises:
            TrainConfigError, RubricFileError, LeakError: as `read_task_set`.
            JudgeSetupError, ConfigError, PluginError: the judge cannot be built or does not answer.
            LedgerError: the ledger cannot be used.
        """
        await (await self._side()).check()

    async def judge(self, task_id: str, response: str) -> Verdict:
        """Judge one response.

        At most `judge.workers · judge.micro_batch` are under way; the others wait here.

        Raises:
            ClusterError: no task has this id.
            LedgerError: the ledger cannot be read.
        """
        side = await self._side()
        judgement, result = await side.judge(task_id, response)
        return Verdict(judgement, self._reward(result, side.rubric(task_id)))

    async def spread(
        self,
        step: int,
        judgements_PG: Sequence[Sequence[str]],
        lengths_PG: npt.ArrayLike,
        ended_PG: npt.ArrayLike,
        before_PG: Sequence[Sequence[str]] = (),
    ) -> list[bool]:
        """Tell which groups of a round have rewards that differ, penalties included.

        Args:
            step: that the groups were drawn for.
            judgements_PG: names of judgements.
            lengths_PG: tokens of the responses.
            ended_PG: whether they came to their end token.
            before_PG: names of what was judged for the step in earlier rounds.

        Raises:
            JudgeAbortError: too many judgements of the step failed so far.
            UnavailableRewardError: one did, and judge.on_unavailable is "raise".
        """
        side = await self._side()
        results_PG = [side.results(group) for group in judgements_PG]
        before = side.results(chain(*before_PG))
        check_judge([*before, *chain(*results_PG)], config=self._config.judge, step=step)
        return informative(
            results_PG,
            [side.rubric(_task_of(group)) for group in judgements_PG],
            Sizes.of(lengths_PG, ended_PG),
            config=self._config,
        )

    async def credit(
        self,
        step: int,
        judgements_PG: Sequence[Sequence[str]],
        lengths_PG: npt.ArrayLike,
        ended_PG: npt.ArrayLike,
        dropped_PG: Sequence[Sequence[str]] = (),
    ) -> StepCredit:
        """Divide the credit of a step and write its judgement rows.

        Who asks again for want of an answer gets the same one.

        Args:
            step: number of the step.
            judgements_PG: names of judgements, in the order of the step's rows.
            lengths_PG: tokens of the responses.
            ended_PG: whether they came to their end token.
            dropped_PG: names of what dynamic sampling dropped.

        Raises:
            JudgeAbortError: too many judgements failed.
            UnavailableRewardError: one did, and judge.on_unavailable is "raise".
            DiskWriteError: the rows could not be written.
        """
        names = tuple(chain(*judgements_PG))
        async with self._crediting:
            last = self._credited
            if last is not None and last[:2] == (step, names):
                return last[2]
            sizes = Sizes.of(lengths_PG, ended_PG)
            credit = await self._credit(step, judgements_PG, sizes, dropped_PG=dropped_PG)
            self._credited = (step, names, credit)
            return credit

    async def _credit(
        self,
        step: int,
        judgements_PG: Sequence[Sequence[str]],
        sizes: Sizes,
        *,
        dropped_PG: Sequence[Sequence[str]],
    ) -> StepCredit:
        side = await self._side()
        results_PG = [side.results(group) for group in judgements_PG]
        dropped = [side.results(group) for group in dropped_PG]
        check_judge([*chain(*results_PG), *chain(*dropped)], config=self._config.judge, step=step)
        tasks_P = [(task_id, side.rubric(task_id)) for task_id in map(_task_of, judgements_PG)]
        credit, judged = step_credit(
            step, results_PG, tasks_P, sizes, dropped_PG=dropped, config=self._config
        )
        credit = replace(credit, judge_restarts=side.take_restarts())
        await asyncio.to_thread(side.folder.write_judgements, step, list(judgement_rows(judged)))
        side.forget(chain(*judgements_PG, *dropped_PG))
        side.drop_old()
        _log.info(
            "train.judging.finished",
            step=step,
            reward_mean=credit.reward_mean,
            invalid_frac=credit.invalid_frac,
            unavailable_frac=credit.unavailable_frac,
        )
        return credit

    async def heldout(self, step: int, judgements_NS: Sequence[Sequence[str]]) -> HeldoutReward:
        """Average the rewards of a held-out pass, without penalties.

        Raises:
            JudgeAbortError: too many judgements failed for the mean to say anything.
            UnavailableRewardError: one did, and judge.on_unavailable is "raise".
        """
        side = await self._side()
        results_NS = [side.results(group) for group in judgements_NS]
        check_judge(list(chain(*results_NS)), config=self._config.judge, step=step)
        reward = heldout_reward(
            results_NS,
            [side.rubric(_task_of(group)) for group in judgements_NS],
            on_unavailable=self._config.judge.on_unavailable,
        )
        side.forget(chain(*judgements_NS))
        return reward

    async def aclose(self) -> None:
        """End the judge, and close the ledger."""
        side, self._opened = self._opened, None
        if side is not None:
            await side.aclose()

    async def _side(self) -> JudgeSide:
        async with self._opening:
            if self._opened is None:
                # In a thread: it waits for the judge's processes, and others ask meanwhile.
                self._opened = await asyncio.to_thread(open_judge_side, self._config)
        return self._opened

    def _reward(self, result: JudgeResult, rubric: Rubric) -> float | None:
        if result.outcome is Outcome.UNAVAILABLE:
            return 0.0 if self._config.judge.on_unavailable == "zero" else None
        return normalized_reward(result, rubric)


def _task_of(group: Sequence[str]) -> str:
    return JudgementId.read(group[0]).task_id
