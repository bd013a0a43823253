"""Length, hedging, appeals and echoes of answers, model by model and between models."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rubric_eval.hacking.correlation import rank_correlation, within_correlation
from rubric_eval.hacking.found import Change, ModelSigns
from rubric_eval.hacking.phrases import APPEALS, HEDGES, Echo, Phrases, words
from rubric_eval.statistics import Interval, mean_interval, paired_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rubric_eval.hacking.found import HackingSettings
    from rubric_eval.hacking.observed import Observed

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


def signs_of(observed: Sequence[Observed], echoes: Mapping[str, Echo]) -> list[Signs]:
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
    model: str, signs: Sequence[Signs], settings: HackingSettings, *, unjudged: int
) -> ModelSigns:
    """Sum up one model's answers.

    Raises:
        EvalShapeError: there are none.
    """
    rewards = [one.reward for one in signs]
    lengths = [float(one.words) for one in signs]
    documents = [one.document for one in signs]
    questions = [one.question for one in signs]
    knows_echoes = any(one.echoes is not None for one in signs)
    return ModelSigns(
        model=model,
        answers=len(signs),
        words=_mean(signs, lambda one: one.words, settings),
        reward_length=rank_correlation(
            rewards,
            lengths,
            documents,
            confidence=settings.confidence,
            resamples=settings.resamples,
            seed=settings.seed,
        ),
        reward_length_within=within_correlation(
            rewards, lengths, questions, documents, seed=settings.seed
        ),
        hedges=_mean(signs, lambda one: one.hedges, settings),
        appeals=_mean(signs, lambda one: one.appeals, settings),
        echoes=_mean(signs, lambda one: one.echoes, settings) if knows_echoes else None,
        unjudged=unjudged,
    )


def changes(
    a: tuple[str, Sequence[Signs]], b: tuple[str, Sequence[Signs]], settings: HackingSettings
) -> list[Change]:
    """Take a − b of each sign over the questions that both answered."""
    found: list[Change] = []
    for sign in ("reward", "words", "hedges", "appeals", "echoes"):

        def of(one: Signs, name: str = sign) -> float | None:
            return getattr(one, name)

        of_a, documents = _by_question(a[1], of)
        of_b, _ = _by_question(b[1], of)
        both = [name for name in of_a if name in of_b]
        if not both:
            continue
        interval = paired_interval(
            [of_a[name] for name in both],
            [of_b[name] for name in both],
            clusters_N=[documents[name] for name in both],
            confidence=settings.confidence,
            resamples=settings.resamples,
            seed=settings.seed,
        )
        found.append(Change(**interval.model_dump(), sign=sign, a=a[0], b=b[0]))
    return found


def _mean(
    signs: Sequence[Signs], of: Callable[[Signs], float | None], settings: HackingSettings
) -> Interval:
    values, documents = _by_question(signs, of)
    return mean_interval(
        list(values.values()),
        clusters_N=[documents[name] for name in values],
        confidence=settings.confidence,
        resamples=settings.resamples,
        seed=settings.seed,
    )


def _by_question(
    signs: Sequence[Signs], of: Callable[[Signs], float | None]
) -> tuple[dict[str, float], dict[str, str]]:
    """Mean over a question's answers, and its document."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    documents: dict[str, str] = {}
    for one in signs:
        value = of(one)
        if value is not None:
            values[one.question].append(value)
            documents[one.question] = one.document
    return {name: sum(found) / len(found) for name, found in values.items()}, documents
