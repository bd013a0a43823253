"""The whole reward under a judge, against the reward that people's labels give."""

import math
from collections.abc import Mapping

import numpy as np

from rubric_core.arrays import FloatArray
from rubric_judge.quality.calibration import pairing, record
from rubric_judge.quality.reliability import agreement, noise, rates, shared_errors
from rubric_judge.quality.reliability.intervals import Intervals
from rubric_judge.quality.reliability.measure import groups_of
from rubric_judge.quality.reliability.ratings import ratio
from rubric_judge.statistics.estimate import UNKNOWN, Estimate


def reward_calibration(
    paired: pairing.Paired,
    intervals: Intervals,
    answers: Mapping[int, str] | None = None,
) -> record.RewardCalibration:
    """Measure the whole reward.

    Args:
        paired: judgements and labels.
        intervals: resampling of the responses.
        answers: `hash_answer` of each response, by its line.

    Returns:
        The noise over replicates of all judgements; the other figures over the responses that have
        both rewards, without a value where there is none.
    """
    estimate = intervals.estimate
    ratings = paired.ratings
    expected = noise.reward_noise(
        paired.judge_NRM, ratings.rewards_JNR[0], ratings.alpha_NM
    )
    rows = np.flatnonzero(paired.complete_N)
    complete: list[int] = rows.tolist()
    judge_N = _rewards(paired, paired.first_NM)
    label_N = _rewards(paired, paired.label_NM)
    turned = noise.advantage_pairs(
        np.stack([judge_N, label_N], axis=1), groups_of(ratings)
    )
    errors = shared_errors.centred_errors(
        paired.first_NM - paired.label_NM,
        ratings.cells(paired.pooling),
        paired.weights_N,
    )
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
        predicted=estimate(expected.predicted),
        independent=estimate(expected.independent),
        measured=estimate(expected.measured),
        inflation=estimate(expected.inflation),
        m_eff=_exactly(shared_errors.mean_effective(ratings.alpha_NM, rows)),
        effective_criteria=estimate(
            shared_errors.effective_criteria(errors, ratings.alpha_NM), rows
        ),
        error_correlation=estimate(shared_errors.error_correlation(errors)),
        error_inflation=estimate(
            shared_errors.error_inflation(errors, ratings.alpha_NM), rows
        ),
        flips=estimate(ratio(turned.flips_N, turned.pairs_N), rows, of_groups=True),
    )


def _rewards(paired: pairing.Paired, z_NM: FloatArray) -> FloatArray:
    """Return the reward of each complete response by scores z; nan for the others."""
    sums_N = np.einsum("nm,nm->n", np.nan_to_num(z_NM), paired.ratings.alpha_NM)
    return np.where(paired.complete_N, sums_N, np.nan)


def _exactly(value: float) -> Estimate:
    """Return an estimate without error, as rubrics are known and not drawn; unknown for nan."""
    if math.isnan(value):
        return UNKNOWN
    return Estimate(value=value, low=value, high=value)
