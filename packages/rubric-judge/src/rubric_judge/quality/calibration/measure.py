"""Measurement of a judge against people's labels: builds the calibration."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from rubric_core import ConfigError, Pool, Pooling
from rubric_core.arrays import FloatArray
from rubric_judge.quality.calibration import pairing, record, report, verdicts
from rubric_judge.quality.calibration.reward import reward_calibration
from rubric_judge.quality.reliability import agreement, noise, rates
from rubric_judge.quality.reliability.intervals import Intervals
from rubric_judge.quality.reliability.ratings import Cells, IntArray, ratio
from rubric_judge.statistics.estimate import UNKNOWN, Estimate
from rubric_judge.ui.console.progress import current
from rubric_judge.ui.page.tables import counted

_FEWEST_SHARED = 8
"""Fewest responses labelled by several raters for an estimate of their agreement."""


@dataclass(frozen=True)
class Settings:
    """Settings of a calibration."""

    bound: float = 0.3
    """Bound of J that the verdicts compare with."""
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
        fingerprint: the judge's; if None, the judge's name, and a note says so.
        answers: `hash_answer` by line of every response that labels were drawn from; without them
            the calibration corrects no mean reward.
        settings: bound, resamples, confidence and seed; the defaults when left out.

    Returns:
        The calibration; values that the labels do not determine are None.

    Raises:
        ConfigError: no labelled response has scores of the judge.
    """
    _require_scores(paired)
    ratings = paired.ratings
    settings = settings or Settings()
    study = Study(paired, settings)
    cells, others = _pools(paired)
    criteria: list[record.CriterionCalibration] = []
    kinds: list[record.CriterionCalibration] = []
    with current().phase("measuring", total=len(cells) + len(others) + 1) as phase:
        for pool, places in cells.items():
            criteria.append(study.criterion(pool, places))
            phase.advance()
        for pool, places in others.items():
            kinds.append(study.criterion(pool, places))
            phase.advance()
        reward = reward_calibration(paired, study.intervals(), answers)
        phase.advance()
    is_labelled_N = ~np.isnan(paired.label_NM).all(axis=1)
    labelled: list[int] = np.flatnonzero(is_labelled_N).tolist()
    has_both_JNM = ~np.isnan(paired.people_JNM) & ~np.isnan(paired.first_NM)
    return report.CalibrationReport(
        version=1,
        judge=ratings.judges[0],
        judge_fingerprint=fingerprint or ratings.judges[0],
        rubrics=record.labelled_rubrics(ratings.tasks_N[n] for n in labelled),
        answers=tuple((answers or {}).values()),
        raters=paired.raters,
        given=int(has_both_JNM.sum()),
        pairs=int(paired.labelled_NM.sum()),
        admitted=_admitted_frac(paired, criteria),
        criteria=tuple(sorted(criteria, key=_by_j)),
        kinds=tuple(sorted(kinds, key=_by_j)),
        reward=reward,
        **asdict(settings),
        notes=tuple(_notes(paired, is_named=fingerprint is not None)),
    )


def _pools(paired: pairing.Paired) -> tuple[Cells, Cells]:
    """Return the cells that are measured together, and those of kinds that have no pool there.

    A kind is measured on all of its criteria, also those with a pool of their ids, because other
    ids are looked up under it. Criteria without a kind are only measured with each other.
    """
    parts = dict(paired.ratings.cells(paired.pooling))
    whole = {
        pool: places
        for pool, places in paired.ratings.cells(Pooling()).items()
        if pool.kind is not None
    }
    parts |= {pool: places for pool, places in whole.items() if pool in parts}
    return parts, {pool: places for pool, places in whole.items() if pool not in parts}


def _admitted_frac(
    paired: pairing.Paired, criteria: list[record.CriterionCalibration]
) -> float | None:
    """Return the share of the labelled weight that enters the reward as it is."""
    whole = {criterion.pooled for criterion in criteria if criterion.factor == 1}
    admitted = total = 0.0
    for pool, (n, m) in paired.ratings.cells(paired.pooling).items():
        shares = paired.ratings.alpha_NM[n, m]
        weight = float(shares[paired.labelled_NM[n, m]].sum())
        total += weight
        admitted += weight if pool in whole else 0.0
    return admitted / total if total else None


def _require_scores(paired: pairing.Paired) -> None:
    if not paired.labelled_NM.any():
        failed = ", ".join(
            f"{name} {n}" for name, n in paired.ratings.reasons_J[0].items()
        )
        judge = paired.ratings.judges[0]
        why = f" ({failed})" if failed else ""
        raise ConfigError(
            f"the judge {judge!r} has scores for not a single labelled response{why}: judge "
            "the responses that were labelled",
            location="judge",
        )


def _by_j(criterion: record.CriterionCalibration) -> tuple[bool, bool, float]:
    """Sort key: criteria that are not admitted come first, then by J."""
    is_admitted = criterion.verdict is record.Verdict.ADMIT
    return (
        is_admitted,
        criterion.youden_j.value is None,
        criterion.youden_j.value or 0.0,
    )


def _notes(paired: pairing.Paired, *, is_named: bool) -> list[str]:
    notes: list[str] = []
    if not is_named:
        notes.append(report.KNOWN_BY_NAME)
    unsure = sum(paired.unsure.values()) + paired.unsure_unjudged
    if unsure:
        verb = "says" if unsure == 1 else "say"
        notes.append(
            f"{counted(unsure, 'label')} more {verb} that the rater cannot tell: not counted."
        )
    divided = int((paired.divided_NM & ~np.isnan(paired.label_NM)).sum())
    if divided:
        pairs = counted(divided, "response–criterion pair")
        notes.append(
            f"{pairs}: as many raters say met as not, so no label for TPR, FPR and J."
        )
    if paired.unjudged:
        notes.append(
            f"{paired.unjudged:,} labels are of responses without a judgement: left out."
        )
    if paired.weights_N is not None:
        notes.append(
            "Labelled responses were drawn with unequal probabilities. Each weighs 1 / "
            "inclusion in TPR, FPR, J, biases, factors, correlation and variance of "
            "errors, and the pairs of rewards. Not weighed, and so of the responses as "
            "they were drawn: counts of labels, both α, Pearson's r, noise, and "
            "advantages whose sign the labels turn."
        )
    notes += _pooled(paired)
    return notes


def _pooled(paired: pairing.Paired) -> list[str]:
    """Return the note on ids that are measured together with others."""
    ids_by_pool: dict[str, set[str]] = {}
    labelled: list[int] = np.flatnonzero(paired.labelled_NM.any(axis=1)).tolist()
    for n in labelled:
        for criterion in paired.ratings.tasks_N[n].rubric:
            pool = paired.pooling.pool(criterion)
            if criterion.weight and pool.id is None:
                ids_by_pool.setdefault(pool.name, set()).add(criterion.id)
    if not ids_by_pool:
        return []
    pooled_ids = set[str]().union(*ids_by_pool.values())
    ids = counted(len(pooled_ids), "id")
    kinds = ", ".join(
        f"{name} {len(pool_ids)}" for name, pool_ids in sorted(ids_by_pool.items())
    )
    note = (
        f"{ids} of criteria stand in too few of the labelled tasks, or ask for another "
        f"thing in each, and are measured by kind instead ({kinds}): every criterion of "
        "such a kind has its verdict."
    )
    return [note]


@dataclass(frozen=True)
class Study:
    """Judgements and labels with the settings of their intervals."""

    paired: pairing.Paired
    settings: Settings

    def intervals(self, n: Sequence[int] | None = None) -> Intervals:
        """Return the resampling of all responses, or of the given ones."""
        ratings = self.paired.ratings
        weights_N = self.paired.weights_N
        rows = range(len(ratings.tasks_N)) if n is None else n
        return Intervals(
            documents_N=[ratings.tasks_N[row].doc_hash for row in rows],
            tasks_N=[ratings.task_ids_N[row] for row in rows],
            resamples=self.settings.resamples,
            confidence=self.settings.confidence,
            seed=self.settings.seed,
            weights_N=None if weights_N is None else weights_N[list(rows)],
        )

    def criterion(
        self, pool: Pool, places: tuple[Sequence[int], Sequence[int]]
    ) -> record.CriterionCalibration:
        """Measure the criteria of a pool; every (n, m) of them is a row."""
        ratings = self.paired.ratings
        n, m = places
        cells = PoolOfCells(
            self.intervals(n),
            self.paired.judge_NRM[n, :, m],
            self.paired.label_NM[n, m],
            self.paired.people_JNM[:, n, m],
        )
        label_N = cells.label_N
        first_N = self.paired.first_NM[n, m]
        rows = np.flatnonzero(~np.isnan(label_N) & ~np.isnan(first_N))
        shares_N = ratings.alpha_NM[n, m]
        if len(rows):
            shares_N = shares_N[rows]
        decided_N = self.paired.decided_NM[n, m]
        confusion, measured = cells.decided(decided_N)
        positives = int(confusion.met_N.sum())
        negatives = int(confusion.not_met_N.sum())
        people = cells.people()
        unsure = sum(
            self.paired.unsure.get(place, 0) for place in zip(n, m, strict=True)
        )
        decision = verdicts.decide(
            verdicts.Evidence(
                rates=measured,
                positives=positives,
                negatives=negatives,
                slope=cells.slope(rows),
                people=people,
                bound=self.settings.bound,
                confidence=self.settings.confidence,
                unsure=unsure if np.isnan(label_N).all() else 0,
            )
        )
        both_JN1 = np.stack([first_N, label_N])[:, :, None]
        alpha_N = agreement.alpha(both_JN1, "ordinal")
        repeated = noise.retest(cells.z_NR)
        return record.CriterionCalibration(
            criterion=pool.name,
            pool=pool,
            labels=len(rows),
            positives=positives,
            divided=int(np.isnan(decided_N[rows]).sum()),
            share=float(shares_N.mean()),
            tpr=measured.tpr,
            fpr=measured.fpr,
            youden_j=measured.youden_j,
            bias=cells.intervals.bias(repeated.mean - label_N, rows),
            agreement=cells.intervals.estimate(alpha_N, rows),
            noise=cells.variance(repeated, np.flatnonzero(repeated.df)),
            levels=cells.levels(repeated, rows),
            people=people,
            **decision._asdict(),
        )


@dataclass(frozen=True)
class PoolOfCells:
    """Judgements and labels of the criteria of a pool; N counts their (n, m)."""

    intervals: Intervals
    z_NR: FloatArray
    """The judge's z, by replicate."""
    label_N: FloatArray
    people_JN: FloatArray
    """z of each rater."""

    def decided(self, said_N: FloatArray) -> tuple[rates.Confusion, rates.Rates]:
        """Return counts and rates against the labels that people have decided."""
        decided = rates.confusion(self.z_NR[:, :, None], said_N[:, None])
        return decided, self.intervals.rates(decided)

    def variance(self, repeated: noise.Retest, rows: IntArray) -> Estimate:
        """Return the variance over replicates."""
        return self.intervals.estimate(ratio(repeated.squares, repeated.df), rows)

    def levels(
        self, repeated: noise.Retest, rows: IntArray
    ) -> tuple[record.LevelCalibration, ...]:
        """Return bias and noise by the level of the label."""
        calibrations: list[record.LevelCalibration] = []
        label_N = self.label_N
        for low, high in record.LEVELS:
            z_N = label_N[rows]
            inside = (z_N >= low) & (z_N < high) & (z_N > 0)
            if low == high:
                inside = z_N == low
            level_rows = rows[inside]
            if not len(level_rows):
                continue
            level = record.LevelCalibration(
                low=low,
                high=high,
                labels=len(level_rows),
                bias=self.intervals.bias(repeated.mean - label_N, level_rows),
                noise=self.variance(repeated, level_rows[repeated.df[level_rows] > 0]),
            )
            calibrations.append(level)
        return tuple(calibrations)

    def slope(self, rows: IntArray) -> float:
        """Return the slope of the label on one judgement's z, within [0, 1]; 0 where z is constant.

            β = Cov(y, z) / Var(z)

        α β z is the linear function of z that is nearest to α y, in mean square.
        """
        weights_N = self.intervals.weights_N
        weights_n = np.ones(len(rows)) if weights_N is None else weights_N[rows]
        z_nR = self.z_NR[rows]
        scored_nR = ~np.isnan(z_nR)
        z = z_nR[scored_nR]
        if not len(z) or not np.ptp(z):
            return 0.0
        label_n = self.label_N[rows]
        label = np.broadcast_to(label_n[:, None], z_nR.shape)[scored_nR]
        weights = np.broadcast_to(weights_n[:, None], z_nR.shape)[scored_nR]
        both = np.cov(label, z, bias=True, aweights=weights)
        slope = float(both[0, 1] / both[1, 1])
        return 0.0 if math.isnan(slope) else min(max(slope, 0.0), 1.0)

    def people(self) -> Estimate:
        """Return α between raters over the responses that at least two labelled."""
        people_JN = self.people_JN
        rows = np.flatnonzero((~np.isnan(people_JN)).sum(axis=0) > 1)
        if len(rows) < _FEWEST_SHARED:
            return UNKNOWN
        alpha_N = agreement.alpha(people_JN[:, :, None], "ordinal")
        return self.intervals.estimate(alpha_N, rows)
