"""Record what an engine reports in the work folder; decide when and why the run stops."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import NamedTuple

import anyio

from rubric_core import Usage
from rubric_synth import errors
from rubric_synth.calls import CallRecord, CallTotals
from rubric_synth.config import Stage, SynthConfig
from rubric_synth.document import DocumentOutcome
from rubric_synth.run import engines
from rubric_synth.run.engines.worker import Pending
from rubric_synth.run.work.folder import WorkFolder
from rubric_synth.run.work.index import CollectedLine


def why_stopped(
    cause: errors.UnfinishedCause,
    config: SynthConfig,
    spent: CallTotals,
) -> str:
    """Say why a run stopped and what to do.

    Args:
        cause: The cause.
        config: Configuration of the run.
        spent: What its calls have taken so far.
    """
    match cause:
        case "cost":
            return (
                "another call is expected to pass "
                f"max_cost_usd={config.max_cost_usd:g}: {spent.calls} calls have cost "
                f"{spent.cost_usd:.4g} USD; raise it to go on"
            )
        case "unpriced":
            return (
                f"max_cost_usd={config.max_cost_usd:g} is set, and what "
                f"{spent.unpriced_calls} of {spent.calls} calls cost is not known: set "
                "`prices:` of the model, and of the judge where it is one, or leave out "
                "max_cost_usd"
            )
        case "unavailable":
            return (
                f"{config.max_unavailable_in_a_row} documents in a row got no answer "
                "(max_unavailable_in_a_row): check that the model and the judge answer"
            )
        case "interrupted":
            return "interrupted"


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether a run shall end, why, and how soon."""

    def __init__(self) -> None:
        """Begin without a reason to stop."""
        self._scope: anyio.CancelScope | None = None
        self.cause: errors.UnfinishedCause | None = None
        """The first reason to end."""
        self.signal: int | None = None
        """The latest one that asked for the end."""
        self.is_left = False
        """Whether to leave at once, without writing what is done."""

    @contextmanager
    def scope(self) -> Generator[None]:
        """Return the scope to work in; it is cancelled if calls in flight do not end in time."""
        self._loop = asyncio.get_running_loop()
        with anyio.CancelScope() as scope:
            self._scope = scope
            try:
                yield
            finally:
                self._scope = None

    @contextmanager
    def at_interrupts(self) -> Generator[None]:
        """End the run at the first interrupt, in good order; leave at the second.

        Raises:
            KeyboardInterrupt: At the second interrupt, with the number of its signal.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupted(number: int, frame: FrameType | None) -> None:
            del frame
            if self._scope is not None:
                # The event loop may be waiting for something else.
                self._loop.call_soon_threadsafe(self._interrupt, number)
                return
            self._interrupt(number)
            if self.is_left:
                raise KeyboardInterrupt(number)

        before = [signal.signal(number, interrupted) for number in _SIGNALS]
        try:
            yield
        finally:
            for number, handler in zip(_SIGNALS, before, strict=True):
                signal.signal(number, handler)

    def _interrupt(self, number: int) -> None:
        if self.signal is None:
            self.request("interrupted")
        else:
            self.is_left = True
            if self._scope is not None:
                self._scope.cancel()
        self.signal = number

    def request(self, cause: errors.UnfinishedCause) -> None:
        """Draw no further document and let calls in flight end.

        They get a few seconds, or as long as they take where the ceiling on costs was reached:
        those are paid for.
        """
        self.cause = self.cause or cause
        if self._scope is not None and cause in {"interrupted", "unavailable"}:
            self._scope.deadline = min(self._scope.deadline, self._loop.time() + 5.0)


class Progress(NamedTuple):
    """Progress of a run at one moment."""

    done: int
    """Documents with an outcome, those of earlier runs included."""
    total: int
    """Documents to be done."""
    left_out: int
    """Documents of this run without a task."""
    calls_in_flight: int
    """Calls under way now."""
    cost_usd: float
    """Cost of all calls with a known price, those of earlier runs included."""
    documents_per_s: float
    """Rate over the last half minute, or longer where less is done; 0 while it is not known."""

    @property
    def eta_s(self) -> float | None:
        """Seconds that the rest will take at this rate; None where there is none yet."""
        rest = self.total - self.done
        if not self.documents_per_s:
            return None
        return rest / self.documents_per_s


class Spending:
    """The account of all calls that were made for a dataset, over all runs."""

    def __init__(self, folder: WorkFolder, config: SynthConfig) -> None:
        """Start from what earlier runs have spent."""
        self._config = config
        self.by_stage: dict[Stage, CallTotals] = folder.index.spent(self._price)
        """Totals of each stage."""

    @property
    def total(self) -> CallTotals:
        """Totals of all calls."""
        return sum(self.by_stage.values(), CallTotals())

    @property
    def dearest_usd(self) -> float | None:
        """The mean of the stage whose calls cost most; None where no call has a price yet.

        What was paid in vain is part of it.
        """
        priced = (
            (sums, sums.calls - sums.unpriced_calls) for sums in self.by_stage.values()
        )
        return max(
            (sums.cost_usd / calls for sums, calls in priced if calls > 0), default=None
        )

    def add(self, record: CallRecord) -> bool:
        """Add a call, and return whether its price is known."""
        usage = record.usage
        cost_usd = usage.cost_usd if usage else None
        if usage is not None and cost_usd is None:
            cost_usd = self._price(record.stage, usage)
        before = self.by_stage.get(record.stage, CallTotals())
        self.by_stage[record.stage] = before + CallTotals.of_call(record, cost_usd)
        return cost_usd is not None

    def _price(self, stage: Stage, usage: Usage) -> float | None:
        """Return what the configuration says that tokens cost; None where it does not."""
        model = self._config.judge_model if stage == "quality" else self._config.model
        if model is None or model.prices is None:
            return None
        return model.prices.cost_usd(usage)


@dataclass
class Recorder:
    """The sink of a run: keeps, counts, and says when to stop."""

    folder: WorkFolder
    """Folder that keeps calls and outcomes."""
    config: SynthConfig
    """Ceilings."""
    stop: Stop
    """Ended by this recorder or by others."""
    on_document: Callable[[int], None]
    """Called with the number of finished documents."""
    done: int
    """Documents that are done."""
    left_out: int = 0
    """Documents of this run without a task."""
    engine: engines.Engine | None = None
    """The engine at work, whose calls in flight count."""
    _unavailable_in_a_row: int = 0
    _in_work: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def __post_init__(self) -> None:
        """Start from what earlier runs have spent."""
        from rubric_judge.ui.console.snapshot import Pace  # loads rich

        self.spent = Spending(self.folder, self.config)
        self._pace = Pace(self.done, now_s=time.monotonic())

    @property
    def _in_flight(self) -> int:
        return self.engine.calls_in_flight if self.engine is not None else 0

    @property
    def needs_price(self) -> bool:
        """Whether there is a ceiling on costs, and no call has told yet what one costs."""
        return self.config.max_cost_usd is not None and self.spent.dearest_usd is None

    def pending(
        self, lines: Iterable[CollectedLine], *, only_answered: bool = False
    ) -> Iterator[Pending]:
        """Yield the documents that are not settled, with the calls that were answered."""
        for line, is_settled in self.folder.settled(lines):
            # A text that is there twice waits for another run while it is in work.
            if is_settled or line.doc_hash in self._in_work:
                continue
            known = self.folder.calls_of(line.doc_hash)
            if known or not only_answered:
                self._in_work[line.doc_hash] = line.settings
                yield Pending(line.document(), known)

    def check_prices(self) -> None:
        """Stop where there is a ceiling, and an earlier call whose price is not known."""
        if self.config.max_cost_usd is not None and self.spent.total.unpriced_calls:
            self.stop.request("unpriced")

    def put_back(self, doc_hash: str) -> None:
        """Treat a document as not started."""
        del self._in_work[doc_hash]

    def on_call(self, doc_hash: str, record: CallRecord) -> None:
        """Keep a call; see `Sink`."""
        self.folder.add_call(doc_hash, record)
        if not self.spent.add(record) and self.config.max_cost_usd is not None:
            self.stop.request("unpriced")

    def on_outcome(self, outcome: DocumentOutcome) -> None:
        """Keep what came of a document; see `Sink`."""
        settings = self._in_work.pop(outcome.doc_hash, None)
        if settings is None:
            return  # told twice, as by a worker that was started again
        self.folder.add_outcome(outcome, settings)
        self.done += 1
        self.left_out += not outcome.tasks
        self._unavailable_in_a_row = (
            0 if outcome.is_settled else self._unavailable_in_a_row + 1
        )
        if self._unavailable_in_a_row >= self.config.max_unavailable_in_a_row:
            self.stop.request("unavailable")
        self.on_document(self.done)

    def may_call(self) -> bool:
        """Whether the calls in flight and one more are expected below the ceiling; see `Sink`.

        spent + (in flight + 1) · (mean of the stage whose calls cost most) ≤ ceiling
        """
        if self.stop.cause is not None:
            return False
        if self.config.max_cost_usd is None:
            return True
        expected_usd = (self._in_flight + 1) * (self.spent.dearest_usd or 0.0)
        if self.spent.total.cost_usd + expected_usd > self.config.max_cost_usd:
            self.stop.request("cost")
            return False
        return True

    def progress(self, total: int) -> Progress:
        """Return how far the run is."""
        return Progress(
            done=self.done,
            total=total,
            left_out=self.left_out,
            calls_in_flight=self._in_flight,
            cost_usd=self.spent.total.cost_usd,
            documents_per_s=self._pace.rate(self.done, now_s=time.monotonic()) or 0.0,
        )
