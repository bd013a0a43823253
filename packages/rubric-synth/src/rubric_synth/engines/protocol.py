"""What an engine is given and what it hands back, whichever machines it works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rubric_synth.calls import CallRecord
    from rubric_synth.document import Document
    from rubric_synth.outcome import Outcome


class Pending(NamedTuple):
    """A document to work on."""

    document: Document
    known: tuple[CallRecord, ...]
    """Its calls that earlier runs have had answered."""


class Sink(Protocol):
    """Keeps what comes of the work; called on the event loop of `Engine.run`."""

    def on_call(self, doc_hash: str, record: CallRecord) -> None:
        """Keep a call: an answered one before its answer is used, or what one without cost.

        Raises:
            OutputError: It could not be written; the engine stops and raises this.
        """
        ...

    def on_outcome(self, outcome: Outcome) -> None:
        """Keep all that came of one document.

        Raises:
            OutputError: It could not be written; the engine stops and raises this.
        """
        ...

    def may_call(self) -> bool:
        """Whether one more call may be made; once False, no further document is drawn.

        An engine asks before each call, or, where calls are made elsewhere, before each document.
        """
        ...


class Engine(Protocol):
    """Works on documents, several at a time."""

    @property
    def calls_in_flight(self) -> int:
        """Calls under way now, or documents in work where calls are made elsewhere."""
        ...

    async def run(self, pending: Iterable[Pending], sink: Sink) -> None:
        """Work on documents until there is none left, or until the sink permits no further call.

        A document that is cut off by that is not reported as an outcome. A cancellation ends at
        once.

        Args:
            pending: Drawn lazily, only as there is room.
            sink: Told of every answered call and of every finished document.

        Raises:
            OutputError: The sink could not keep something.
        """
        ...
