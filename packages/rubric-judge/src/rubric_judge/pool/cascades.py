"""What the cascades of a pool decided, audited and cost."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from rubric_core import CascadeTrace, Outcome, Usage
from rubric_core.errors import needing_extra


class Share(NamedTuple):
    """A share with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(slots=True)
class LevelStatistics:
    """What one judge of a cascade has done."""

    decided: int = 0
    """Criteria whose score is its own, judgements from the ledger included."""
    calls: int = 0
    """Calls, those of judgements from the ledger left out, as in all that follows."""
    criteria: int = 0
    """Criteria that it was asked about, however often."""
    usage: Usage = field(default_factory=Usage)


@dataclass(slots=True)
class CascadeStatistics:
    """What cascades have done since the pool was made."""

    judgements: int = 0
    """Judgements that were asked for and brought scores."""
    asked_criteria: int = 0
    """Their criteria with weight."""
    levels: dict[str, LevelStatistics] = field(
        default_factory=dict[str, LevelStatistics]
    )
    """By the judge's name, the cheapest first."""
    escalated: int = 0
    """Criteria that the first judge did not decide, audits aside."""
    audited: int = 0
    """Criteria that an earlier judge was sure of and the last one scored all the same."""
    audited_otherwise: int = 0
    """Those of them to which the last judge gave another verdict."""
    risk: float | None = None
    """α, of the calibration."""
    confidence: float | None = None
    bound: float | None = None
    """Upper bound of the risk, as calibrated."""

    @property
    def saved_frac(self) -> float | None:
        """Share of the judgements for which the last judge was not called; None before any."""
        if not self.judgements:
            return None
        return 1 - self._last.calls / self.judgements

    @property
    def saved_usd(self) -> float | None:
        """What asking the last judge alone would have cost, less what was spent.

        At its own price for a criterion; None where that, or another judge's cost, is not known.
        """
        costs = [level.usage.cost_usd for level in self.levels.values() if level.calls]
        last = self._last
        if not last.criteria or last.usage.cost_usd is None or None in costs:
            return None
        alone = last.usage.cost_usd / last.criteria * self.asked_criteria
        return alone - sum(cost for cost in costs if cost is not None)

    def audit_disagreement(self) -> Share | None:
        """Return the share of kept scores that the last judge would have changed; None unaudited.

        Of audits alone: each kept criterion is audited with the same probability, whatever it
        holds, so that the share among them is that of all that were kept, whichever responses they
        belong to. Escalated criteria are harder, and say nothing of it.

        Raises:
            MissingExtraError: scipy is not installed.
        """
        if not self.audited:
            return None
        with needing_extra(
            "rubric-judge", "reliability", by="the interval of the audits"
        ):
            from scipy import stats
        binomtest = cast("Any", stats).binomtest  # no type stubs
        interval = binomtest(self.audited_otherwise, self.audited).proportion_ci(
            0.95, "exact"
        )
        value = self.audited_otherwise / self.audited
        return Share(value, float(interval.low), float(interval.high))

    @property
    def _last(self) -> LevelStatistics:
        return list(self.levels.values())[-1]

    def count(
        self, trace: CascadeTrace, outcome: Outcome, *, times: int, is_asked: bool
    ) -> None:
        """Count what a judgement says of its cascade.

        Args:
            trace: the judgement's.
            outcome: likewise.
            times: responses that it is the judgement of.
            is_asked: whether it was asked for now, and so cost something.
        """
        self.risk = trace.risk
        self.confidence = trace.confidence
        self.bound = trace.bound
        for judge in trace.judges:
            self.levels.setdefault(judge, LevelStatistics())
        for judge in trace.decided_by.values():
            self.levels[judge].decided += times
        others = {
            name for name, judge in trace.decided_by.items() if judge != trace.judges[0]
        }
        self.escalated += times * len(others - trace.audits.keys())
        self.audited += len(trace.audits)
        self.audited_otherwise += list(trace.audits.values()).count(False)
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
