"""What an engine tells of its work goes into the work folder, and decides whether it goes on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from rubric_judge.console import Pace
from rubric_synth.engines import Pending
from rubric_synth.pipeline.progress import Progress
from rubric_synth.pipeline.spending import Prices, Spending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rubric_synth.calls import CallRecord
    from rubric_synth.config import SynthConfig
    from rubric_synth.engines import Engine
    from rubric_synth.outcome import Outcome
    from rubric_synth.pipeline.collection import CollectedLine
    from rubric_synth.pipeline.ending import Stop
    from rubric_synth.work import WorkFolder


class Watchers(NamedTuple):
    """Who wants to be told how far a run is."""

    on_document: Callable[[int], None] | None
    on_progress: Callable[[Progress], None] | None


class Recorder:
    """The sink of a run: keeps, counts, and says when to stop."""

    def __init__(
        self,
        folder: WorkFolder,
        config: SynthConfig,
        stop: Stop,
        *,
        settled: int,
        watchers: Watchers,
    ) -> None:
        """Start from what earlier runs have spent.

        Args:
            folder: Where calls and outcomes are kept.
            config: Ceilings.
            stop: Ended by this recorder or by others.
            settled: Documents that are done.
            watchers: Told of finished documents.
        """
        self.engine: Engine | None = None
        """The engine at work, whose calls in flight count."""
        self.spent = Spending(folder, Prices(config))
        self.done = settled
        self.left_out = 0
        self._folder = folder
        self._ceiling_usd = config.max_cost_usd
        self._most_unavailable = config.max_unavailable_in_a_row
        self._unavailable_in_a_row = 0
        self._stop = stop
        self._on_document = watchers.on_document
        self._in_work: dict[str, bytes] = {}
        self._pace = Pace(settled, now_s=time.monotonic())

    @property
    def needs_price(self) -> bool:
        """Whether there is a ceiling on costs, and no call has told yet what one costs."""
        return self._ceiling_usd is not None and self.spent.dearest_usd is None

    @property
    def is_stopped(self) -> bool:
        """Whether the run shall end."""
        return self._stop.cause is not None

    def pending(self, lines: Iterable[CollectedLine]) -> Iterator[Pending]:
        """Yield the documents that are not settled, with the calls that were answered."""
        for line in self._unsettled(lines):
            yield self._drawn(line, self._folder.calls_of(line.doc_hash))

    def answered(self, lines: Iterable[CollectedLine]) -> Iterator[Pending]:
        """Yield those of them that have answered calls."""
        for line in self._unsettled(lines):
            if known := self._folder.calls_of(line.doc_hash):
                yield self._drawn(line, known)

    def check_prices(self) -> None:
        """Stop where there is a ceiling, and an earlier call whose price is not known."""
        if self._ceiling_usd is not None and self.spent.unpriced_calls:
            self._stop.request("unpriced")

    def put_back(self, doc_hash: str) -> None:
        """Take a document for not drawn."""
        del self._in_work[doc_hash]

    def _unsettled(self, lines: Iterable[CollectedLine]) -> Iterator[CollectedLine]:
        for line, is_settled in self._folder.settled(lines):
            # A text that is there twice waits for another run while it is in work.
            if not is_settled and line.doc_hash not in self._in_work:
                yield line

    def _drawn(self, line: CollectedLine, known: tuple[CallRecord, ...]) -> Pending:
        self._in_work[line.doc_hash] = line.settings
        return Pending(line.document(), known)

    def on_call(self, doc_hash: str, record: CallRecord) -> None:
        """Keep a call; see `Sink`."""
        self._folder.add_call(doc_hash, record)
        if not self.spent.add(record) and self._ceiling_usd is not None:
            self._stop.request("unpriced")

    def on_outcome(self, outcome: Outcome) -> None:
        """Keep what came of a document; see `Sink`."""
        settings = self._in_work.pop(outcome.doc_hash, None)
        if settings is None:
            return  # told twice, as by a worker that was started again
        self._folder.add_outcome(outcome, settings)
        self.done += 1
        self.left_out += not outcome.tasks
        if outcome.is_settled:
            self._unavailable_in_a_row = 0
        else:
            self._unavailable_in_a_row += 1
            if self._unavailable_in_a_row >= self._most_unavailable:
                self._stop.request("unavailable")
        if self._on_document is not None:
            self._on_document(self.done)

    def may_call(self) -> bool:
        """Whether the calls in flight and one more are expected below the ceiling; see `Sink`.

        spent + (in flight + 1) · (mean of the stage whose calls cost most) ≤ ceiling
        """
        if self.is_stopped:
            return False
        if self._ceiling_usd is None:
            return True
        in_flight = self.engine.calls_in_flight if self.engine is not None else 0
        expected_usd = (in_flight + 1) * (self.spent.dearest_usd or 0.0)
        if self.spent.cost_usd + expected_usd > self._ceiling_usd:
            self._stop.request("cost")
            return False
        return True

    def progress(self, total: int) -> Progress:
        """Return how far the run is."""
        return Progress(
            done=self.done,
            total=total,
            left_out=self.left_out,
            calls_in_flight=self.engine.calls_in_flight if self.engine is not None else 0,
            cost_usd=self.spent.cost_usd,
            documents_per_s=self._pace.rate(self.done, now_s=time.monotonic()) or 0.0,
        )
