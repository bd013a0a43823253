"""Measurement of noise and agreement: computes a reliability report from judgements."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np

from rubric_core import ConfigError, Outcome
from rubric_core.arrays import FloatArray
from rubric_core.configuration import nearest_key
from rubric_judge.quality.reliability import agreement, noise, report, shared_errors
from rubric_judge.quality.reliability.intervals import Intervals
from rubric_judge.quality.reliability.rates import Confusion, confusions
from rubric_judge.quality.reliability.ratings import IntArray, Ratings, Statistic, ratio
from rubric_judge.statistics.estimate import UNKNOWN, Estimate
from rubric_judge.ui.console.progress import current

_METRICS: dict[str, agreement.Metric] = {
    "alpha": "interval",
    "alpha_ordinal": "ordinal",
    "alpha_nominal": "nominal",
}
_TARGETS = (0.8, 0.9, 0.95)


def groups_of(ratings: Ratings) -> list[IntArray]:
    """Return the rows of each task's responses."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for n, task_id in enumerate(ratings.task_ids_N):
        groups[task_id].append(n)
    return [np.array(rows, dtype=np.intp) for rows in groups.values()]


def check_reference(reference: str | None, judges: Sequence[str]) -> None:
    """Refuse a reference that is not a judge of the study, or its only one.

    Raises:
        ConfigError: names the judges of the study.
    """
    if reference is None or (reference in judges and len(judges) > 1):
        return
    close = nearest_key(reference, judges)
    problem = "is the only judge" if reference in judges else "is no judge here"
    meant = f"did you mean {close!r}? " if close and close != reference else ""
    there = f"{meant}there are {', '.join(map(repr, judges))}"
    raise ConfigError(
        f"the reference {reference!r} {problem}: {there}", location="reference"
    )


def measure(
    ratings: Ratings,
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    reference: str | None = None,
) -> report.ReliabilityReport:
    """Measure noise and agreement.

    Args:
        ratings: judgements of at least one judge.
        resamples: bootstrap draws of every interval.
        confidence: nominal coverage, in (0, 1).
        seed: seed of the draws; the same judgements give the same report.
        reference: the judge, or person, that the others are compared with.

    Returns:
        The report; values that the judgements do not determine are None.

    Raises:
        ConfigError: the reference is not a judge of `ratings`, or its only one.
    """
    check_reference(reference, ratings.judges)
    intervals = Intervals(
        documents_N=[task.doc_hash for task in ratings.tasks_N],
        tasks_N=ratings.task_ids_N,
        resamples=resamples,
        confidence=confidence,
        seed=seed,
    )
    study = _Study(ratings, intervals, groups_of(ratings), reference)
    judges: list[report.JudgeReliability] = []
    criteria: list[report.CriterionNoise] = []
    pairs: list[report.PairAgreement] = []
    count = len(ratings.judges)
    with current().phase("measuring", total=count + math.comb(count, 2) + 1) as phase:
        for j in range(count):
            judges.append(study.judge(j))
            criteria += study.criteria(j)
            phase.advance()
        for a, b in combinations(range(count), 2):
            pairs.append(study.pair(a, b))
            phase.advance()
        panel = study.panel() if count > 1 else None
        phase.advance()
    return report.ReliabilityReport(
        documents=len({task.doc_hash for task in ratings.tasks_N}),
        tasks=len(set(ratings.task_ids_N)),
        responses=len(ratings.tasks_N),
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        judges=tuple(judges),
        criteria=tuple(
            sorted(criteria, key=lambda criterion: -(criterion.tau2.value or 0.0))
        ),
        pairs=tuple(pairs),
        panel=panel,
        reference=reference,
        rates=study.rates(),
    )


@dataclass(frozen=True)
class _Study:
    ratings: Ratings
    intervals: Intervals
    groups: list[IntArray]
    reference: str | None

    @cached_property
    def single(self) -> agreement.Single:
        return agreement.single_judgements(
            self.ratings.z_JNRM, self.ratings.rewards_JNR
        )

    def judge(self, j: int) -> report.JudgeReliability:
        ratings = self.ratings
        estimate = self.intervals.estimate
        rewards_NR = ratings.rewards_JNR[j]
        expected = noise.reward_noise(ratings.z_JNRM[j], rewards_NR, ratings.alpha_NM)
        parts = noise.group_parts(rewards_NR, self.groups)
        pairs = noise.advantage_pairs(rewards_NR, self.groups)
        count_N = noise.retest(rewards_NR).count
        within = estimate(noise.icc1_within(parts), of_groups=True)
        outcomes = ratings.outcomes_J[j]
        needed: dict[str, int | None] = {}
        if within.value is not None:
            for rho in _TARGETS:
                needed[f"{rho:g}"] = noise.replicates_needed(within.value, rho)
        return report.JudgeReliability(
            judge=ratings.judges[j],
            judgements=outcomes.total(),
            replicates=int(count_N.max()),
            invalid_frac=outcomes[Outcome.INVALID] / outcomes.total(),
            unavailable_frac=outcomes[Outcome.UNAVAILABLE] / outcomes.total(),
            reasons=dict(ratings.reasons_J[j].most_common()),
            cost=ratings.costs_J[j],
            mean_reward=estimate(ratio(np.nansum(rewards_NR, axis=1), count_N)),
            tau2=estimate(expected.tau2),
            predicted=estimate(expected.predicted),
            independent=estimate(expected.independent),
            measured=estimate(expected.measured),
            inflation=estimate(expected.inflation),
            icc1=estimate(noise.icc1(rewards_NR)),
            icc1_within=within,
            flips=estimate(ratio(pairs.flips_N, pairs.pairs_N), of_groups=True),
            flipped_weight=estimate(
                ratio(pairs.flipped_size_N, pairs.size_N), of_groups=True
            ),
            groups=round(float(parts.part_N.sum())),
            constant_frac=estimate(
                ratio(pairs.constant_N, pairs.part_N), of_groups=True
            ),
            below_noise_frac=estimate(noise.below_noise(parts), of_groups=True),
            **self._by_errors(j),
            replicates_needed=needed,
        )

    @cached_property
    def place(self) -> int | None:
        """Position of the reference among the judges."""
        if self.reference is None:
            return None
        return self.ratings.judges.index(self.reference)

    def _by_errors(self, j: int) -> dict[str, Any]:
        """Return the effective criteria of a judge's errors against the reference."""
        if self.place in {None, j}:
            return {}
        ratings = self.ratings
        z_JNM = self.single.z_JNM
        error_NM = z_JNM[j] - z_JNM[self.place]
        is_complete_NM = ~np.isnan(error_NM) | (ratings.alpha_NM == 0)
        rows = np.flatnonzero(is_complete_NM.all(axis=1))
        if not len(rows):
            return {}
        error_NM = shared_errors.centred_errors(error_NM, ratings.cells_by_pool)
        effective = shared_errors.effective_criteria(error_NM, ratings.alpha_NM)
        return {
            "m_eff": shared_errors.mean_effective(ratings.alpha_NM, rows),
            "effective_criteria": self.intervals.estimate(effective, rows),
        }

    def criteria(self, j: int) -> list[report.CriterionNoise]:
        ratings = self.ratings
        retest = noise.retest(np.moveaxis(ratings.z_JNRM[j], 1, 2))
        noises: list[report.CriterionNoise] = []
        for pool, (n, m) in ratings.cells_by_pool.items():
            squares_N = self._by_response(n, retest.squares[n, m])
            df_N = self._by_response(n, retest.df[n, m])
            share_N = self._by_response(n, ratings.alpha_NM[n, m])
            count_N = self._by_response(n, np.ones(len(n)))
            rows = np.flatnonzero(df_N)
            if not len(rows):
                continue
            noises.append(
                report.CriterionNoise(
                    judge=ratings.judges[j],
                    criterion=pool.name,
                    tasks=len({ratings.task_ids_N[row] for row in n if df_N[row]}),
                    responses=len(rows),
                    share=float((share_N[rows] / count_N[rows]).mean()),
                    tau2=self.intervals.estimate(ratio(squares_N, df_N), rows),
                )
            )
        return noises

    def _by_response(self, n: Sequence[int], values_C: FloatArray) -> FloatArray:
        """Add up the values of a pool's criteria, of which a response may have several."""
        sums_N = np.bincount(np.asarray(n), values_C, len(self.ratings.tasks_N))
        return sums_N.astype(np.float64)

    def pair(self, a: int, b: int) -> report.PairAgreement:
        ratings = self.ratings
        x_N = self.single.rewards_JN[a]
        y_N = self.single.rewards_JN[b]
        rows = np.flatnonzero(~np.isnan(x_N) & ~np.isnan(y_N))
        estimate = partial(self.intervals.estimate, rows=rows)
        kappa = agreement.kappa(self.single.z_JNM[a], self.single.z_JNM[b])
        return report.PairAgreement(
            a=ratings.judges[a],
            b=ratings.judges[b],
            responses=len(rows),
            bias=estimate(ratio(x_N - y_N, np.ones(len(x_N)))),
            spearman=estimate(agreement.correlation(x_N, y_N, "spearmanr")),
            kendall=estimate(agreement.correlation(x_N, y_N, "kendalltau")),
            kendall_within=estimate(
                agreement.kendall_within(x_N, y_N, self.groups), of_groups=True
            ),
            kappa=estimate(kappa),
        )

    def panel(self) -> report.PanelAgreement:
        ratings = self.ratings
        estimate = self.intervals.estimate
        is_missing_N = np.isnan(self.single.rewards_JN).any(axis=0)
        rows = np.flatnonzero(~is_missing_N)
        alphas: dict[str, Any] = {}
        for name, metric in _METRICS.items():
            alpha = partial(agreement.alpha, metric=metric)
            alphas[name] = estimate(alpha(self.single.z_JNM))
            alphas[f"{name}_by_criterion"] = self._by_criterion(alpha)
        return report.PanelAgreement(
            judges=len(ratings.judges),
            responses=len(rows),
            icc_a1=estimate(agreement.icc_a1(self.single.rewards_JN), rows),
            effective_judges=estimate(
                agreement.effective_judges(self.single.rewards_JN), rows
            ),
            effective_judges_by_errors=self._panel_errors(
                shared_errors.effective_judges_by_errors, rows
            ),
            effective_without_weakest=self._panel_errors(
                shared_errors.effective_without_weakest, rows
            ),
            **alphas,
        )

    def _panel_errors(
        self, errors: Callable[[FloatArray, FloatArray], Statistic], rows: IntArray
    ) -> Estimate:
        if self.place is None:
            return UNKNOWN
        others_JN = np.delete(self.single.rewards_JN, self.place, axis=0)
        of_reference_N = self.single.rewards_JN[self.place]
        return self.intervals.estimate(errors(others_JN, of_reference_N), rows)

    def rates(self) -> tuple[report.ReferenceRates, ...]:
        """Compare every other judge with the reference: all criteria pooled, then by lowest J."""
        if self.place is None:
            return ()
        cells = self.ratings.cells_by_pool
        place = self.place
        all_rates = [
            self._rates(*confusion)
            for confusion in confusions(self.single.z_JNM, place, cells)
        ]

        def pooled_first(rates: report.ReferenceRates) -> tuple[bool, float]:
            j = rates.youden_j.value
            return rates.criterion is not None, math.inf if j is None else j

        return tuple(sorted(all_rates, key=pooled_first))

    def _rates(
        self, j: int, criterion: str | None, decided: Confusion
    ) -> report.ReferenceRates:
        rates = self.intervals.rates(decided)
        return report.ReferenceRates(
            judge=self.ratings.judges[j],
            criterion=criterion,
            met=int(decided.met_N.sum()),
            not_met=int(decided.not_met_N.sum()),
            tpr=rates.tpr,
            tnr=rates.tnr,
            youden_j=rates.youden_j,
        )

    def _by_criterion(
        self, agree: Callable[[FloatArray], Statistic]
    ) -> dict[str, float | None]:
        """Return an agreement on each criterion's scores, as an array with M = 1."""
        values: dict[str, float | None] = {}
        for pool, (n, m) in self.ratings.cells_by_pool.items():
            statistic = agree(self.single.z_JNM[:, n, m][:, :, None])
            value = statistic(np.arange(len(n)))
            values[pool.name] = None if math.isnan(value) else value
        return values
