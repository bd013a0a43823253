"""Reward against length, and the results of the panel: hacking.json. No word of an answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

from pydantic import Field

from rubric_eval.records.inputs import Derived
from rubric_eval.records.run import Record
from rubric_eval.scores.judged import JudgedAnswers
from rubric_eval.statistics import Interval, intervals
from rubric_judge.statistics.bootstrap import IntervalDraws
from rubric_judge.statistics.estimate import Estimate

_FEWEST_DOCUMENTS = 5
_ROUNDING = 1e-12
"""Share of Σx² below which a spread is only rounding."""


class Correlation(Record):
    """Spearman's ρ over n answers."""

    rho: float
    ci_low: float | None
    """Lower limit; None where documents are too few to draw from, or where so few of them differ in
    reward or length that more draws than a tail of the interval holds have no ρ."""

    ci_high: float | None
    n: int

    @classmethod
    def of(cls, estimate: Estimate | None) -> Self | None:
        """Return the record of a correlation; None where there is none."""
        if estimate is None:
            return None
        return cls(
            rho=estimate.number,
            ci_low=estimate.low,
            ci_high=estimate.high,
            n=estimate.n or 0,
        )

    @property
    def estimate(self) -> Estimate:
        """ρ, its interval and n."""
        return Estimate(self.rho, self.ci_low, self.ci_high, self.n)


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
    def draws(self) -> IntervalDraws:
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
    """The same among answers to one question; None with one answer per question."""

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
    def sources(self) -> tuple[str, ...]:
        """The same, as for every file that is made of evaluations."""
        return (self.folder,)

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


Key = tuple[str, int, int]
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
