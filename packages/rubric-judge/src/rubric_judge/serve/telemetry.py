"""Reports of the service about itself: counts for Prometheus, and bounded log lines."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager

import structlog
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rubric_core import JudgeResult, JudgeView, Outcome, Thought, Unanswered
from rubric_judge.pool.cascades import CascadeStatistics
from rubric_judge.pool.statistics import PoolStatistics

_log = structlog.get_logger("rubric_judge.serve")

_PREFIX = "rubric_judge_"
_COUNT = CounterMetricFamily
_GAUGE = GaugeMetricFamily
_CACHED_SHARE = "Share of prompt tokens that came from a prefix cache."
_LATENCY_BUCKETS_S = (
    0.01,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    20,
    40,
    80,
    160,
    320,
    640,
)


class ServiceMetrics(Collector):
    """Metrics in a registry of their own, so that two services in one process do not mix."""

    def __init__(
        self, statistics: Callable[[], PoolStatistics], *, queued: Callable[[], int]
    ) -> None:
        """Register the metrics.

        Args:
            statistics: returns the pool's statistics; called at every scrape.
            queued: returns the number of responses that wait or are being judged.
        """
        self._statistics = statistics
        self._queued = queued
        self._thoughts = Counter(dict.fromkeys(Thought, 0))
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

    def asked(self, views: Sequence[JudgeView]) -> None:
        """Count the thoughts in the responses of a request."""
        self._thoughts.update(view.thought for view in views)

    def answered(self, *, path: str, status: int, latency_s: float) -> None:
        """Count one request."""
        self._request.labels(path=path, status=str(status)).observe(latency_s)

    def exposition(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the pool's counts."""
        pool = self._statistics()
        ended = {(Outcome.SCORED.value, ""): pool.by_outcome.get(Outcome.SCORED, 0)}
        for reason, count in pool.by_reason.items():
            ended[reason.outcome.value, reason.value] = count
        yield _counted(
            "judgements", "Judgements that ended.", ("outcome", "reason"), ended
        )
        what = "Responses by the thought that stood before their answer."
        by_thought = {(kind.value,): count for kind, count in self._thoughts.items()}
        yield _counted("thoughts", what, ("thought",), by_thought)
        what = "Responses without an answer, which score 0 and are not judged."
        unanswered = {(why.value,): pool.unanswered.get(why, 0) for why in Unanswered}
        yield _counted("unanswered", what, ("why",), unanswered)
        what = "Judgements that a fallback of the litellm_config answered."
        by_fallback = {(name,): count for name, count in pool.by_fallback.items()}
        yield _counted("fallback_judgements", what, ("fallback",), by_fallback)
        if pool.cascade is not None:
            yield from _cascade(pool.cascade)
        usage = pool.usage
        cached_frac = pool.cached_token_frac
        waiting = max(self._queued() - pool.in_flight, 0)
        for family, name, text, value in (
            (
                _COUNT,
                "prompt_tokens",
                "Tokens read, cached ones included.",
                usage.prompt_tokens,
            ),
            (_COUNT, "completion_tokens", "Tokens written.", usage.completion_tokens),
            (
                _COUNT,
                "cached_tokens",
                "Prompt tokens from a prefix cache.",
                usage.cached_tokens,
            ),
            (
                _COUNT,
                "attempts",
                "Calls made, retries and hedges included.",
                pool.attempts,
            ),
            (
                _COUNT,
                "from_ledger",
                "Judgements that the ledger had.",
                pool.from_ledger,
            ),
            (_COUNT, "cost_usd", "Price of the calls, where known.", usage.cost_usd),
            (_GAUGE, "in_flight", "Responses being judged.", pool.in_flight),
            (_GAUGE, "waiting", "Responses that wait for their turn.", waiting),
            (_GAUGE, "cached_token_share", _CACHED_SHARE, cached_frac),
        ):
            # A value that no server has reported is left out: it is not 0.
            if value is not None:
                yield family(_PREFIX + name, text, value=value)


def _counted(
    name: str, what: str, labels: tuple[str, ...], counts: Mapping[tuple[str, ...], int]
) -> Metric:
    family = CounterMetricFamily(_PREFIX + name, what, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family


def _cascade(statistics: CascadeStatistics) -> Iterator[Metric]:
    decided = {(judge,): level.decided for judge, level in statistics.levels.items()}
    yield _counted("cascade_criteria", "Criteria by who decided.", ("judge",), decided)
    what = "Criteria that were kept and audited, by whether the last judge agrees."
    same = statistics.audited - statistics.audited_otherwise
    audits = {("same",): same, ("other",): statistics.audited_otherwise}
    yield _counted("cascade_audits", what, ("verdict",), audits)
    if statistics.bound is not None:
        what = "Upper bound of the risk, as calibrated."
        yield _GAUGE(f"{_PREFIX}cascade_risk_bound", what, value=statistics.bound)


_WITHIN_S = 10.0
_LIBRARIES = ("asyncio", "uvicorn.error")


class Recurring:
    """Decides which log lines are written, so that requests cannot fill the log.

    The first line of a kind is written, and those of the next seconds are counted.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without any lines.

        Args:
            clock: returns seconds that never decrease.
        """
        self._clock = clock
        self._since_s: dict[str, float] = {}
        self._left_out = Counter[str]()

    def passes(self, kind: str) -> bool:
        """Return whether a line of this kind is to be written; otherwise it is counted."""
        self.report()
        if kind in self._since_s:
            self._left_out[kind] += 1
            return False
        self._since_s[kind] = self._clock()
        return True

    def report(self, *, all_of_them: bool = False) -> None:
        """Write how many lines were left out, for each kind whose time is over.

        Args:
            all_of_them: whether to report the other kinds as well.
        """
        until_s = self._clock() - _WITHIN_S
        for kind, since_s in list(self._since_s.items()):
            if all_of_them or since_s <= until_s:
                del self._since_s[kind]
                left_out = self._left_out.pop(kind, 0)
                if left_out:
                    _log.warning("serve.log.left_out", like=kind, lines=left_out)

    @contextmanager
    def over_libraries(self) -> Generator[None]:
        """Filter the log lines of asyncio and uvicorn as well."""
        loggers = [logging.getLogger(name) for name in _LIBRARIES]
        for logger in loggers:
            logger.addFilter(self._filter)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeFilter(self._filter)
            self.report(all_of_them=True)

    def _filter(self, record: logging.LogRecord) -> bool:
        # asyncio writes details into the message, after the first line.
        if record.levelno < logging.WARNING:
            return True
        first_line = str(record.msg).partition("\n")[0]
        return self.passes(f"{record.name}: {first_line}")
