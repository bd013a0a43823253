"""Counts of what the cascades of a pool decided, audited and cost."""

import math
from collections import Counter
from dataclasses import dataclass, field

from rubric_core import CascadeTrace, Outcome, Usage
from rubric_core.errors import needing_extra
from rubric_judge.statistics.estimate import Estimate


@dataclass
class LevelStatistics:
    """Counts of what one judge of a cascade has done."""

    decided: int = 0
    """Criteria whose final score is its own, including judgements from the ledger."""
    calls: int = 0
    """Times that it was asked; like the counts below, without judgements from the ledger."""
    criteria: int = 0
    """Criteria that it was asked about, counting repetitions."""
    usage: Usage = field(default_factory=Usage)


@dataclass
class CascadeStatistics:
    """Counts of what cascades have done since the pool's creation."""

    judgements: int = 0
    """Judgements that were asked for and brought scores."""
    asked_criteria: int = 0
    """Weighted criteria of those judgements."""
    levels: dict[str, LevelStatistics] = field(
        default_factory=dict[str, LevelStatistics]
    )
    """Statistics by the judge's name, the cheapest judge first."""
    escalated: int = 0
    """Criteria that the first judge did not decide, without audits."""
    audited: int = 0
    """Criteria of which an earlier judge was sure, and which the last one scored all the same."""
    audited_otherwise: int = 0
    """Audited criteria to which the last judge gave another verdict."""
    risk: float | None = None
    """α of the calibration."""
    confidence: float | None = None
    bound: float | None = None
    """Upper bound of the risk, from the calibration."""
    gaps: dict[str, tuple[int, float]] = field(
        default_factory=dict[str, tuple[int, float]]
    )
    """By group, number and sum of the audits' differences: the last judge's value less the expected
    one. Only of cascades that decide for groups."""
    stops: Counter[str] = field(default_factory=Counter[str])
    """Responses by why their group's last judge was asked no more."""
    spent: float = 0.0
    """Sum over these responses of the share of the last judge's bill that their group took."""

    @property
    def saved_frac(self) -> float | None:
        """Share of the judgements without a call of the last judge; None before any judgement."""
        if not self.judgements:
            return None
        return 1 - self._last.calls / self.judgements

    @property
    def saved_usd(self) -> float | None:
        """Cost of asking the last judge alone, less the cost so far.

        Uses the last judge's own price for a criterion; None if it, or another judge's cost, is not
        known.
        """
        costs = [level.usage.cost_usd for level in self.levels.values() if level.calls]
        last = self._last
        if not last.criteria or last.usage.cost_usd is None or None in costs:
            return None
        alone = last.usage.cost_usd / last.criteria * self.asked_criteria
        return alone - sum(cost for cost in costs if cost is not None)

    def audit_disagreement(self) -> Estimate | None:
        """Return the share of kept scores that the last judge would change, with its 95 % interval.

        None without audits; it is estimated from audits alone: each kept criterion is audited with
        the same probability, whatever it holds, so the share among audits is that among all kept
        criteria, whichever responses they belong to. Escalated criteria are harder, and tell
        nothing about it.

        Raises:
            MissingExtraError: scipy is not installed.
        """
        if not self.audited:
            return None
        with needing_extra(
            "rubric-judge", "reliability", by="the interval of the audits"
        ):
            from rubric_judge.statistics.shares import binomial_test_limits
        low, high = binomial_test_limits(
            self.audited_otherwise, self.audited, 0.95, method="exact"
        )
        value = self.audited_otherwise / self.audited
        return Estimate(value, low, high, self.audited)

    @property
    def spent_frac(self) -> float | None:
        """Mean share of the last judge's bill; None without groups that were judged together."""
        responses = self.stops.total()
        return self.spent / responses if responses else None

    def audit_bias(self) -> Estimate | None:
        """Return the mean of the last judge's value less the expected one, with its 95 % interval.

            b = Σ_audited (z − p) / n_audited

        None without audits of groups. Each criterion is audited with one and the same probability,
        so that this is the Horvitz-Thompson estimate over all of them, divided by their number as
        estimated; the interval takes groups for independent. Below 0 the first judge is believed
        too much: a policy learned to please it, or the answers are others than the calibrated ones.

        Raises:
            MissingExtraError: scipy is not installed.

        Source: Horvitz and Thompson, A generalization of sampling without replacement, JASA 47
            (1952); Hájek's ratio of it.
        """
        if not self.gaps:
            return None
        with needing_extra(
            "rubric-judge", "reliability", by="the interval of the audits"
        ):
            import numpy as np

            from rubric_judge.statistics.clusters import ClusteredMean
            from rubric_judge.statistics.student import t_quantile
        counts, sums = zip(*self.gaps.values(), strict=True)
        mean = ClusteredMean.of(np.array(sums), np.array(counts, dtype=np.float64))
        n = int(sum(counts))
        if mean.clusters < 2:  # noqa: PLR2004  # a spread needs two
            return Estimate(mean.mean, n=n)
        half = t_quantile(0.95, mean.freedom) * math.sqrt(mean.variance)
        low = max(mean.mean - half, -1.0)
        high = min(mean.mean + half, 1.0)
        return Estimate(mean.mean, low, high, n)

    @property
    def _last(self) -> LevelStatistics:
        return list(self.levels.values())[-1]

    def count(
        self, trace: CascadeTrace, outcome: Outcome, *, times: int, is_asked: bool
    ) -> None:
        """Count a judgement's cascade.

        Args:
            trace: the judgement's trace.
            outcome: the judgement's outcome.
            times: number of responses that share the judgement.
            is_asked: whether it was asked for now, and so cost something.
        """
        self.risk = trace.risk
        self.confidence = trace.confidence
        self.bound = trace.bound
        for judge in trace.judges:
            self.levels.setdefault(judge, LevelStatistics())
        for judge in trace.decided_by.values():
            self.levels[judge].decided += times
        first_judge = trace.judges[0]
        undecided = {
            name for name, judge in trace.decided_by.items() if judge != first_judge
        }
        self.escalated += times * len(undecided - trace.audits.keys())
        self.audited += len(trace.audits)
        self.audited_otherwise += list(trace.audits.values()).count(False)
        if trace.group is not None:
            self.stops[trace.group.stop] += times
            self.spent += times * trace.group.spent_frac
            if gaps := trace.group.gaps.values():
                count, total = self.gaps.get(trace.group.id, (0, 0.0))
                self.gaps[trace.group.id] = (count + len(gaps), total + sum(gaps))
        if not is_asked:
            return
        if outcome is Outcome.SCORED:
            self.judgements += 1
            self.asked_criteria += len(trace.decided_by)
        for cascade_level in trace.levels:
            level = self.levels[cascade_level.judge]
            level.calls += cascade_level.calls
            level.criteria += cascade_level.criteria
            level.usage = level.usage.plus(cascade_level.usage)
