"""The whole reward under a judge, against the reward that people's labels give."""

from collections.abc import Mapping

import numpy as np

from rubric_core.arrays import FloatArray
from rubric_judge.calibration import pairing, record
from rubric_judge.reliability import agreement, noise, rates
from rubric_judge.reliability.intervals import Intervals
from rubric_judge.reliability.measure import groups_of
from rubric_judge.reliability.ratings import Statistic, ratio


def reward_calibration(
    paired: pairing.Paired, intervals: Intervals, answers: Mapping[int, str] | None = None
) -> record.RewardCalibration:
    """Measure the whole reward.

    Args:
        paired: judgements and labels.
        intervals: how they are made.
        answers: `hash_answer` of each response, by its line.

    Returns:
        The noise over replicates of all judgements; the rest over the responses that have both
        rewards, and without a value where there is none.
    """
    estimate = intervals.estimate
    ratings = paired.ratings
    expected = noise.reward_noise(paired.judge_NRM, ratings.rewards_JNR[0], ratings.alpha_NM)
    rows = np.flatnonzero(paired.complete_N)
    complete: list[int] = rows.tolist()
    judge_N, label_N = (
        np.where(
            paired.complete_N, np.einsum("nm,nm->n", np.nan_to_num(z_NM), ratings.alpha_NM), np.nan
        )
        for z_NM in (paired.first_NM, paired.label_NM)
    )
    turned = noise.advantage_pairs(np.stack([judge_N, label_N], axis=1), groups_of(ratings))
    errors = criterion_errors(paired)
    if paired.weights_N is not None:  # each row counts by its square in both statistics
        errors *= np.sqrt(paired.weights_N)[:, None]
    decided = intervals.rates(rates.confusion(paired.judge_NRM, paired.decided_NM))
    return record.RewardCalibration(
        pairs=tuple(
            record.RewardPair(
                task_id=ratings.task_ids_N[n],
                document=ratings.tasks_N[n].doc_hash,
                judge=float(judge_N[n]),
                label=float(label_N[n]),
                answer=(answers or {}).get(ratings.lines_N[n], ""),
                weight=1.0 if paired.weights_N is None else float(paired.weights_N[n]),
            )
            for n in complete
        ),
        tpr=decided.tpr,
        fpr=decided.fpr,
        youden_j=decided.youden_j,
        bias=intervals.bias(judge_N - label_N, rows),
        correlation=estimate(agreement.correlation(judge_N, label_N, "pearsonr"), rows),
        **{name: estimate(one) for name, one in expected._asdict().items() if name != "tau2"},
        error_correlation=estimate(error_correlation(errors)),
        error_inflation=estimate(error_inflation(errors, ratings.alpha_NM), rows),
        flips=estimate(ratio(turned.flips_N, turned.pairs_N), rows, of_groups=True),
    )


def criterion_errors(paired: pairing.Paired) -> FloatArray:
    """Return judge − label of each criterion, its mean over all responses taken off.

    What the judge adds to a criterion everywhere is bias, not a spread, and in no advantage.
    """
    error_NM = paired.first_NM - paired.label_NM
    for n, m in paired.ratings.cells_by_criterion.values():
        seen = ~np.isnan(error_NM[n, m])
        if seen.any():
            weights_C = None if paired.weights_N is None else paired.weights_N[n][seen]
            error_NM[n, m] -= np.average(error_NM[n, m][seen], weights=weights_C)
    return error_NM


def error_correlation(error_NM: FloatArray) -> Statistic:
    """Return the mean correlation of two criteria's errors on the same response.

        ρ = Σ_i Σ_{j≠k} e_ij e_ik / Σ_i (M_i − 1) Σ_j e_ij²

    over the M_i criteria of each response that have a label and a score: the intraclass
    correlation of criteria within a response, in which a criterion that errs more counts more.

    Returns:
        The statistic over rows: 1 for errors that are always equal, 0 for independent ones.

    Source: Fleiss, The Design and Analysis of Clinical Experiments (1986), ch. 1.
    """
    count_N = (~np.isnan(error_NM)).sum(axis=1)
    squares_N = np.nansum(error_NM**2, axis=1)
    products_N = np.nansum(error_NM, axis=1) ** 2 - squares_N
    return ratio(products_N, np.maximum(count_N - 1, 0) * squares_N)


def error_inflation(error_NM: FloatArray, alpha_NM: FloatArray) -> Statistic:
    """Return Var(Σ_j α_j e_j) / Σ_j α_j² Var(e_j): 1 for independent errors."""
    weighted_NM = alpha_NM * np.nan_to_num(error_NM)
    return ratio(weighted_NM.sum(axis=1) ** 2, (weighted_NM**2).sum(axis=1))
