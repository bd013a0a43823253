"""The engine of one process: documents in work share its event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from rubric_synth.calls import DocumentCalls
from rubric_synth.errors import CallsStoppedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rubric_synth.calls import CallRecord
    from rubric_synth.config import SynthConfig
    from rubric_synth.engines.protocol import Pending, Sink, WorkerSpec
    from rubric_synth.worker import Worker


class LocalEngine:
    """At most `max_concurrency` documents in work; the models' limiters bound the calls."""

    def __init__(self, config: SynthConfig, spec: WorkerSpec) -> None:
        """Keep the settings; nothing is built yet."""
        self._limit = config.max_concurrency
        self._spec = spec
        self._in_flight = _InFlight()

    @property
    def calls_in_flight(self) -> int:
        """Calls under way now."""
        return self._in_flight.count

    async def run(self, pending: Iterable[Pending], sink: Sink) -> None:
        """Work on documents; see `Engine.run`."""
        items = iter(pending)
        started = 1
        failures: list[Exception] = []

        async def work() -> None:
            nonlocal started
            try:
                while sink.may_call() and (item := next(items, None)) is not None:
                    if started < self._limit:  # no more of them than there are documents
                        started += 1
                        group.start_soon(work)
                    await self._process(worker, item, sink)
                    await anyio.lowlevel.checkpoint()  # a worker without a model never waits
            except Exception as error:  # noqa: BLE001 - raised below, without the group's wrapper
                failures.append(error)
                group.cancel_scope.cancel()

        worker = self._spec.build()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(work)
        finally:
            with anyio.CancelScope(shield=True):
                await worker.aclose()
        if failures:
            raise failures[0]

    async def _process(self, worker: Worker, item: Pending, sink: Sink) -> None:
        document = item.document

        def permit() -> _InFlight:
            if not sink.may_call():
                message = "the run is stopping"
                raise CallsStoppedError(message)
            return self._in_flight

        def keep(record: CallRecord) -> None:
            sink.on_call(document.doc_hash, record)

        calls = DocumentCalls(item.known, permit=permit, on_answer=keep)
        try:
            outcome = await worker.process(document, calls)
        except CallsStoppedError:
            return
        sink.on_outcome(outcome)


class _InFlight:
    """Counts what is inside of it."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *exception: object) -> None:
        self.count -= 1
