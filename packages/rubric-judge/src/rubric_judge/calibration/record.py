"""What a calibration found, as it is written to `calibration.json`, and whom it is valid for."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import Field

from rubric_core import ConfigError, Task
from rubric_core.files import read_file
from rubric_judge.estimates import UNKNOWN, Estimate
from rubric_judge.ledger.entry import hash_rubric
from rubric_judge.page.tables import Part


class Verdict(StrEnum):
    """What to do with a criterion."""

    ADMIT = "admit"
    """J is above the bound, with confidence: it enters the reward as it is."""
    WEIGH_DOWN = "weigh_down"
    """J is above 0, but not above the bound: it tells something, less than its weight says."""
    STRONGER_JUDGE = "stronger_judge"
    """J is below the bound, and people agree with each other: ask a judge that sees it, too."""
    REWRITE = "rewrite"
    """J is below the bound, and people do not agree with each other either."""
    MASK = "mask"
    """J is below the bound and not above 0: GRPO on it would collapse."""
    MORE_LABELS = "more_labels"
    """The labels cannot tell yet; `labels_needed` says how many more."""

    @property
    def words(self) -> str:
        """Its name, in tables."""
        return self.value.replace("_", " ")


LEVELS: Final = ((0.0, 0.0), (0.0, 0.5), (0.5, 1.0), (1.0, 1.0))
"""Of a label's z: none, less than half, half or more, all."""


class LevelCalibration(Part):
    """What the judge adds where people give a criterion so much."""

    low: float
    high: float
    """One of `LEVELS`."""
    labels: int
    bias: Estimate
    """Mean of judge − label."""
    noise: Estimate
    """Variance of the judge's z over replicates."""


class CriterionCalibration(Part):
    """One criterion under one judge, over all tasks that share its id."""

    criterion: str
    labels: int
    """Labelled responses that the judge scored, too."""
    positives: int
    """Labels at or above half of the weight."""
    share: float
    """Mean α_j over them."""
    tpr: Estimate
    """P(judge says met | label says met)."""
    fpr: Estimate
    """P(judge says met | label says not met)."""
    youden_j: Estimate
    """TPR − FPR; of no use to a policy at 0, harmful below."""
    bias: Estimate
    """Mean of judge − label, in z (0 to 1)."""
    agreement: Estimate
    """Krippendorff's ordinal α of judge and label, scores in tenths."""
    noise: Estimate
    """τ_j²: variance of the judge's z over replicates."""
    levels: tuple[LevelCalibration, ...] = ()
    people: Estimate = UNKNOWN
    """Krippendorff's ordinal α between the raters, where several labelled the same responses."""
    verdict: Verdict
    reason: str
    """Why, in one sentence with its figures."""
    labels_needed: int | None = None
    """Labels more until the verdict is expected to be clear; None where it is."""
    factor: float = Field(default=1.0, ge=0, le=1)
    """What the criterion's weight is multiplied by: 1 admitted; 0 where J is not above 0 with
    confidence; else the slope of the label on the judge's z."""


class RewardPair(Part):
    """A response that has both rewards: what a bias correction is made of."""

    task_id: str
    document: str
    """Its document's hash; documents are drawn together."""
    judge: float
    """Normalised reward by the judge, 0 to 1."""
    label: float
    """By the labels, 0 to 1."""
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """What it stands for, in a mean over what it was drawn from, beside the other pairs."""


class RewardCalibration(Part):
    """The whole reward R = Σ s_j / W under one judge."""

    pairs: tuple[RewardPair, ...]
    """Responses of which every criterion with weight is labelled and judged."""
    tpr: Estimate = UNKNOWN
    fpr: Estimate = UNKNOWN
    youden_j: Estimate = UNKNOWN
    """Of all labelled criteria together."""
    bias: Estimate
    """Mean of judge − label."""
    correlation: Estimate
    """Pearson's r of the two."""
    predicted: Estimate = UNKNOWN
    """τ² / M_eff: the paper's prediction of the variance of the reward."""
    independent: Estimate = UNKNOWN
    """Σ α_j² τ_j²: the prediction with each criterion's own noise."""
    measured: Estimate
    """Variance of the reward over replicates."""
    inflation: Estimate
    """measured / independent: above 1 where criteria err together."""
    error_correlation: Estimate
    """Mean correlation of judge − label between two criteria."""
    error_inflation: Estimate = UNKNOWN
    """Variance of the reward's error, judge − label, over that of independent errors."""
    flips: Estimate
    """Share of advantages whose sign the labels turn around."""


class Calibration(Part):
    """A judge measured against labels, and what it may be used for."""

    version: int = 1
    judge: str
    """Its name."""
    judge_fingerprint: str
    """Changes with model, prompt and parameters; a calibration is of one judge only."""
    rubrics: dict[str, str]
    """SHA-256 of each labelled task's rubric, by task id."""
    raters: tuple[str, ...]
    criteria: tuple[CriterionCalibration, ...]
    """Lowest J first; those without one at the end."""
    reward: RewardCalibration
    bound: float = 0.3
    """Of J, for the verdicts."""
    confidence: float = 0.95
    resamples: int = 1000
    seed: int = 0
    notes: tuple[str, ...] = ()
    """What a reader must know of how it was made."""

    def require(self, judge_fingerprint: str, tasks: Iterable[Task], *, source: str) -> None:
        """Refuse another judge than was calibrated, and another version of a labelled rubric.

        Args:
            judge_fingerprint: of the judge that is to be used.
            tasks: the tasks that it is to be used on; those that were not labelled pass.
            source: what the calibration is called in an error.

        Raises:
            ConfigError: says which, and what to do.
        """
        if judge_fingerprint != self.judge_fingerprint:
            by_name = self.judge_fingerprint == self.judge
            known = (
                ", which it knows by name only, having been made of --judgements without --judge"
            )
            raise ConfigError(
                f"{source}: it is of the judge {self.judge_fingerprint!r}"
                f"{known if by_name else ''}, not of {judge_fingerprint!r}: "
                "calibrate this judge, or use that one",
                location=source,
            )
        for task in tasks:
            if self.rubrics.get(task.task_id) not in (None, hash_rubric(task.rubric)):
                raise ConfigError(
                    f"{source}: the rubric of task {task.task_id!r} has changed since it was "
                    "labelled: label and calibrate anew",
                    location=source,
                )


def read_calibration(path: Path) -> Calibration:
    """Read `calibration.json`.

    Raises:
        ConfigError: it is no calibration; says where.
        OSError: the file cannot be read.
    """
    try:
        return Calibration.model_validate_json(read_file(path))
    except ValueError as error:
        raise ConfigError(
            f"{path}: this is no calibration ({type(error).__name__}): "
            "`rubric-judge calibrate` writes one",
            location=str(path),
        ) from None
