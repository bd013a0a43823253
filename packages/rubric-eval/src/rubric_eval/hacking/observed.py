"""Answers with their rewards, as an evaluation's folder has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_eval.scores.judged import JudgedAnswers

Key: TypeAlias = tuple[str, int, int]
"""Question, seed and sample of an answer: the same for every judge."""


@dataclass(frozen=True, slots=True)
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


def observed(judged: JudgedAnswers, seeds: Sequence[int]) -> Judged:
    """Take the answers with a text, and what they were given.

    Args:
        judged: answers of one model by one judge.
        seeds: of the evaluation.
    """
    found = Judged()
    for seed, pairs in zip(seeds, judged.pairs_S, strict=True):
        for answer, row in pairs.values():
            if answer.text is None:  # no answer came: there is nothing to look at
                continue
            found.rewards[row.task_id, seed, row.sample] = row.reward
            if row.reward is not None:
                found.answers.append(
                    Observed(
                        task_id=row.task_id,
                        doc_hash=row.doc_hash,
                        seed=seed,
                        sample=row.sample,
                        text=answer.text,
                        reward=row.reward,
                    )
                )
    return found
