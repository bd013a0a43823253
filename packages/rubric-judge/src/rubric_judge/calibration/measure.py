"""From a judge's judgements and people's labels to a calibration."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from rubric_core import ConfigError
from rubric_core.arrays import FloatArray
from rubric_judge.calibration import pairing, record, report, verdicts
from rubric_judge.calibration.reward import reward_calibration
from rubric_judge.console.progress import current
from rubric_judge.errors import says
from rubric_judge.estimates import UNKNOWN, Estimate
from rubric_judge.page.tables import counted
from rubric_judge.reliability import agreement, noise, rates
from rubric_judge.reliability.intervals import Intervals
from rubric_judge.reliability.ratings import IntArray, ratio

_FEWEST_SHARED: Final = 8
"""Responses that several raters labelled; fewer say too little of their agreement."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a calibration is made."""

    bound: float = 0.3
    """Of J, for the verdicts."""
    resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0


def calibrate(
    paired: pairing.Paired,
    *,
    fingerprint: str | None = None,
    answers: Mapping[int, str] | None = None,
    settings: Settings | None = None,
) -> report.CalibrationReport:
    """Measure a judge against labels.

    Args:
        paired: judgements and labels of the same responses.
        fingerprint: the judge's; its name if None, which the notes say.
        answers: `hash_answer` of every response that labels were drawn from, by its line; without
            them the calibration corrects no mean reward.
        settings: how.

    Returns:
        The calibration; what the labels cannot say is None in it.

    Raises:
        ConfigError: no labelled response has scores of the judge.
    """
    _require_scores(paired)
    ratings, settings = paired.ratings, settings or Settings()
    study = Study(
        paired,
        settings,
        Intervals(
            documents_N=[task.doc_hash for task in ratings.tasks_N],
            tasks_N=ratings.task_ids_N,
            resamples=settings.resamples,
            confidence=settings.confidence,
            seed=settings.seed,
            weights_N=paired.weights_N,
        ),
    )
    cells = ratings.cells_by_criterion
    criteria: list[record.CriterionCalibration] = []
    with current().phase("measuring", total=len(cells) + 1) as phase:
        for name in cells:
            criteria.append(study.criterion(name))
            phase.advance()
        reward = reward_calibration(paired, study.intervals, answers)
        phase.advance()
    labelled: list[int] = np.flatnonzero(~np.isnan(paired.label_NM).all(axis=1)).tolist()
    return report.CalibrationReport(
        version=1,
        judge=ratings.judges[0],
        judge_fingerprint=fingerprint or ratings.judges[0],
        rubrics=record.labelled_rubrics(ratings.tasks_N[n] for n in labelled),
        answers=tuple((answers or {}).values()),
        raters=paired.raters,
        given=int((~np.isnan(paired.people_JNM) & ~np.isnan(paired.first_NM)).sum()),
        criteria=tuple(sorted(criteria, key=_by_j)),
        reward=reward,
        **asdict(settings),
        notes=tuple(_notes(paired, is_named=fingerprint is not None)),
    )


def _require_scores(paired: pairing.Paired) -> None:
    if not (~np.isnan(paired.first_NM) & ~np.isnan(paired.label_NM)).any():
        failed = ", ".join(f"{name} {n}" for name, n in paired.ratings.reasons_J[0].items())
        judge, why = paired.ratings.judges[0], f" ({failed})" if failed else ""
        raise ConfigError(says("none_scored", judge=judge, failed=why), location="judge")


def _by_j(one: record.CriterionCalibration) -> tuple[bool, bool, float]:
    """What is not admitted comes first."""
    is_admitted = one.verdict is record.Verdict.ADMIT
    return is_admitted, one.youden_j.value is None, one.youden_j.value or 0.0


def _notes(paired: pairing.Paired, *, is_named: bool) -> list[str]:
    notes: list[str] = []
    if not is_named:
        notes.append(report.WORDS["known_by_name"])
    if unsure := sum(paired.unsure.values()):
        told = "says" if unsure == 1 else "say"
        notes.append(
            f"{counted(unsure, 'label')} more {told} that the rater cannot tell: not counted."
        )
    if divided := int((paired.divided_NM & ~np.isnan(paired.label_NM)).sum()):
        pairs = counted(divided, "response–criterion pair")
        notes.append(f"{pairs}: as many raters say met as not, so no label for TPR, FPR and J.")
    if paired.unjudged:
        notes.append(f"{paired.unjudged:,} labels are of responses without a judgement: left out.")
    if paired.weights_N is not None:
        notes.append(report.WORDS["unequal_draws"])
    return notes


@dataclass(frozen=True)
class Study:
    """Judgements and labels, and how intervals are made of them."""

    paired: pairing.Paired
    settings: Settings
    intervals: Intervals

    def criterion(self, name: str) -> record.CriterionCalibration:
        """Measure one criterion over all tasks that share its id."""
        ratings = self.paired.ratings
        n, m = ratings.cells_by_criterion[name]
        z_NR = np.full(ratings.rewards_JNR.shape[1:], np.nan)
        label_N, first_N, said_N = np.full((3, len(z_NR)), np.nan)
        z_NR[n], label_N[n] = self.paired.judge_NRM[n, :, m], self.paired.label_NM[n, m]
        first_N[n], said_N[n] = self.paired.first_NM[n, m], self.paired.decided_NM[n, m]
        rows = np.flatnonzero(~np.isnan(label_N) & ~np.isnan(first_N))
        shares_N = np.zeros(len(z_NR))
        shares_N[n] = ratings.alpha_NM[n, m]
        decided = rates.confusion(z_NR[:, :, None], said_N[:, None])
        found = self.intervals.rates(decided)
        positives, negatives = int(decided.met_N.sum()), int(decided.not_met_N.sum())
        people = self._people(n, m)
        decision = verdicts.decide(
            verdicts.Evidence(
                found,
                positives,
                negatives,
                self._slope(z_NR, label_N, rows),
                people,
                self.settings.bound,
                self.settings.confidence,
                self.paired.unsure.get(name, 0) if np.isnan(label_N).all() else 0,
            )
        )
        both_JN1 = np.stack([first_N, label_N])[:, :, None]
        repeated = noise.retest(z_NR)
        return record.CriterionCalibration(
            criterion=name,
            labels=len(rows),
            positives=positives,
            divided=int(np.isnan(said_N[rows]).sum()),
            share=float(shares_N[rows if len(rows) else n].mean()),
            tpr=found.tpr,
            fpr=found.fpr,
            youden_j=found.youden_j,
            bias=self.intervals.bias(repeated.mean - label_N, rows),
            agreement=self.intervals.estimate(agreement.alpha(both_JN1, "ordinal"), rows),
            noise=self._noise(repeated, np.flatnonzero(repeated.df)),
            levels=self._levels(repeated, label_N, rows),
            people=people,
            **decision._asdict(),
        )

    def _noise(self, repeated: noise.Retest, rows: IntArray) -> Estimate:
        return self.intervals.estimate(ratio(repeated.squares, repeated.df), rows)

    def _levels(
        self, repeated: noise.Retest, label_N: FloatArray, rows: IntArray
    ) -> tuple[record.LevelCalibration, ...]:
        found: list[record.LevelCalibration] = []
        for low, high in record.LEVELS:
            z_N = label_N[rows]
            inside = z_N == low if low == high else (z_N >= low) & (z_N < high) & (z_N > 0)
            mine = rows[inside]
            if len(mine):
                found.append(
                    record.LevelCalibration(
                        low=low,
                        high=high,
                        labels=len(mine),
                        bias=self.intervals.bias(repeated.mean - label_N, mine),
                        noise=self._noise(repeated, mine[repeated.df[mine] > 0]),
                    )
                )
        return tuple(found)

    def _slope(self, z_NR: FloatArray, label_N: FloatArray, rows: IntArray) -> float:
        """Return the slope of the label on one judgement's z, within [0, 1]; 0 where z is constant.

            β = Cov(y, z) / Var(z)

        α β z is the linear function of z that is nearest to α y, in mean square.
        """
        weights_N = self.paired.weights_N
        weights_n = np.ones(len(rows)) if weights_N is None else weights_N[rows]
        z_nR = z_NR[rows]
        scored_nR = ~np.isnan(z_nR)
        z = z_nR[scored_nR]
        if not len(z) or not np.ptp(z):
            return 0.0
        label, weights = (
            np.broadcast_to(one_n[:, None], z_nR.shape)[scored_nR]
            for one_n in (label_N[rows], weights_n)
        )
        both = np.cov(label, z, bias=True, aweights=weights)
        slope = float(both[0, 1] / both[1, 1])
        return 0.0 if math.isnan(slope) else min(max(slope, 0.0), 1.0)

    def _people(self, n: list[int], m: list[int]) -> Estimate:
        """Return α between raters over the responses that at least two labelled."""
        people_JN = np.full(self.paired.people_JNM.shape[:2], np.nan)
        people_JN[:, n] = self.paired.people_JNM[:, n, m]
        rows = np.flatnonzero((~np.isnan(people_JN)).sum(axis=0) > 1)
        if len(rows) < _FEWEST_SHARED:
            return UNKNOWN
        return self.intervals.estimate(agreement.alpha(people_JN[:, :, None], "ordinal"), rows)
