"""The counts that a pool keeps."""

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
from rubric_judge.models.limits import LimiterStatistics
from rubric_judge.models.replicas import ReplicaStatistics
from rubric_judge.pool.cascades import CascadeStatistics

_LATENCIES_KEPT = 8192
_ANSWERERS_KEPT = 256


def _latencies() -> deque[float]:
    return deque(maxlen=_LATENCIES_KEPT)


@dataclass(frozen=True)
class LatencyQuantiles:
    """Quantiles of the seconds that the last 8,192 judgements took, retries included."""

    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float


@dataclass
class PoolStatistics:
    """Counts of what a pool has done since its creation."""

    limit: int
    """Most calls in flight at once, without hedges, which have an allowance of their own."""
    in_flight: int = 0
    peak_in_flight: int = 0
    by_outcome: Counter[Outcome] = field(default_factory=Counter[Outcome])
    by_reason: Counter[Reason] = field(default_factory=Counter[Reason])
    by_answerer: Counter[Answerer] = field(default_factory=Counter[Answerer])
    """Judgements by who answered, those from the ledger included; for the first 256 answerers."""
    latencies_s: deque[float] = field(default_factory=_latencies, repr=False)
    """Seconds that each of the last judgements took that were asked for."""
    usage: Usage = field(default_factory=Usage)
    """Tokens and cost of all judgements that report them; nothing for those from the ledger."""
    cached_reported_tokens: int = 0
    """Prompt tokens of the judgements that report how many were cached."""
    cached_reported_criteria: int = 0
    attempts: int = 0
    """Attempts of all calls, including failed, hedged and cancelled ones."""
    hedged: int = 0
    """Second calls made for stragglers."""
    hedge_wins: int = 0
    """Second calls whose answer was taken."""
    moved: int = 0
    """Judgements asked of another replica because the first was not reached."""
    from_ledger: int = 0
    """Judgements taken from the ledger."""
    invalid_from_ledger: int = 0
    """Invalid judgements taken from the ledger."""
    unanswered: Counter[Unanswered] = field(default_factory=Counter[Unanswered])
    """Responses without an answer, which score 0 and are not asked for."""
    passages_truncated: int = 0
    """Judgements asked for with a passage that was cut."""
    criteria: int = 0
    """Criteria of the judgements that report their usage."""
    replicas: tuple[ReplicaStatistics, ...] = ()
    limiters: tuple[LimiterStatistics, ...] = ()
    """Statistics of each limiter of the judges; several judges may share one."""
    cascade: CascadeStatistics | None = None
    """Statistics of judges that are cascades; None if none is."""

    @property
    def done(self) -> int:
        """Judgements returned, those from the ledger included."""
        return self.by_outcome.total()

    @property
    def latency(self) -> LatencyQuantiles | None:
        """Quantiles of the judgements that were asked for; None before the first."""
        if not self.latencies_s:
            return None
        # `quantiles` needs two points.
        known_s = [*self.latencies_s] * 2
        cuts = statistics.quantiles(known_s, n=100, method="inclusive")
        return LatencyQuantiles(
            cuts[49],
            cuts[89],
            cuts[98],
            max(known_s),
        )

    @property
    def cached_token_frac(self) -> float | None:
        """Share of the prompt tokens that were in the server's prefix cache.

        Counts the judgements that report it; None if none does.
        """
        return self._cached_tokens_per(self.cached_reported_tokens)

    @property
    def cached_tokens_per_criterion(self) -> float | None:
        """Cached prompt tokens for one criterion of one response.

        Counts the judgements that report them; None if none does.
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
        """Cost of judging one criterion of one response; None if no cost is known."""
        if self.usage.cost_usd is None or not self.criteria:
            return None
        return self.usage.cost_usd / self.criteria

    @property
    def tokens_per_criterion(self) -> float:
        """Tokens, prompt and reply, for one criterion of one response."""
        tokens = self.usage.prompt_tokens + self.usage.completion_tokens
        if not self.criteria:
            return 0.0
        return tokens / self.criteria

    def found(self, result: JudgeResult, *, times: int) -> None:
        """Count a judgement from the ledger, as often as it was asked for."""
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
            view: the view that was judged.
            result: its result.
            latency_s: seconds that it took; None if it was not waited for to its end.
            times: number of equal responses that share the judgement.
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
        """Return the cached prompt tokens divided by an amount; None if nothing is reported."""
        tokens = self.usage.cached_tokens
        if tokens is None or not amount:
            return None
        return tokens / amount

    def _outcome(self, result: JudgeResult, times: int, *, is_asked: bool) -> None:
        self.by_outcome[result.outcome] += times
        if result.reason is not None:
            self.by_reason[result.reason] += times
        answerer = result.answered_by
        # A server may give another name in every answer.
        has_room = len(self.by_answerer) < _ANSWERERS_KEPT
        if answerer is not None and (has_room or answerer in self.by_answerer):
            self.by_answerer[answerer] += times
        if result.cascade is not None:
            self.cascade = self.cascade or CascadeStatistics()
            self.cascade.count(
                result.cascade, result.outcome, times=times, is_asked=is_asked
            )
