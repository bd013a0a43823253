"""What Prometheus reads: the pool's own counts, and the times of judgements and requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rubric_core import JudgeResult, Outcome
from rubric_judge.pool import PoolStatistics

_PREFIX = "rubric_judge_"
_COUNT, _GAUGE = CounterMetricFamily, GaugeMetricFamily
_CACHED_SHARE = "Share of prompt tokens that came from a prefix cache."
_LATENCY_BUCKETS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)


class ServiceMetrics(Collector):
    """A registry of its own, so that two services in one process do not mix."""

    def __init__(
        self, statistics: Callable[[], PoolStatistics], *, queued: Callable[[], int]
    ) -> None:
        """Register the metrics.

        Args:
            statistics: of the pool, read at every scrape.
            queued: responses that wait or are being judged.
        """
        self._statistics = statistics
        self._queued = queued
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._judgement = Histogram(
            f"{_PREFIX}judgement_seconds",
            "Time of a judgement, retries included.",
            buckets=_LATENCY_BUCKETS_S,
            registry=self._registry,
        )
        self._request = Histogram(
            f"{_PREFIX}request_seconds",
            "Time of a request, its wait included.",
            labelnames=("path", "status"),
            buckets=_LATENCY_BUCKETS_S,
            registry=self._registry,
        )

    def judged(self, result: JudgeResult) -> None:
        """Count the time of one judgement."""
        if result.latency_s is not None:
            self._judgement.observe(result.latency_s)

    def answered(self, *, path: str, status: int, latency_s: float) -> None:
        """Count one request."""
        self._request.labels(path=path, status=str(status)).observe(latency_s)

    def exposition(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Read the pool's counts."""
        pool = self._statistics()
        judgements = CounterMetricFamily(
            f"{_PREFIX}judgements", "Judgements that ended.", labels=("outcome", "reason")
        )
        judgements.add_metric((Outcome.SCORED.value, ""), pool.by_outcome.get(Outcome.SCORED, 0))
        for reason, count in pool.by_reason.items():
            judgements.add_metric((reason.outcome.value, reason.value), count)
        yield judgements
        fallbacks = CounterMetricFamily(
            f"{_PREFIX}fallback_judgements",
            "Judgements that a fallback of the litellm_config answered.",
            labels=("fallback",),
        )
        for name, count in pool.by_fallback.items():
            fallbacks.add_metric((name,), count)
        yield fallbacks
        used, cached_frac = pool.usage, pool.cached_token_frac
        waiting = max(self._queued() - pool.in_flight, 0)
        for family, name, text, value in (
            (_COUNT, "prompt_tokens", "Tokens read, cached ones included.", used.prompt_tokens),
            (_COUNT, "completion_tokens", "Tokens written.", used.completion_tokens),
            (_COUNT, "cached_tokens", "Prompt tokens from a prefix cache.", used.cached_tokens),
            (_COUNT, "attempts", "Calls made, retries and hedges included.", pool.attempts),
            (_COUNT, "from_ledger", "Judgements that the ledger had.", pool.from_ledger),
            (_COUNT, "cost_usd", "Price of the calls, where known.", used.cost_usd),
            (_GAUGE, "in_flight", "Responses being judged.", pool.in_flight),
            (_GAUGE, "waiting", "Responses that wait for their turn.", waiting),
            (_GAUGE, "cached_token_share", _CACHED_SHARE, cached_frac),
        ):
            # What no server has reported is left out: it is not 0.
            if value is not None:
                yield family(_PREFIX + name, text, value=value)
