"""Statistics of paired evaluations; what SciPy has, SciPy does.

intervals    means and paired differences of rewards
proportions  shares of right answers: Wilson, McNemar, Tango; the interval of one model's score
bootstrap    draws by document, of several means at once too, BCa limits and p-value
sign_flip    permutation of whole clusters, counted exactly
paired       the tests: mean, p-value, limits and detectable difference that agree
correction   several tests at once, and the power of McNemar's
"""

from __future__ import annotations

from rubric_eval.statistics.correction import Correction, Decision, decide
from rubric_eval.statistics.intervals import Interval, differences, mean_interval, paired_interval
from rubric_eval.statistics.paired import PairedTest, accuracy_test, reward_test
from rubric_eval.statistics.proportions import mcnemar_p, score_interval, wilson_interval

__all__ = [
    "Correction",
    "Decision",
    "Interval",
    "PairedTest",
    "accuracy_test",
    "decide",
    "differences",
    "mcnemar_p",
    "mean_interval",
    "paired_interval",
    "reward_test",
    "score_interval",
    "wilson_interval",
]
