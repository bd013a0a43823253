"""Monitors: figures of a step's answers by program, none of them in the reward.

A policy that learns its judge often shows it here first: answers grow, praise themselves, take one
form. No figure is an alarm: they say where to read.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from rubric_core import Answer, Task, Thought
from rubric_judge.quality.signs import (
    APPEALS,
    HEDGES,
    PRAISE,
    REFUSALS,
    Echo,
    Phrases,
    words,
)

ECHO_WORDS = 5
"""Words in a row that make an echo, as in an evaluation."""
_RUN_WORDS = 5
"""Words in a row whose most common run is looked for."""
_PAIR = 2
_HEDGES = Phrases(HEDGES)
_PRAISE = Phrases((*APPEALS, *PRAISE))
_REFUSALS = Phrases(REFUSALS)


@dataclass(frozen=True)
class Answers:
    """The answers of P groups of a step, as words too."""

    answers_PG: Sequence[Sequence[Answer]]
    words_PG: Sequence[Sequence[list[str]]]
    echoes_P: Sequence[Echo]

    @classmethod
    def of(
        cls, answers_PG: Sequence[Sequence[Answer]], tasks_P: Sequence[Task]
    ) -> Self:
        """Cut the answers to P tasks into words."""
        return cls(
            answers_PG,
            [[words(answer.text) for answer in group] for group in answers_PG],
            [Echo(task, n=ECHO_WORDS) for task in tasks_P],
        )

    @property
    def words_B(self) -> list[list[str]]:
        """Words of each answer, prompt-major."""
        return [answer for group in self.words_PG for answer in group]


Monitor = Callable[[Answers], float]
"""A figure of the answers of a step."""


def length(answers: Answers) -> float:
    """Return the mean number of words."""
    return _mean([len(answer) for answer in answers.words_B])


def hedging(answers: Answers) -> float:
    """Return the number of hedges in 100 words, the mean over the answers."""
    return _mean(
        [
            100 * _HEDGES.count(answer) / max(len(answer), 1)
            for answer in answers.words_B
        ]
    )


def self_praise(answers: Answers) -> float:
    """Return the share of answers that praise themselves or speak to a judge."""
    return _mean([_PRAISE.count(answer) > 0 for answer in answers.words_B])


def echo(answers: Answers) -> float:
    """Return the share of answers with five words in a row of their criteria alone."""
    return _mean(
        [
            of_task.is_in(answer)
            for of_task, group in zip(answers.echoes_P, answers.words_PG, strict=True)
            for answer in group
        ]
    )


def refusal(answers: Answers) -> float:
    """Return the share of answers that say that they do not answer."""
    return _mean([_REFUSALS.count(answer) > 0 for answer in answers.words_B])


def common_run(answers: Answers) -> float:
    """Return the share of answers that hold the most common run of five words of the step."""
    holders = Counter(
        run for answer in answers.words_B for run in set(_runs(answer, _RUN_WORDS))
    )
    most = max(holders.values(), default=0)
    return most / max(len(answers.words_B), 1)


def diversity(answers: Answers) -> float:
    """Return the share of different pairs of words among those of a group, the mean of groups."""
    shares: list[float] = []
    for group in answers.words_PG:
        pairs = [pair for answer in group for pair in _runs(answer, _PAIR)]
        shares.append(len(set(pairs)) / max(len(pairs), 1))
    return _mean(shares)


def thoughts(answers: Answers) -> float:
    """Return the share of responses with a thought, whether it ends or not."""
    return _mean(
        [
            answer.thought is not Thought.NONE
            for group in answers.answers_PG
            for answer in group
        ]
    )


MONITORS: Mapping[str, Monitor] = {
    "length": length,
    "hedging": hedging,
    "self_praise": self_praise,
    "echo": echo,
    "refusal": refusal,
    "common_run": common_run,
    "diversity": diversity,
    "thoughts": thoughts,
}
"""All monitors, by the name that they have in metrics.jsonl."""


def monitored(
    answers_PG: Sequence[Sequence[Answer]], tasks_P: Sequence[Task]
) -> dict[str, float]:
    """Return every monitor's figure.

    Args:
        answers_PG: P groups of answers.
        tasks_P: the task of each group; its rubric is read for echoes alone.
    """
    answers = Answers.of(answers_PG, tasks_P)
    return {name: monitor(answers) for name, monitor in MONITORS.items()}


def _runs(answer: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(answer[start : start + n]) for start in range(len(answer) - n + 1)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(len(values), 1)
