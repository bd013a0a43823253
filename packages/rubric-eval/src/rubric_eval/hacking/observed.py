"""Answers with their rewards, as an evaluation's folder has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from rubric_eval.answers import read_answers
from rubric_eval.errors import EvalFolderError
from rubric_eval.records import ScoreRow
from rubric_eval.records.files import read_rows
from rubric_eval.scores.reading import has_scores

if TYPE_CHECKING:
    from rubric_eval.records import EvalFolder, EvalRun

Key: TypeAlias = tuple[str, int, int]
"""Question, seed and sample of an answer: the same for every judge."""


@dataclass(frozen=True)
class Observed:
    """An answer and what a judge gave it."""

    task_id: str
    doc_hash: str
    seed: int
    sample: int
    text: str
    reward: float

    @property
    def key(self) -> Key:
        """Which answer it is."""
        return self.task_id, self.seed, self.sample


@dataclass
class Judged:
    """Answers of one model with what one judge gave them."""

    answers: list[Observed] = field(default_factory=list[Observed])
    rewards: dict[Key, float | None] = field(default_factory=dict["Key", "float | None"])
    """Of every answer that the judge was given; None where it gave no judgement."""

    @property
    def unjudged(self) -> int:
        """Answers without a judgement."""
        return sum(reward is None for reward in self.rewards.values())


def read_judged(folder: EvalFolder, run: EvalRun, judge: str) -> dict[str, Judged]:
    """Join answers with a judge's scores, of the models that it judged, in the order of the run.

    Raises:
        EvalFolderError: a file of answers that is damaged, or a score that is of none of them.
        RubricFileError: a file of scores that is damaged.
        OSError: a file cannot be read.
    """
    found: dict[str, Judged] = {}
    for model in run.models:
        if has_scores(folder, run, judge=judge, model=model.name):
            found[model.name] = Judged()
            for seed in run.seeds:
                _read(folder, judge, model.name, seed, into=found[model.name])
    return found


def _read(folder: EvalFolder, judge: str, model: str, seed: int, *, into: Judged) -> None:
    given = {
        (row.task_id, row.sample, row.key): row.text
        for row in read_answers(folder.answers(model, seed))
    }
    for row in read_rows(folder.scores(judge, model, seed), ScoreRow):
        place = row.task_id, row.sample, row.key
        if place not in given:
            raise EvalFolderError(
                f"{folder.scores(judge, model, seed)}: the score of task {row.task_id}, sample "
                f"{row.sample}, is of no answer in {folder.answers(model, seed)}; judge again with "
                f"`rubric-eval rejudge {folder.root}`"
            )
        text = given[place]
        if text is None:  # no answer came: there is nothing to look at
            continue
        into.rewards[row.task_id, seed, row.sample] = row.reward
        if row.reward is not None:
            into.answers.append(
                Observed(
                    task_id=row.task_id,
                    doc_hash=row.doc_hash,
                    seed=seed,
                    sample=row.sample,
                    text=text,
                    reward=row.reward,
                )
            )
