"""Length, hedging, appeals and echoes of answers, and another judge's opinion of them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from rubric_eval.hacking.results import (
    Change,
    Correlation,
    Divergence,
    HackingSettings,
    Key,
    ModelSigns,
    Observed,
    SecondOpinion,
)
from rubric_eval.statistics import (
    Interval,
    mean_interval,
    paired_interval,
    score_interval,
)
from rubric_judge.quality.signs import APPEALS, HEDGES, Echo, Phrases, words
from rubric_judge.statistics.correlation import rank_correlation, within_correlation


@dataclass(frozen=True)
class Signs(Observed):
    """An answer with the counts of its signs."""

    words: int
    hedges: float
    appeals: float
    echoes: float | None
    second: float | None
    """Reward by the second judge."""


def signs_of(
    observed: Sequence[Observed],
    echoes: Mapping[str, Echo],
    second: Mapping[Key, float | None],
) -> list[Signs]:
    """Return each answer with the counts of its signs.

    Args:
        observed: answers of one model.
        echoes: wording of the criteria by task; the echoes of a missing task are unknown.
        second: rewards by a second judge; None where it gave no judgement.
    """
    hedges = Phrases(HEDGES)
    appeals = Phrases(APPEALS)
    counted: list[Signs] = []
    for answer in observed:
        answer_words = words(answer.text)
        echo = echoes.get(answer.task_id)
        echo_count = None
        if echo is not None:
            echo_count = float(echo.is_in(answer_words))
        counted.append(
            Signs(
                **asdict(answer),
                words=len(answer_words),
                hedges=100 * hedges.count(answer_words) / max(len(answer_words), 1),
                appeals=float(appeals.count(answer_words) > 0),
                echoes=echo_count,
                second=second.get(answer.key),
            )
        )
    return counted


def model_signs(
    model: str,
    signs: Sequence[Signs],
    settings: HackingSettings,
    *,
    unjudged: int,
) -> ModelSigns:
    """Return the mean signs of one model's answers.

    Raises:
        EvalShapeError: there are no answers.
    """
    rewards = [sign.reward for sign in signs]
    lengths = [float(sign.words) for sign in signs]
    documents = [sign.doc_hash for sign in signs]
    questions = [sign.task_id for sign in signs]
    knows_echoes = any(sign.echoes is not None for sign in signs)
    return ModelSigns(
        model=model,
        answers=len(signs),
        words=_mean_count(signs, "words", settings),
        reward_length=Correlation.of(
            rank_correlation(rewards, lengths, documents, **settings.draws)
        ),
        reward_length_within=Correlation.of(
            within_correlation(rewards, lengths, questions, documents, **settings.draws)
        ),
        hedges=_mean_count(signs, "hedges", settings),
        appeals=_share(signs, "appeals", settings),
        echoes=_share(signs, "echoes", settings) if knows_echoes else None,
        unjudged=unjudged,
    )


_NamedSigns = tuple[str, Sequence[Signs]]
"""A model's name, and the signs in its answers."""


def changes(a: _NamedSigns, b: _NamedSigns, settings: HackingSettings) -> list[Change]:
    """Return a − b of each sign over the questions that both answered."""
    a_name, a_signs = a
    b_name, b_signs = b
    gains: list[Change] = []
    for sign in ("reward", "words", "hedges", "appeals", "echoes"):
        a_N, b_N, documents = _paired(a_signs, b_signs, sign)
        if documents:
            gain = paired_interval(a_N, b_N, clusters_N=documents, **settings.draws)
            gains.append(Change(**gain.model_dump(), sign=sign, a=a_name, b=b_name))
    return gains


def _mean_count(
    signs: Sequence[Signs], sign: str, settings: HackingSettings
) -> Interval:
    values, documents = _by_question(signs, sign)
    clusters = [documents[name] for name in values]
    return mean_interval(
        list(values.values()), clusters_N=clusters, least=0, **settings.draws
    )


def _share(signs: Sequence[Signs], sign: str, settings: HackingSettings) -> Interval:
    """Return the share of answers with a sign."""
    values, documents = _by_question(signs, sign)
    return score_interval(
        list(values.values()),
        clusters_N=[documents[name] for name in values],
        confidence=settings.confidence,
    )


def _paired(
    a: Sequence[Signs], b: Sequence[Signs], sign: str
) -> tuple[list[float], list[float], list[str]]:
    """Return both sides' means of each question that both have, and the questions' documents."""
    a_means, documents = _by_question(a, sign)
    b_means, _ = _by_question(b, sign)
    shared = [question for question in a_means if question in b_means]
    return (
        [a_means[question] for question in shared],
        [b_means[question] for question in shared],
        [documents[question] for question in shared],
    )


def _by_question(
    signs: Sequence[Signs], sign: str
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the mean of each question's answers, and each question's document."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    documents: dict[str, str] = {}
    for answer in signs:
        value: float | None = getattr(answer, sign)
        if value is not None:
            values[answer.task_id].append(value)
            documents[answer.task_id] = answer.doc_hash
    means = {question: sum(x_K) / len(x_K) for question, x_K in values.items()}
    return means, documents


def second_opinion(
    model: str,
    signs: Sequence[Signs],
    settings: HackingSettings,
    *,
    judged: int,
) -> SecondOpinion | None:
    """Return two judges' mean rewards and agreement on one model; None without shared answers.

    Args:
        model: name of the model.
        signs: signs of its answers.
        settings: settings of the draws of the interval.
        judged: number of answers that the second judge was given.
    """
    first_N: list[float] = []
    second_N: list[float] = []
    documents_N: list[str] = []
    for answer in signs:
        if answer.second is not None:
            first_N.append(answer.reward)
            second_N.append(answer.second)
            documents_N.append(answer.doc_hash)
    n = len(first_N)
    if not n:
        return None
    return SecondOpinion(
        model=model,
        n=n,
        left_out=judged - n,
        first_mean=sum(first_N) / n,
        second_mean=sum(second_N) / n,
        agreement=Correlation.of(
            rank_correlation(first_N, second_N, documents_N, **settings.draws)
        ),
    )


def divergence(
    a: _NamedSigns, b: _NamedSigns, settings: HackingSettings
) -> Divergence | None:
    """Return both judges' gains a − b and their difference; None without shared questions."""
    a_name, a_signs = a
    b_name, b_signs = b
    a_judged = [answer for answer in a_signs if answer.second is not None]
    b_judged = [answer for answer in b_signs if answer.second is not None]
    a_first_N, b_first_N, clusters = _paired(a_judged, b_judged, "reward")
    a_second_N, b_second_N, _ = _paired(a_judged, b_judged, "second")
    if not clusters:
        return None
    first_N = [x - y for x, y in zip(a_first_N, b_first_N, strict=True)]
    second_N = [x - y for x, y in zip(a_second_N, b_second_N, strict=True)]
    first = mean_interval(first_N, clusters_N=clusters, **settings.draws)
    second = mean_interval(second_N, clusters_N=clusters, **settings.draws)
    apart = paired_interval(first_N, second_N, clusters_N=clusters, **settings.draws)
    return Divergence(
        **apart.model_dump(),
        a=a_name,
        b=b_name,
        first=first,
        second=second,
        is_diverging=first.is_above(0) and apart.is_above(0),
    )
