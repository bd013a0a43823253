"""The record of a calibration, `calibration.json`, and the judge and rubrics it is valid for."""

import math
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from operator import not_
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from rubric_core import ConfigError, Pool, Task
from rubric_core.configuration import read_written
from rubric_core.schema.pools import pool_of_any
from rubric_judge.models.model_config import Fraction, Positive, Share
from rubric_judge.pool.ledger.entry import hash_question, hash_rubric
from rubric_judge.statistics.estimate import UNKNOWN, Estimate
from rubric_judge.ui.page.tables import Part


class Verdict(StrEnum):
    """Verdict on a criterion: how to use it."""

    ADMIT = "admit"
    """J is above the bound, with confidence: it enters the reward as it is."""
    WEIGH_DOWN = "weigh_down"
    """J is above 0, but not above the bound: it tells something, less than its weight says."""
    STRONGER_JUDGE = "stronger_judge"
    """J is below the bound, and people agree with each other, or the judge says the same of every
    response: ask a judge that sees it, too."""
    REWRITE = "rewrite"
    """J is below the bound, and people do not agree with each other either."""
    MASK = "mask"
    """J is below the bound and not above 0: GRPO on it would collapse."""
    MORE_LABELS = "more_labels"
    """The labels cannot tell yet; `labels_needed` says about how many more."""

    @property
    def words(self) -> str:
        """Name of the verdict in tables."""
        return self.value.replace("_", " ")


KEPT = "kept; not proven yet"
"""Decision on a criterion to weigh down whose factor is shown as 1.00."""


def is_whole(factor: float) -> bool:
    """Whether a factor is shown as 1.00."""
    return f"{factor:.2f}" == "1.00"


LEVELS = ((0.0, 0.0), (0.0, 0.5), (0.5, 1.0), (1.0, 1.0))
"""Levels of a label's z: none, less than half, half or more, all."""


_ROUNDING = 1e-9


def _within(low: float, high: float) -> AfterValidator:
    """Return a validator of an estimate: number and interval within bounds, its ends in order."""

    def check(estimate: Estimate) -> Estimate:
        for name in ("value", "low", "high"):
            number = getattr(estimate, name)
            if number is not None and not low - _ROUNDING <= number <= high + _ROUNDING:
                bounds = f"from {low:g} to {high:g}"
                if high == math.inf:
                    bounds = f"at least {low:g}"
                raise ValueError(f"its {name} is {number:g} and must be {bounds}")
        lower = estimate.low
        upper = estimate.high
        if lower is not None and upper is not None and lower > upper + _ROUNDING:
            raise ValueError(f"its interval is from {lower:g} to {upper:g}")
        return estimate

    return AfterValidator(check)


Rate = Annotated[Estimate, _within(0, 1)]
Difference = Annotated[Estimate, _within(-1, 1)]
"""Difference of two shares; a correlation has the same bounds."""
Spread = Annotated[Estimate, _within(0, math.inf)]
Count = Annotated[int, Field(ge=0)]


class LevelCalibration(Part):
    """Bias and noise of the judge at one level of the label."""

    low: float
    high: float
    """One of `LEVELS`."""
    labels: Count
    bias: Difference
    """Mean of judge − label."""
    noise: Spread
    """Variance of the judge's z over replicates."""


class CriterionCalibration(Part):
    """One criterion under one judge, over all tasks: those that share its id, or its kind."""

    criterion: str
    """Name of the criterion's pool."""
    pool: Pool | None = Field(default=None, exclude_if=not_)
    """Criteria that were measured together; left out by an older version, whose rows are of one id
    each, whatever the criteria of that id asked for."""
    labels: Count
    """Number of labelled responses that the judge scored, too."""
    positives: Count
    """Number of labels at or above half of the weight."""
    divided: Count = 0
    """Number of ties: as many raters say met as not. They are in no rate."""
    share: float = Field(ge=0, le=1 + _ROUNDING)
    """Mean α_j over them."""
    tpr: Rate
    """P(judge says met | label says met)."""
    fpr: Rate
    """P(judge says met | label says not met)."""
    youden_j: Difference
    """TPR − FPR; of no use to a policy at 0, harmful below."""
    bias: Difference
    """Mean of judge − label, in z (0 to 1)."""
    agreement: Estimate
    """Krippendorff's ordinal α of judge and label."""
    noise: Spread
    """τ_j²: variance of the judge's z over replicates."""
    levels: tuple[LevelCalibration, ...] = ()
    people: Estimate = UNKNOWN
    """Krippendorff's ordinal α between the raters, where several labelled the same responses."""
    verdict: Verdict
    reason: str
    """Why, in one sentence with its figures."""
    labels_needed: Count | None = None
    """Labels more until the verdict may be clear, roughly; None where it is."""
    factor: Share
    """Factor on the criterion's weight: 1 admitted; 0 where J is not above 0 with
    confidence; else the slope of the label on the judge's z."""

    @property
    def pooled(self) -> Pool:
        """Criteria that were measured together."""
        return self.pool or pool_of_any(self.criterion)

    @property
    def decision(self) -> str:
        """The verdict in words; a factor of 1.00 weighs nothing down."""
        is_kept = self.verdict is Verdict.WEIGH_DOWN and is_whole(self.factor)
        return KEPT if is_kept else self.verdict.words

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.pool is not None and self.pool.name != self.criterion:
            raise ValueError(
                f"its pool is {self.pool.name!r}, and criterion {self.criterion!r}"
            )
        if self.positives + self.divided > self.labels:
            divided = f" and divided {self.divided}" if self.divided else ""
            raise ValueError(
                f"positives is {self.positives}{divided}, of {self.labels} labels"
            )
        only = _FACTORS.get(self.verdict, self.factor)
        if self.factor != only:
            raise ValueError(
                f"factor is {self.factor:g}; under verdict {self.verdict.value!r} it is {only:g}"
            )
        rates = self.tpr.value, self.fpr.value, self.youden_j.value
        if None not in rates:
            tpr, fpr, j = (float(rate or 0) for rate in rates)
            if abs(tpr - fpr - j) > _ROUNDING:
                raise ValueError(f"youden_j is {j:g}; TPR − FPR is {tpr - fpr:g}")
        return self


_FACTORS = {Verdict.ADMIT: 1.0, Verdict.MASK: 0.0, Verdict.MORE_LABELS: 0.0}
"""Factors of the verdicts that allow only one."""


class RewardPair(Part):
    """A response with both rewards; a bias correction is computed from these."""

    task_id: str
    document: str
    """Hash of the response's document; documents are drawn together."""
    judge: float
    """Normalised reward by the judge, 0 to 1."""
    label: float
    """Normalised reward by the labels, 0 to 1."""
    answer: str = ""
    """`hash_answer` of the judged answer; empty in a calibration of an older version."""
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Weight of the pair in a mean over the answers that it was drawn from."""


def _of_shares(pair: RewardPair) -> RewardPair:
    for name in ("judge", "label"):
        reward = getattr(pair, name)
        if not -_ROUNDING <= reward <= 1 + _ROUNDING:
            raise ValueError(f"its {name} is {reward:g} and must be from 0 to 1")
    return pair


class RewardCalibration(Part):
    """The whole reward R = Σ s_j / W under one judge."""

    pairs: tuple[Annotated[RewardPair, AfterValidator(_of_shares)], ...]
    """Responses of which every criterion with weight is labelled and judged."""
    tpr: Rate = UNKNOWN
    fpr: Rate = UNKNOWN
    youden_j: Difference = UNKNOWN
    """J of all labelled criteria together."""
    bias: Difference
    """Mean of judge − label."""
    correlation: Difference
    """Pearson's r of the two."""
    predicted: Spread = UNKNOWN
    """τ² / M_eff: the paper's prediction of the variance of the reward."""
    independent: Spread = UNKNOWN
    """Σ α_j² τ_j²: the prediction with each criterion's own noise."""
    measured: Spread
    """Variance of the reward over replicates."""
    inflation: Estimate
    """measured / independent: above 1 where criteria err together."""
    error_correlation: Estimate
    """Mean correlation of judge − label between two criteria."""
    error_inflation: Estimate = UNKNOWN
    """Variance of the reward's error, judge − label, over that of independent errors."""
    m_eff: Estimate = UNKNOWN
    """M_eff of the labelled responses' rubrics, by their weights alone, and so without an error."""
    effective_criteria: Estimate = UNKNOWN
    """M_eff over `error_inflation`: the effective number by the errors."""
    flips: Rate
    """Share of advantages whose sign the labels turn around."""


class Calibration(Part):
    """A judge measured against labels, with the verdicts on its use."""

    version: Literal[1]
    judge: str
    """Name of the judge."""
    judge_fingerprint: str
    """Changes with model, prompt and parameters; a calibration is of one judge only."""
    rubrics: dict[str, tuple[str, ...]]
    """SHA-256 of the rubrics that were labelled, by `hash_question`: a task's id would change with
    its rubric."""
    answers: tuple[str, ...] = ()
    """`hash_answer` of every response that labels were drawn from, labelled or not: whose mean
    reward they can correct. Empty in a calibration of an older version."""
    raters: tuple[str, ...]
    criteria: tuple[CriterionCalibration, ...]
    """One for each pool that a labelled criterion belongs to: its id where that repeats, else its
    kind. Lowest J first; those without one at the end."""
    kinds: tuple[CriterionCalibration, ...] = ()
    """Kinds whose labelled criteria have all a pool of their own ids: other ids are looked up under
    them. A kind is measured on all of its criteria."""
    reward: RewardCalibration
    bound: float = Field(default=0.3, ge=-1, le=1)
    """Bound of J that the verdicts compare with."""
    confidence: Fraction = 0.95
    resamples: Positive = 1000
    seed: int = 0
    notes: tuple[str, ...] = ()
    """Remarks that a reader must know about how the calibration was made."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        counts = Counter(
            calibration.criterion for calibration in (*self.criteria, *self.kinds)
        )
        for name, count in counts.items():
            if count > 1:
                raise ValueError(f"criterion {name!r} stands in it {count} times")
        return self

    @property
    def by_pool(self) -> dict[Pool, CriterionCalibration]:
        """All calibrations by pool; `known_pool` finds that of a criterion."""
        return {
            calibration.pooled: calibration
            for calibration in (*self.criteria, *self.kinds)
        }

    def labels_any(self, tasks: Iterable[Task]) -> bool:
        """Whether a response to any of these tasks' questions was labelled."""
        return any(hash_question(task) in self.rubrics for task in tasks)

    def require(
        self, judge_fingerprint: str, tasks: Iterable[Task], *, source: str
    ) -> None:
        """Refuse another judge than was calibrated, and another version of a labelled rubric.

        Args:
            judge_fingerprint: fingerprint of the judge to use.
            tasks: the tasks that it is to be used on; those that were not labelled pass.
            source: name of the calibration in an error.

        Raises:
            ConfigError: names the mismatch and the remedy.
        """
        if judge_fingerprint != self.judge_fingerprint:
            known = ""
            if self.judge_fingerprint == self.judge:
                known = (
                    ", which it knows by name only, having been made of "
                    "--judgements without --judge"
                )
            raise ConfigError(
                f"{source}: it is of the judge {self.judge_fingerprint!r}{known}, not of "
                f"{judge_fingerprint!r}: calibrate this judge, or use that one",
                location=source,
            )
        for task in tasks:
            labelled = self.rubrics.get(hash_question(task))
            if labelled and hash_rubric(task.rubric) not in labelled:
                raise ConfigError(
                    f"{source}: the rubric of task {task.task_id!r} has changed since it was "
                    "labelled: label and calibrate anew",
                    location=source,
                )


def labelled_rubrics(tasks: Iterable[Task]) -> dict[str, tuple[str, ...]]:
    """Return the hashes of tasks' rubrics by the hashes of their questions."""
    hashes_by_question: dict[str, set[str]] = {}
    for task in tasks:
        hashes_by_question.setdefault(hash_question(task), set()).add(
            hash_rubric(task.rubric)
        )
    return {
        question: tuple(sorted(hashes))
        for question, hashes in hashes_by_question.items()
    }


def read_calibration(path: Path) -> Calibration:
    """Read `calibration.json`.

    Raises:
        ConfigError: it is not a valid calibration; names the field and its value.
        OSError: the file cannot be read.
    """
    what = "this is no calibration as `rubric-judge calibrate` writes one"
    cascade = {
        "uncertainty": (
            "this is a cascade's calibration: name it as `calibration` in the cascade's YAML"
        )
    }
    return read_written(path, Calibration, what=what, others=cascade)
