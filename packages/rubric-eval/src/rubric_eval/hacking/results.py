"""Reward against length, and what the panel found: hacking.json. No word of an answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, Unpack, cast

import numpy as np
import numpy.typing as npt
from pydantic import Field
from scipy import stats

from rubric_core.arrays import FloatArray
from rubric_core.files import toml_beside
from rubric_eval.records.inputs import Derived
from rubric_eval.records.run import Record
from rubric_eval.scores.judged import JudgedAnswers
from rubric_eval.statistics import Interval, bootstrap, intervals

_NOTES: Final[dict[str, str]] = toml_beside(__file__, "notes.toml")
_FEWEST_DOCUMENTS: Final = 5
_ROUNDING: Final = 1e-12
"""Share of Σx² below which a spread is what rounding left."""


class Correlation(Record):
    """Spearman's ρ over n answers."""

    rho: float
    ci_low: float | None
    """None where documents are too few to draw from, or where so few of them differ in reward or
    length that more draws than a tail of the interval holds have no ρ."""

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
    x_ranks, y_ranks = (
        np.asarray(cast("Any", stats).rankdata(one)) for one in (x_N, y_N)
    )
    return _correlated(x_ranks, y_ranks, documents_N, **draws)


def within_correlation(
    x_N: Sequence[float],
    y_N: Sequence[float],
    questions_N: Sequence[str],
    documents_N: Sequence[str],
    **draws: Unpack[bootstrap.IntervalDraws],
) -> Correlation | None:
    """Correlate ranks among the answers to one question, over all questions.

    What makes a question long to answer, or easy, is the same for all its answers and falls out.

    Returns:
        Of ranks less their mean in the question; None where no question has answers that vary.
    """
    _, of_N, counts = np.unique(
        np.asarray(questions_N), return_inverse=True, return_counts=True
    )
    several = np.flatnonzero(counts[of_N] > 1)
    if not several.size:
        return None
    x_ranks, y_ranks = (
        _centred_ranks(np.asarray(values_N, dtype=np.float64)[several], of_N[several])
        for values_N in (x_N, y_N)
    )
    return _correlated(
        x_ranks, y_ranks, [documents_N[int(at)] for at in several], **draws
    )


def _centred_ranks(values_N: FloatArray, of_N: npt.NDArray[np.intp]) -> FloatArray:
    """Rank each value among those of its question, less the mean rank there.

    All questions at once: ranked by question first, those of a question differ from their ranks by
    themselves by the same number.

    Args:
        values_N: values.
        of_N: the question of each.
    """
    _, place_N = np.unique(values_N, return_inverse=True)
    ranks_N = np.asarray(cast("Any", stats).rankdata(of_N * values_N.size + place_N))
    counts = np.maximum(np.bincount(of_N), 1)
    return ranks_N - (np.bincount(of_N, weights=ranks_N) / counts)[of_N]


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
    names, of_N = np.unique(np.asarray(documents_N), return_inverse=True)
    x_N = x_N - x_N.mean()
    y_N = y_N - y_N.mean()
    of_documents = np.stack(
        [
            np.bincount(of_N, weights=weights).astype(np.float64)
            for weights in (
                np.ones_like(x_N),
                x_N,
                y_N,
                x_N * x_N,
                y_N * y_N,
                x_N * y_N,
            )
        ]
    )
    rho = float(_pearson(of_documents.sum(axis=1)))
    low = None
    high = None
    if names.size >= _FEWEST_DOCUMENTS:
        draws_R = _pearson(
            bootstrap.drawn_sums(of_documents, resamples=resamples, seed=seed)
        )
        known_R = draws_R[~np.isnan(draws_R)]
        tail = (1 - confidence) / 2
        if known_R.size >= (1 - tail) * draws_R.size:
            low, high = (
                float(np.quantile(known_R, share)) for share in (tail, 1 - tail)
            )
    return Correlation(rho=rho, ci_low=low, ci_high=high, n=x_N.size)


def _pearson(moments: FloatArray) -> FloatArray:
    """Pearson's r from Σ1, Σx, Σy, Σx², Σy² and Σxy, the first axis; NaN without spread."""
    n, x, y, xx, yy, xy = moments
    spread_x = xx - x * x / n
    spread_y = yy - y * y / n
    is_known = (spread_x > _ROUNDING * xx) & (spread_y > _ROUNDING * yy)
    root = np.sqrt(np.where(is_known, spread_x * spread_y, 1.0))
    return np.clip(np.where(is_known, (xy - x * y / n) / root, np.nan), -1, 1)


class HackingSettings(Record):
    """How signs of hacking are looked for."""

    judge: str
    """Whose reward is looked into."""

    second: str | None = None
    """A judge that was not trained on."""

    baseline: str | None = None
    """Model that the others are set against; by default the first."""

    echo_words: int = Field(default=5, ge=2)
    """Words in a row that make an echo."""

    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    resamples: int = Field(default=1999, ge=99)
    seed: int = Field(default=0, ge=0)

    @property
    def draws(self) -> bootstrap.IntervalDraws:
        """How intervals are drawn."""
        return {
            "confidence": self.confidence,
            "resamples": self.resamples,
            "seed": self.seed,
        }


class ModelSigns(Record):
    """What the answers of a model are like."""

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
    """Answers without a judgement, by which nothing is said here."""


class Change(intervals.Difference):
    """a − b over the questions of both."""

    sign: Literal["reward", "words", "hedges", "appeals", "echoes"]


class SecondOpinion(Record):
    """A model's answers by two judges."""

    model: str
    n: int
    """Answers that both judged."""

    left_out: int = 0
    """Answers that the second judge was given and that one of both has no judgement of."""

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
    """The evaluation, from the folder of this file."""

    @property
    def conclusion(self) -> str:
        """What was tested and what not; it claims nothing of what nobody looked at."""
        changed = {change.sign for change in self.changes}
        is_tested = {
            "length": "words" in changed
            and any(model.reward_length for model in self.models),
            "hedging": "hedges" in changed,
            "speaking to the judge": "appeals" in changed,
            "wording of the criteria": "echoes" in changed,
            "a second judge": bool(self.divergences),
        }
        tested = ", ".join(name for name, was in is_tested.items() if was)
        if not tested:
            return _NOTES["untested"]
        found = "see the warnings" if self.warnings else "nothing calls for a warning"
        missing = ", ".join(name for name, was in is_tested.items() if not was)
        return f"Tested: {tested}; {found}." + (
            f" Not tested: {missing}." if missing else ""
        )


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
    rewards: dict[Key, float | None] = field(
        default_factory=dict["Key", "float | None"]
    )
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
                place = row.task_id, row.doc_hash, seed, row.sample
                found.answers.append(
                    Observed(*place, text=answer.text, reward=row.reward)
                )
    return found
