"""What a pool counts, and how it is shown."""

import statistics
from collections import Counter, deque
from dataclasses import dataclass, field

from rubric_core import (
    Answerer,
    JudgeResult,
    JudgeView,
    Outcome,
    Reason,
    Unanswered,
    Usage,
)
from rubric_judge.pool.cascades import CascadeStatistics
from rubric_judge.provider.limits import LimiterStatistics

_LATENCIES_KEPT = 8192
_ANSWERERS_KEPT = 256


def _latencies() -> deque[float]:
    return deque(maxlen=_LATENCIES_KEPT)


@dataclass(frozen=True, slots=True)
class LatencyQuantiles:
    """Seconds that judgements took, retries included, over the last 8,192 of them."""

    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class ReplicaStatistics:
    """What one of a pool's judges has done."""

    in_flight: int
    calls: int
    """Calls sent to it, hedges included."""
    groups: int
    """Groups it was given, those moved to it included."""
    is_down: bool
    """Whether it is left alone because calls did not reach it."""
    times_down: int


@dataclass(slots=True)
class PoolStatistics:
    """What a pool has done since it was made."""

    limit: int
    """Most calls in flight at once; hedges come on top, within their share."""
    in_flight: int = 0
    peak_in_flight: int = 0
    by_outcome: Counter[Outcome] = field(default_factory=Counter[Outcome])
    by_reason: Counter[Reason] = field(default_factory=Counter[Reason])
    by_answerer: Counter[Answerer] = field(default_factory=Counter[Answerer])
    """Judgements by who answered, those from the ledger included; the first 256 of them."""
    latencies_s: deque[float] = field(default_factory=_latencies, repr=False)
    """Of the last judgements that were asked for."""
    usage: Usage = field(default_factory=Usage)
    """Tokens and cost of all judgements that reported them; nothing for those from the ledger."""
    cached_reported_tokens: int = 0
    """Prompt tokens of the judgements that say how many were cached."""
    cached_reported_criteria: int = 0
    attempts: int = 0
    """Attempts of all calls, failed, hedged and cancelled ones included."""
    hedged: int = 0
    """Second calls that were made for stragglers."""
    hedge_wins: int = 0
    """Second calls whose answer was taken."""
    moved: int = 0
    """Judgements that were asked of another replica because the first was not reached."""
    from_ledger: int = 0
    """Judgements that were found, not asked for."""
    invalid_from_ledger: int = 0
    """Those of them that are invalid."""
    unanswered: Counter[Unanswered] = field(default_factory=Counter[Unanswered])
    """Responses without an answer, which score 0 and are not asked for."""
    passages_truncated: int = 0
    """Judgements asked for whose passage was cut."""
    criteria: int = 0
    """Criteria of the judgements that say what they took."""
    replicas: tuple[ReplicaStatistics, ...] = ()
    limiters: tuple[LimiterStatistics, ...] = ()
    """One for each limiter that the judges have; several judges may share one."""
    cascade: CascadeStatistics | None = None
    """Of judges that are cascades; None where none is."""

    @property
    def done(self) -> int:
        """Judgements returned, those from the ledger included."""
        return self.by_outcome.total()

    @property
    def latency(self) -> LatencyQuantiles | None:
        """Of the judgements that were asked for; None before the first."""
        if not self.latencies_s:
            return None
        # `quantiles` needs two points.
        known_s = [*self.latencies_s] * 2
        cuts = statistics.quantiles(known_s, n=100, method="inclusive")
        return LatencyQuantiles(cuts[49], cuts[89], cuts[98], max(known_s))

    @property
    def cached_token_frac(self) -> float | None:
        """Share of the prompt tokens that the server had in its prefix cache.

        Over the judgements that report it; None where none does.
        """
        return self._cached_tokens_per(self.cached_reported_tokens)

    @property
    def cached_tokens_per_criterion(self) -> float | None:
        """Prompt tokens that the server had cached, for one criterion of one response.

        Over the judgements that report them; None where none does.
        """
        return self._cached_tokens_per(self.cached_reported_criteria)

    @property
    def by_fallback(self) -> dict[str, int]:
        """Judgements by each fallback of a `litellm_config` that answered."""
        counts = Counter[str]()
        for by, count in self.by_answerer.items():
            if by.fallback:
                counts[by.fallback] += count
        return dict(counts)

    @property
    def cost_per_criterion_usd(self) -> float | None:
        """Cost of judging one criterion of one response; None where no cost is known."""
        if self.usage.cost_usd is None or not self.criteria:
            return None
        return self.usage.cost_usd / self.criteria

    @property
    def tokens_per_criterion(self) -> float:
        """Tokens, prompt and reply, of judging one criterion of one response."""
        tokens = self.usage.prompt_tokens + self.usage.completion_tokens
        return tokens / self.criteria if self.criteria else 0.0

    def found(self, result: JudgeResult, *, times: int) -> None:
        """Count a judgement that was not asked for, and how often it was wanted."""
        self.from_ledger += times
        self.invalid_from_ledger += times * (result.outcome is Outcome.INVALID)
        self._outcome(result, times, is_asked=False)

    def not_asked(self, result: JudgeResult) -> None:
        """Count a response without an answer."""
        if result.unanswered is not None:
            self.unanswered[result.unanswered] += 1
        self._outcome(result, 1, is_asked=False)

    def judged(
        self, view: JudgeView, result: JudgeResult, latency_s: float | None, times: int
    ) -> None:
        """Count a judgement that was asked for, however many calls it took.

        Args:
            view: what was judged.
            result: what became of it.
            latency_s: None where it was not waited for to its end.
            times: responses that it is the judgement of: they are the same.
        """
        self._outcome(result, times, is_asked=True)
        self.attempts += result.attempts
        self.passages_truncated += result.passage_truncated
        if latency_s is not None:
            self.latencies_s.append(latency_s)
        if result.usage is not None:
            self.usage = self.usage.plus(result.usage)
            self.criteria += len(view.rubric.criteria)
            if result.usage.cached_tokens is not None:
                self.cached_reported_tokens += result.usage.prompt_tokens
                self.cached_reported_criteria += len(view.rubric.criteria)

    def _cached_tokens_per(self, amount: int) -> float | None:
        """Return prompt tokens that were cached for one of something, where that is said."""
        tokens = self.usage.cached_tokens
        return None if tokens is None or not amount else tokens / amount

    def _outcome(self, result: JudgeResult, times: int, *, is_asked: bool) -> None:
        self.by_outcome[result.outcome] += times
        if result.reason is not None:
            self.by_reason[result.reason] += times
        by = result.answered_by
        # A server may call itself something else in every answer.
        if by is not None and (
            by in self.by_answerer or len(self.by_answerer) < _ANSWERERS_KEPT
        ):
            self.by_answerer[by] += times
        if result.cascade is not None:
            self.cascade = self.cascade or CascadeStatistics()
            self.cascade.count(
                result.cascade, result.outcome, times=times, is_asked=is_asked
            )
