"""Answers with their rewards, as an evaluation's folder has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rubric_eval.answers import read_answers
from rubric_eval.records import ScoreRow
from rubric_eval.records.files import read_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_eval.records import EvalFolder


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
    def key(self) -> tuple[str, int, int]:
        """Question, seed and sample: the same for every judge."""
        return self.task_id, self.seed, self.sample


def read_observed(
    folder: EvalFolder, *, judge: str, model: str, seeds: Sequence[int]
) -> list[Observed]:
    """Join a model's answers with a judge's scores, in the order of the scores.

    Raises:
        EvalFolderError: a file of answers that is damaged.
        RubricFileError: a file of scores that is damaged.
        OSError: a file cannot be read.
    """
    found: list[Observed] = []
    for seed in seeds:
        texts = {
            (row.task_id, row.sample, row.key): row.text
            for row in read_answers(folder.answers(model, seed))
            if row.text is not None
        }
        found += [
            Observed(
                task_id=row.task_id,
                doc_hash=row.doc_hash,
                seed=seed,
                sample=row.sample,
                text=texts[row.task_id, row.sample, row.key],
                reward=row.reward,
            )
            for row in read_rows(folder.scores(judge, model, seed), ScoreRow)
            if row.reward is not None and (row.task_id, row.sample, row.key) in texts
        ]
    return found
