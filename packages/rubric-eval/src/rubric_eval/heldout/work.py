"""Models answer one after the other; what they answer is judged meanwhile by all judges."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, cast

import anyio

from rubric_core import RubricError
from rubric_eval.scores import JudgeDesk, Scoring
from rubric_judge import JudgePool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from anyio.abc import TaskGroup
    from anyio.streams.memory import MemoryObjectSendStream

    from rubric_eval.heldout.plan import HeldoutPlan
    from rubric_eval.heldout.sources import AnswerSource
    from rubric_eval.records import AnswerRow, EvalFolder
    from rubric_eval.scores import Answered, NamedJudge
    from rubric_judge import Ledger


def _nothing(*names: str) -> None:
    del names


@dataclass(frozen=True)
class HeldoutProgress:
    """What to call as an evaluation goes on."""

    on_answer: Callable[[str], None] = _nothing
    """With the model's name."""
    on_judged: Callable[[str, str], None] = _nothing
    """With the judge's name and the model's."""


@dataclass
class Work:
    """All answers before all judges; the files of a model are written when it is done."""

    folder: EvalFolder
    plan: HeldoutPlan
    judges: Sequence[NamedJudge]
    ledger: Ledger
    progress: HeldoutProgress = field(default_factory=HeldoutProgress)

    async def run(self, sources: Sequence[AnswerSource]) -> None:
        """Collect, judge and write.

        Raises:
            HeldoutAbortError: a model or a judge left too much open; see `Scoring`.
            RubricError: a model that does not run, or a file that cannot be used.
            OSError: a file that cannot be written.
        """
        desks: dict[str, JudgeDesk] = {}
        for judge in self.judges:
            pool = JudgePool(judge.replicas, workers=self.plan.workers, ledger=self.ledger)
            desks[judge.name] = JudgeDesk(pool, self.plan.by_id)
        try:
            async with anyio.create_task_group() as group:
                for source in sources:
                    await self._collect(source, desks, group)
        except BaseExceptionGroup as failures:
            raise _first(failures) from None

    async def _collect(
        self, source: AnswerSource, desks: dict[str, JudgeDesk], group: TaskGroup
    ) -> None:
        """Have a model answer, with a scoring by each judge behind it."""
        with ExitStack() as stack:
            streams = [
                stack.enter_context(self._scored(source.name, judge, desk, group))
                for judge, desk in desks.items()
            ]

            def pass_on(seed: int, answer: AnswerRow) -> None:
                self.progress.on_answer(source.name)
                for stream in streams:
                    stream.send_nowait((seed, answer))

            await source.collect(pass_on)

    def _scored(
        self, model: str, judge: str, desk: JudgeDesk, group: TaskGroup
    ) -> MemoryObjectSendStream[Answered]:
        """Start a scoring, and return where it takes answers from."""
        send, receive = anyio.create_memory_object_stream["Answered"](math.inf)
        scoring = Scoring(
            folder=self.folder,
            judge=judge,
            model=model,
            expected=self.plan.answers,
            max_unavailable_frac=self.plan.max_unavailable_frac,
            on_judged=partial(self.progress.on_judged, judge, model),
        )

        async def score_and_write() -> None:
            await scoring.run(receive, desk)
            scoring.write(seeds=self.plan.seeds, task_ids=self.plan.task_ids)

        group.start_soon(score_and_write)
        return send


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the failure that ended the work; what it cancelled is not one."""
    leaves = list(_leaves(failures))
    return next((leaf for leaf in leaves if isinstance(leaf, RubricError)), leaves[0])


def _leaves(failures: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for one in failures.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _leaves(cast("BaseExceptionGroup[BaseException]", one))
        else:
            yield one
