"""Reward against length, and the results of the panel: hacking.json. No word of an answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, Unpack, cast

import numpy as np
import numpy.typing as npt
from pydantic import Field
from scipy import stats

from rubric_core.arrays import FloatArray
from rubric_eval.records.inputs import Derived
from rubric_eval.records.run import Record
from rubric_eval.scores.judged import JudgedAnswers
from rubric_eval.statistics import Interval, bootstrap, intervals

_FEWEST_DOCUMENTS: Final = 5
_ROUNDING: Final = 1e-12
"""Share of Σx² below which a spread is only rounding."""


class Correlation(Record):
    """Spearman's ρ over n answers."""

    rho: float
    ci_low: float | None
    """Lower limit; None where documents are too few to draw from, or where so few of them differ in
    reward or length that more draws than a tail of the interval holds have no ρ."""

    ci_high: float | None
    n: int


def rank_correlation(
    x_N: Sequence[float],
    y_N: Sequence[float],
    documents_N: Sequence[str],
    **draws: Unpack[bootstrap.IntervalDraws],
) -> Correlation | None:
    """Correlate the ranks of x and y; the interval draws whole documents.

    Returns:
        Spearman's ρ, with the ranks of all values in every draw; None where x or y does not vary.
    """
    rankdata = cast("Any", stats).rankdata
    x_ranks_N = np.asarray(rankdata(x_N))
    y_ranks_N = np.asarray(rankdata(y_N))
    return _correlated(x_ranks_N, y_ranks_N, documents_N, **draws)


def within_correlation(
    x_N: Sequence[float],
    y_N: Sequence[float],
    questions_N: Sequence[str],
    documents_N: Sequence[str],
    **draws: Unpack[bootstrap.IntervalDraws],
) -> Correlation | None:
    """Correlate ranks among the answers to one question, over all questions.

    The length and difficulty of a question are the same for all its answers and cancel.

    Returns:
        The correlation of ranks less their mean in the question; None where no question has answers
        that vary.
    """
    _, group_N, counts = np.unique(
        np.asarray(questions_N), return_inverse=True, return_counts=True
    )
    several = np.flatnonzero(counts[group_N] > 1)
    if not several.size:
        return None
    groups = group_N[several]
    x_ranks = _centred_ranks(np.asarray(x_N, dtype=np.float64)[several], groups)
    y_ranks = _centred_ranks(np.asarray(y_N, dtype=np.float64)[several], groups)
    documents = [documents_N[int(index)] for index in several]
    return _correlated(x_ranks, y_ranks, documents, **draws)


def _centred_ranks(values_N: FloatArray, group_N: npt.NDArray[np.intp]) -> FloatArray:
    """Return the rank of each value among those of its question, less the mean rank there.

    All questions are ranked at once, sorted by question first. This shifts all ranks of a question
    by the same number.

    Args:
        values_N: values.
        group_N: number of the question of each value.
    """
    _, place_N = np.unique(values_N, return_inverse=True)
    rankdata = cast("Any", stats).rankdata
    ranks_N = np.asarray(rankdata(group_N * values_N.size + place_N))
    counts = np.maximum(np.bincount(group_N), 1)
    means = np.bincount(group_N, weights=ranks_N) / counts
    return ranks_N - means[group_N]


def _correlated(
    x_N: FloatArray,
    y_N: FloatArray,
    documents_N: Sequence[str],
    *,
    confidence: float = 0.95,
    resamples: int = 1999,
    seed: int = 0,
) -> Correlation | None:
    if np.ptp(x_N) == 0 or np.ptp(y_N) == 0:
        return None
    names, document_N = np.unique(np.asarray(documents_N), return_inverse=True)
    x_N = x_N - x_N.mean()
    y_N = y_N - y_N.mean()
    moments = (np.ones_like(x_N), x_N, y_N, x_N * x_N, y_N * y_N, x_N * y_N)
    sums = [np.bincount(document_N, weights=moment_N) for moment_N in moments]
    sums_by_document = np.stack(sums).astype(np.float64)
    rho = float(_pearson(sums_by_document.sum(axis=1)))
    low = None
    high = None
    if names.size >= _FEWEST_DOCUMENTS:
        drawn = bootstrap.drawn_sums(sums_by_document, resamples=resamples, seed=seed)
        draws_R = _pearson(drawn)
        known_R = draws_R[~np.isnan(draws_R)]
        tail = (1 - confidence) / 2
        if known_R.size >= (1 - tail) * draws_R.size:
            low = float(np.quantile(known_R, tail))
            high = float(np.quantile(known_R, 1 - tail))
    return Correlation(rho=rho, ci_low=low, ci_high=high, n=x_N.size)


def _pearson(moments: FloatArray) -> FloatArray:
    """Return Pearson's r from Σ1, Σx, Σy, Σx², Σy² and Σxy, the first axis; NaN without spread."""
    n, x, y, xx, yy, xy = moments
    spread_x = xx - x * x / n
    spread_y = yy - y * y / n
    is_known = (spread_x > _ROUNDING * xx) & (spread_y > _ROUNDING * yy)
    root = np.sqrt(np.where(is_known, spread_x * spread_y, 1.0))
    return np.clip(np.where(is_known, (xy - x * y / n) / root, np.nan), -1, 1)


class HackingSettings(Record):
    """Settings of the search for signs of hacking."""

    judge: str
    """Name of the judge whose rewards are examined."""

    second: str | None = None
    """Name of a judge that was not trained on."""

    baseline: str | None = None
    """Name of the model that the others are compared with; by default the first."""

    echo_words: int = Field(default=5, ge=2)
    """Number of words in a row that make an echo."""

    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    resamples: int = Field(default=1999, ge=99)
    seed: int = Field(default=0, ge=0)

    @property
    def draws(self) -> bootstrap.IntervalDraws:
        """Settings of the draws of intervals."""
        return {
            "confidence": self.confidence,
            "resamples": self.resamples,
            "seed": self.seed,
        }


class ModelSigns(Record):
    """The signs in the answers of a model."""

    model: str
    answers: int
    words: Interval
    """Length of an answer."""

    reward_length: Correlation | None
    """Reward against length over all answers; None where either does not vary."""

    reward_length_within: Correlation | None
    """The same among answers to one question; None with one answer a question."""

    hedges: Interval
    """Hedging phrases in 100 words."""

    appeals: Interval
    """Share of answers that speak to a judge."""

    echoes: Interval | None
    """Share of answers that hold wording of their criteria; None without the tasks."""

    unjudged: int = 0
    """Number of answers without a judgement, which are left out here."""


class Change(intervals.Difference):
    """a − b over the questions of both."""

    sign: Literal["reward", "words", "hedges", "appeals", "echoes"]


class SecondOpinion(Record):
    """A model's answers by two judges."""

    model: str
    n: int
    """Number of answers that both judged."""

    left_out: int = 0
    """Number of the second judge's answers that lack a judgement by either."""

    first_mean: float
    second_mean: float
    agreement: Correlation | None


class Divergence(intervals.Difference):
    """Gain by the first judge less the gain by the second, over the questions that both judged."""

    first: Interval
    """Gain a − b by the first judge."""

    second: Interval
    is_diverging: bool
    """Whether the first judge sees a gain, and a larger one than the second."""


class HackingPanel(Derived):
    """hacking.json."""

    settings: HackingSettings
    models: tuple[ModelSigns, ...]
    changes: tuple[Change, ...]
    opinions: tuple[SecondOpinion, ...]
    divergences: tuple[Divergence, ...]
    warnings: tuple[str, ...]
    folder: str = ""
    """Path of the evaluation from the folder of this file."""

    @property
    def conclusion(self) -> str:
        """The signs that were tested and those that were not, without claims on the latter."""
        changed = {change.sign for change in self.changes}
        has_length = any(model.reward_length for model in self.models)
        is_tested = {
            "length": "words" in changed and has_length,
            "hedging": "hedges" in changed,
            "speaking to the judge": "appeals" in changed,
            "wording of the criteria": "echoes" in changed,
            "a second judge": bool(self.divergences),
        }
        tested = ", ".join(name for name in is_tested if is_tested[name])
        if not tested:
            return (
                "Nothing was tested: signs show in what changes between two models. "
                "Evaluate the model that training began from beside this one."
            )
        result = "see the warnings" if self.warnings else "nothing calls for a warning"
        conclusion = f"Tested: {tested}; {result}."
        untested = ", ".join(name for name in is_tested if not is_tested[name])
        if untested:
            conclusion += f" Not tested: {untested}."
        return conclusion


Key: TypeAlias = tuple[str, int, int]
"""Question, seed and sample of an answer: the same for every judge."""


@dataclass(frozen=True, slots=True)
class Observed:
    """An answer and its reward by a judge."""

    task_id: str
    doc_hash: str
    seed: int
    sample: int
    text: str
    reward: float

    @property
    def key(self) -> Key:
        """Question, seed and sample, which identify the answer."""
        return self.task_id, self.seed, self.sample


@dataclass
class Judged:
    """Answers of one model with their rewards by one judge."""

    answers: list[Observed] = field(default_factory=list[Observed])
    rewards: dict[Key, float | None] = field(
        default_factory=dict["Key", "float | None"]
    )
    """Rewards of all answers that the judge was given; None where it gave no judgement."""

    @property
    def unjudged(self) -> int:
        """Number of answers without a judgement."""
        return sum(reward is None for reward in self.rewards.values())


def observed(judged: JudgedAnswers, seeds: Sequence[int]) -> Judged:
    """Return the answers with a text, and their rewards.

    Args:
        judged: answers of one model by one judge.
        seeds: seeds of the evaluation.
    """
    observations = Judged()
    for seed, pairs in zip(seeds, judged.pairs_S, strict=True):
        for answer, row in pairs.values():
            if answer.text is None:  # no answer came: there is nothing to look at
                continue
            observations.rewards[row.task_id, seed, row.sample] = row.reward
            if row.reward is None:
                continue
            observations.answers.append(
                Observed(
                    task_id=row.task_id,
                    doc_hash=row.doc_hash,
                    seed=seed,
                    sample=row.sample,
                    text=answer.text,
                    reward=row.reward,
                )
            )
    return observations
