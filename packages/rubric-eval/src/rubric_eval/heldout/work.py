"""Models answer one after the other; what they answer is judged meanwhile by all judges."""

from __future__ import annotations

import math
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

import anyio

from rubric_core import RubricError
from rubric_eval.answers import AnswerKeys, check_weights, read_answers, stream_answers
from rubric_eval.errors import EvalFolderError
from rubric_eval.scores import JudgeDesk, Scoring
from rubric_judge import JudgePool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from anyio.abc import TaskGroup
    from anyio.streams.memory import MemoryObjectSendStream

    from rubric_eval.heldout.plan import HeldoutPlan
    from rubric_eval.records import AnswerRow, EvalFolder, ModelEntry
    from rubric_eval.responders import OpenModel
    from rubric_eval.scores import Answered, NamedJudge
    from rubric_judge import Ledger


class AnswerSource(Protocol):
    """All answers of one model."""

    @property
    def name(self) -> str:
        """The model's."""
        ...

    def check(self) -> None:
        """Refuse, before anything is written, a model that is not the one of its answers."""
        ...

    async def collect(self, on_answer: Callable[[int, AnswerRow], None]) -> None:
        """Give every answer once, with its seed."""
        ...


@dataclass(frozen=True)
class AskedModel:
    """Answers that are generated, but for those that the folder holds; then the model is closed."""

    model: OpenModel
    plan: HeldoutPlan
    folder: EvalFolder

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.name

    def check(self) -> None:
        """See `check_weights`."""
        check_weights(self.folder, self.model)

    async def collect(self, on_answer: Callable[[int, AnswerRow], None]) -> None:
        """Give every answer as it comes; see `stream_answers`."""
        plan = self.plan
        stream = stream_answers(
            self.model,
            plan.tasks,
            folder=self.folder,
            decoding=plan.decoding,
            seeds=plan.seeds,
            samples=plan.samples,
        )
        async with self.model, aclosing(stream):
            async for seed, row in stream:
                on_answer(seed, row)


@dataclass(frozen=True)
class KeptAnswers:
    """Answers that the folder holds; nothing is generated."""

    model: ModelEntry
    plan: HeldoutPlan
    folder: EvalFolder

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.name

    def check(self) -> None:
        """Nothing: no model is asked."""

    async def collect(self, on_answer: Callable[[int, AnswerRow], None]) -> None:
        """Give every answer.

        Raises:
            EvalFolderError: one is missing, or a file is damaged.
        """
        answers = list(kept_answers(self.folder, self.model, self.plan))
        if len(answers) != self.plan.answers:
            raise EvalFolderError(
                f"{self.folder.root} holds {len(answers)} of {self.plan.answers} answers of model "
                f"{self.name!r}: run the command `rubric-eval heldout` that started it to its end"
            )
        for seed, row in answers:
            on_answer(seed, row)


def kept_answers(
    folder: EvalFolder, model: ModelEntry, plan: HeldoutPlan
) -> Iterator[tuple[int, AnswerRow]]:
    """Yield the answers of a model that a folder holds, with their seeds.

    Raises:
        EvalFolderError: a file is damaged.
    """
    keys = AnswerKeys(model.fingerprint, plan.decoding)
    place = {task_id: at for at, task_id in enumerate(plan.task_ids)}
    for seed in plan.seeds:
        # As many steps as there are answers, whatever the plan asks for.
        kept = [
            (place[row.task_id], row.sample, row)
            for row in read_answers(folder.answers(model.name, seed))
            if row.task_id in place
            and row.sample < plan.samples
            and row.key == keys.of(plan.prompts[place[row.task_id]], seed=seed, sample=row.sample)
        ]
        for _, _, row in sorted(kept, key=lambda one: one[:2]):
            yield seed, row


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
