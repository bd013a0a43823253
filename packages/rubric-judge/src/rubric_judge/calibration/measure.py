"""From a judge's judgements and people's labels to a calibration."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from rubric_core import ConfigError, Pool, Pooling
from rubric_core.arrays import FloatArray
from rubric_judge.calibration import pairing, record, report, verdicts
from rubric_judge.calibration.reward import reward_calibration
from rubric_judge.console.progress import current
from rubric_judge.estimates import UNKNOWN, Estimate
from rubric_judge.page.tables import counted
from rubric_judge.reliability import agreement, noise, rates
from rubric_judge.reliability.intervals import Intervals
from rubric_judge.reliability.ratings import Cells, IntArray, ratio

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
    ratings = paired.ratings
    settings = settings or Settings()
    study = Study(paired, settings)
    cells, others = _pools(paired)
    criteria: list[record.CriterionCalibration] = []
    kinds: list[record.CriterionCalibration] = []
    with current().phase("measuring", total=len(cells) + len(others) + 1) as phase:
        for calibrations, pools in ((criteria, cells), (kinds, others)):
            for pool, places in pools.items():
                calibrations.append(study.criterion(pool, places))
                phase.advance()
        reward = reward_calibration(paired, study.intervals(), answers)
        phase.advance()
    labelled: list[int] = np.flatnonzero(
        ~np.isnan(paired.label_NM).all(axis=1)
    ).tolist()
    return report.CalibrationReport(
        version=1,
        judge=ratings.judges[0],
        judge_fingerprint=fingerprint or ratings.judges[0],
        rubrics=record.labelled_rubrics(ratings.tasks_N[n] for n in labelled),
        answers=tuple((answers or {}).values()),
        raters=paired.raters,
        given=int((~np.isnan(paired.people_JNM) & ~np.isnan(paired.first_NM)).sum()),
        pairs=int(paired.labelled_NM.sum()),
        admitted=_admitted_frac(paired, criteria),
        criteria=tuple(sorted(criteria, key=_by_j)),
        kinds=tuple(sorted(kinds, key=_by_j)),
        reward=reward,
        **asdict(settings),
        notes=tuple(_notes(paired, is_named=fingerprint is not None)),
    )


def _pools(paired: pairing.Paired) -> tuple[Cells, Cells]:
    """Return what is measured together, and kinds whose criteria have all a pool of their ids.

    A kind is measured on all of its criteria, those with a pool of their own too: it is what other
    ids are looked up under. Of criteria without a kind only those without one are alike, as far as
    anybody has said.
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
    kept = total = 0.0
    for pool, (n, m) in paired.ratings.cells(paired.pooling).items():
        weight = float(paired.ratings.alpha_NM[n, m][paired.labelled_NM[n, m]].sum())
        total += weight
        kept += weight if pool in whole else 0.0
    return kept / total if total else None


def _require_scores(paired: pairing.Paired) -> None:
    if not (~np.isnan(paired.first_NM) & ~np.isnan(paired.label_NM)).any():
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


def _by_j(one: record.CriterionCalibration) -> tuple[bool, bool, float]:
    """What is not admitted comes first."""
    is_admitted = one.verdict is record.Verdict.ADMIT
    return is_admitted, one.youden_j.value is None, one.youden_j.value or 0.0


def _notes(paired: pairing.Paired, *, is_named: bool) -> list[str]:
    notes: list[str] = []
    if not is_named:
        notes.append(report.WORDS["known_by_name"])
    if unsure := sum(paired.unsure.values()) + paired.unsure_unjudged:
        told = "says" if unsure == 1 else "say"
        notes.append(
            f"{counted(unsure, 'label')} more {told} that the rater cannot tell: not counted."
        )
    if divided := int((paired.divided_NM & ~np.isnan(paired.label_NM)).sum()):
        pairs = counted(divided, "response–criterion pair")
        notes.append(
            f"{pairs}: as many raters say met as not, so no label for TPR, FPR and J."
        )
    if paired.unjudged:
        notes.append(
            f"{paired.unjudged:,} labels are of responses without a judgement: left out."
        )
    if paired.weights_N is not None:
        notes.append(report.WORDS["unequal_draws"])
    notes += _pooled(paired)
    return notes


def _pooled(paired: pairing.Paired) -> list[str]:
    """Say which ids are not measured by themselves."""
    found: dict[str, set[str]] = {}
    labelled: list[int] = np.flatnonzero(paired.labelled_NM.any(axis=1)).tolist()
    for n in labelled:
        for criterion in paired.ratings.tasks_N[n].rubric:
            pool = paired.pooling.pool(criterion)
            if criterion.weight and pool.id is None:
                found.setdefault(pool.name, set()).add(criterion.id)
    if not found:
        return []
    ids = counted(len({name for names in found.values() for name in names}), "id")
    kinds = ", ".join(f"{name} {len(names)}" for name, names in sorted(found.items()))
    return [report.WORDS["pooled"].format(ids=ids, kinds=kinds)]


@dataclass(frozen=True)
class Study:
    """Judgements and labels, and how intervals are made of them."""

    paired: pairing.Paired
    settings: Settings

    def intervals(self, n: Sequence[int] | None = None) -> Intervals:
        """Return how intervals are made over all responses, or over those of each cell."""
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
        ratings, (n, m) = self.paired.ratings, places
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
        said_N = self.paired.decided_NM[n, m]
        decided, found = cells.decided(said_N)
        positives = int(decided.met_N.sum())
        negatives = int(decided.not_met_N.sum())
        people = cells.people()
        unsure = sum(
            self.paired.unsure.get(place, 0) for place in zip(n, m, strict=True)
        )
        decision = verdicts.decide(
            verdicts.Evidence(
                found,
                positives,
                negatives,
                cells.slope(rows),
                people,
                self.settings.bound,
                self.settings.confidence,
                unsure if np.isnan(label_N).all() else 0,
            )
        )
        both_JN1 = np.stack([first_N, label_N])[:, :, None]
        repeated = noise.retest(cells.z_NR)
        return record.CriterionCalibration(
            criterion=pool.name,
            pool=pool,
            labels=len(rows),
            positives=positives,
            divided=int(np.isnan(said_N[rows]).sum()),
            share=float((shares_N[rows] if len(rows) else shares_N).mean()),
            tpr=found.tpr,
            fpr=found.fpr,
            youden_j=found.youden_j,
            bias=cells.intervals.bias(repeated.mean - label_N, rows),
            agreement=cells.intervals.estimate(
                agreement.alpha(both_JN1, "ordinal"), rows
            ),
            noise=cells.variance(repeated, np.flatnonzero(repeated.df)),
            levels=cells.levels(repeated, rows),
            people=people,
            **decision._asdict(),
        )


@dataclass(frozen=True)
class PoolOfCells:
    """What is known of the criteria of a pool; N counts their (n, m)."""

    intervals: Intervals
    z_NR: FloatArray
    """The judge's."""
    label_N: FloatArray
    people_JN: FloatArray
    """z of each rater."""

    def decided(self, said_N: FloatArray) -> tuple[rates.Confusion, rates.Rates]:
        """Return counts and rates against what people have decided."""
        decided = rates.confusion(self.z_NR[:, :, None], said_N[:, None])
        return decided, self.intervals.rates(decided)

    def variance(self, repeated: noise.Retest, rows: IntArray) -> Estimate:
        """Return the variance over replicates."""
        return self.intervals.estimate(ratio(repeated.squares, repeated.df), rows)

    def levels(
        self, repeated: noise.Retest, rows: IntArray
    ) -> tuple[record.LevelCalibration, ...]:
        """Return bias and noise by what people gave."""
        calibrations: list[record.LevelCalibration] = []
        label_N = self.label_N
        for low, high in record.LEVELS:
            z_N = label_N[rows]
            inside = (
                z_N == low if low == high else (z_N >= low) & (z_N < high) & (z_N > 0)
            )
            mine = rows[inside]
            if len(mine):
                calibrations.append(
                    record.LevelCalibration(
                        low=low,
                        high=high,
                        labels=len(mine),
                        bias=self.intervals.bias(repeated.mean - label_N, mine),
                        noise=self.variance(repeated, mine[repeated.df[mine] > 0]),
                    )
                )
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
        label, weights = (
            np.broadcast_to(one_n[:, None], z_nR.shape)[scored_nR]
            for one_n in (self.label_N[rows], weights_n)
        )
        both = np.cov(label, z, bias=True, aweights=weights)
        slope = float(both[0, 1] / both[1, 1])
        return 0.0 if math.isnan(slope) else min(max(slope, 0.0), 1.0)

    def people(self) -> Estimate:
        """Return α between raters over what at least two labelled."""
        people_JN = self.people_JN
        rows = np.flatnonzero((~np.isnan(people_JN)).sum(axis=0) > 1)
        if len(rows) < _FEWEST_SHARED:
            return UNKNOWN
        return self.intervals.estimate(
            agreement.alpha(people_JN[:, :, None], "ordinal"), rows
        )
