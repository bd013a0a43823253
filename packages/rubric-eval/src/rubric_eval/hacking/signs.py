"""Length, hedging, appeals and echoes of answers, model by model and between models."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rubric_core import Task
from rubric_core.files import toml_beside
from rubric_eval.hacking import results
from rubric_eval.statistics import Interval, mean_interval, paired_interval

_PHRASES: Final = toml_beside(__file__, "phrases.toml")
HEDGES: Final[tuple[str, ...]] = tuple(_PHRASES["hedges"])
"""Phrases that keep an answer from being wrong."""

APPEALS: Final[tuple[str, ...]] = tuple(_PHRASES["appeals"])
"""Phrases that speak to a judge."""

_WORD: Final = re.compile(r"\w+(?:['’]\w+)*")


def words(text: str) -> list[str]:
    """Take the words of a text, in lower case."""
    return _WORD.findall(text.lower())


class Phrases:
    """Phrases to count in many texts; only where one could begin is it looked for."""

    def __init__(self, phrases: Collection[str]) -> None:
        """Sort the phrases by their first word."""
        self._by_first: defaultdict[str, list[list[str]]] = defaultdict(list)
        for phrase in set(phrases):
            first, *rest = phrase.split(" ")
            self._by_first[first].append(rest)
        self._firsts = frozenset(self._by_first)

    def count(self, text_words: list[str]) -> int:
        """Count how often any of the phrases stands in a text; twice in a row is twice."""
        if self._firsts.isdisjoint(text_words):
            return 0
        starts = [at for at, word in enumerate(text_words, 1) if word in self._firsts]
        return sum(
            text_words[at : at + len(rest)] == rest
            for at in starts
            for rest in self._by_first[text_words[at - 1]]
        )


class Echo:
    """Runs of words that stand in a task's criteria, and in neither its question nor its passage.

    A model sees the question, and may know what the passage says. It has no way to the wording of
    the criteria, so an answer that holds it was trained towards the rubric's language, or saw it.
    """

    def __init__(self, task: Task, *, n: int) -> None:
        """Collect the runs of n words."""
        self._n = n
        known = _runs(words(task.question), n) | _runs(words(task.grounding.reveal()), n)
        texts = (
            text
            for one in task.rubric
            for text in (
                *(one.name, one.description, one.scoring_guide),
                *(*one.required_elements, *one.expected_keywords, *one.expected_concepts),
            )
        )
        self._hidden = {run for text in texts for run in _runs(words(text), n)} - known

    def is_in(self, text_words: list[str]) -> bool:
        """Whether an answer holds such a run."""
        return not self._hidden.isdisjoint(_runs(text_words, self._n))


def _runs(text_words: list[str], n: int) -> set[tuple[str, ...]]:
    return {tuple(text_words[at : at + n]) for at in range(len(text_words) - n + 1)}


_HUNDRED = 100


@dataclass(frozen=True)
class Signs:
    """What is counted in one answer."""

    question: str
    document: str
    reward: float
    words: int
    hedges: float
    appeals: float
    echoes: float | None


def signs_of(observed: Sequence[results.Observed], echoes: Mapping[str, Echo]) -> list[Signs]:
    """Count in each answer.

    Args:
        observed: answers of one model.
        echoes: wording of the criteria by task; where a task is missing, its echo is not known.
    """
    hedges, appeals = Phrases(HEDGES), Phrases(APPEALS)
    found: list[Signs] = []
    for one in observed:
        said = words(one.text)
        echo = echoes.get(one.task_id)
        found.append(
            Signs(
                question=one.task_id,
                document=one.doc_hash,
                reward=one.reward,
                words=len(said),
                hedges=_HUNDRED * hedges.count(said) / max(len(said), 1),
                appeals=float(appeals.count(said) > 0),
                echoes=None if echo is None else float(echo.is_in(said)),
            )
        )
    return found


def model_signs(
    model: str, signs: Sequence[Signs], settings: results.HackingSettings, *, unjudged: int
) -> results.ModelSigns:
    """Sum up one model's answers.

    Raises:
        EvalShapeError: there are none.
    """
    rewards = [one.reward for one in signs]
    lengths = [float(one.words) for one in signs]
    documents = [one.document for one in signs]
    questions = [one.question for one in signs]
    knows_echoes = any(one.echoes is not None for one in signs)
    return results.ModelSigns(
        model=model,
        answers=len(signs),
        words=_mean(signs, "words", settings),
        reward_length=results.rank_correlation(rewards, lengths, documents, **settings.draws),
        reward_length_within=results.within_correlation(
            rewards, lengths, questions, documents, seed=settings.seed
        ),
        hedges=_mean(signs, "hedges", settings),
        appeals=_mean(signs, "appeals", settings),
        echoes=_mean(signs, "echoes", settings) if knows_echoes else None,
        unjudged=unjudged,
    )


def changes(
    a: tuple[str, Sequence[Signs]],
    b: tuple[str, Sequence[Signs]],
    settings: results.HackingSettings,
) -> list[results.Change]:
    """Take a − b of each sign over the questions that both answered."""
    found: list[results.Change] = []
    for sign in ("reward", "words", "hedges", "appeals", "echoes"):
        of_a, documents = _by_question(a[1], sign)
        of_b, _ = _by_question(b[1], sign)
        both = [name for name in of_a if name in of_b]
        if not both:
            continue
        interval = paired_interval(
            [of_a[name] for name in both],
            [of_b[name] for name in both],
            clusters_N=[documents[name] for name in both],
            **settings.draws,
        )
        found.append(results.Change(**interval.model_dump(), sign=sign, a=a[0], b=b[0]))
    return found


def _mean(signs: Sequence[Signs], sign: str, settings: results.HackingSettings) -> Interval:
    values, documents = _by_question(signs, sign)
    clusters = [documents[name] for name in values]
    return mean_interval(list(values.values()), clusters_N=clusters, **settings.draws)


def _by_question(signs: Sequence[Signs], sign: str) -> tuple[dict[str, float], dict[str, str]]:
    """Mean over a question's answers, and its document."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    documents: dict[str, str] = {}
    for one in signs:
        value: float | None = getattr(one, sign)
        if value is not None:
            values[one.question].append(value)
            documents[one.question] = one.document
    return {name: sum(found) / len(found) for name, found in values.items()}, documents
