"""Where the answers of a model come from: the model itself, or the folder."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rubric_eval.answers import AnswerKeys, check_weights, read_answers, stream_answers
from rubric_eval.errors import EvalFolderError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rubric_eval.heldout.plan import HeldoutPlan
    from rubric_eval.records import AnswerRow, EvalFolder, ModelEntry
    from rubric_eval.responders import OpenModel


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
