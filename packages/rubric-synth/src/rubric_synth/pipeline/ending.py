"""How a run ends: why it stopped, and whether its dataset is what another run would write."""

from __future__ import annotations

import gc
import json
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import anyio
from anyio.abc import TaskStatus

from rubric_synth.calls import CallTotals
from rubric_synth.config import SynthConfig
from rubric_synth.dataset.manifest import CARD_FILE, MANIFEST_FILE, REJECTED_FILE, SPLITS
from rubric_synth.dataset.writing import SynthReport
from rubric_synth.errors import UnfinishedCause
from rubric_synth.work.folder import WorkFolder

NOTE: Final = "dataset"
DATASET_FILES: Final = (
    *(f"{split}.{kind}" for split in SPLITS for kind in ("jsonl", "parquet")),
    REJECTED_FILE,
    CARD_FILE,
    MANIFEST_FILE,
)


_WHY: Final[dict[UnfinishedCause, str]] = {
    "cost": (
        "another call is expected to pass max_cost_usd={config.max_cost_usd:g}: "
        "{spent.calls} calls have cost {spent.cost_usd:.4g} USD; raise it to go on"
    ),
    "unpriced": (
        "max_cost_usd={config.max_cost_usd:g} is set, and what {spent.unpriced_calls} of "
        "{spent.calls} calls cost is not known: set `prices:` of the model, and of the judge where "
        "it is one, or leave out max_cost_usd"
    ),
    "unavailable": (
        "{config.max_unavailable_in_a_row} documents after each other got no answer "
        "(max_unavailable_in_a_row): see that model and judge answer"
    ),
    "interrupted": "interrupted",
}


def stopped_because(cause: UnfinishedCause, config: SynthConfig, spent: CallTotals) -> str:
    """Say why a run stopped and what to do."""
    return _WHY[cause].format(config=config, spent=spent)


def unanswered(documents: int) -> str:
    """Say that documents got no answer, and what to do."""
    got = "document got" if documents == 1 else "documents got"
    return f"{documents} {got} no answer from a model or judge: see that they answer"


def spent_so_far(spent: CallTotals) -> str:
    """Say what all calls took, as the manifest does; "" where there were none."""
    if not spent.calls:
        return ""
    cost = f"{spent.cost_usd:.4g} USD"
    if spent.unpriced_calls:
        cost += f" and {spent.unpriced_calls} without a known price"
    return f"; {spent.calls} calls so far, {cost}"


def note_written(report: SynthReport, folder: WorkFolder, making: str) -> None:
    """Remember a finished dataset, so that another run need not write it again."""
    content = {
        "making": making,
        "files": _states(report.out),
        "report": report.model_dump(mode="json", exclude={"out"}),
    }
    folder.index.set_note(NOTE, json.dumps(content))


def written_before(out: Path, note: str | None, making: str) -> SynthReport | None:
    """Return the report of a finished dataset that is there untouched; None where it is not.

    Args:
        out: Dataset folder.
        note: What its work folder holds under `NOTE`.
        making: Digest of all that the bytes of the dataset depend on.
    """
    content: dict[str, Any] = {} if note is None else json.loads(note)
    if content.get("making") != making or content["files"] != _states(out):
        return None
    return SynthReport.model_validate({**content["report"], "out": out})


def _states(out: Path) -> dict[str, list[int]]:
    """Return size and time of the last change of each file of a dataset."""
    states = {name: (out / name).stat() for name in DATASET_FILES if (out / name).is_file()}
    return {name: [state.st_size, state.st_mtime_ns] for name, state in states.items()}


_GRACE_S: Final = 5.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether a run shall end, why, and how soon."""

    def __init__(self) -> None:
        """Let it run."""
        self._scope: anyio.CancelScope | None = None
        self.cause: UnfinishedCause | None = None
        """The first reason to end."""
        self.signal: int | None = None
        """The latest one that asked for the end."""
        self.is_left = False
        """Whether to leave at once, without writing what is done."""

    @contextmanager
    def scope(self) -> Generator[None]:
        """Give what to work in; it is cancelled where calls in flight do not end in time."""
        with anyio.CancelScope() as scope:
            self._scope = scope
            try:
                yield
            finally:
                self._scope = None

    @contextmanager
    def letting_end(self) -> Generator[None]:
        """Let what is done outside of the event loop end at a first interrupt; leave at the next.

        Raises:
            KeyboardInterrupt: At the second interrupt, with the number of its signal.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupted(number: int, frame: FrameType | None) -> None:
            del frame
            self.interrupt(number)
            if self.is_left:
                raise self.left()

        before = [signal.signal(number, interrupted) for number in _SIGNALS]
        try:
            yield
        finally:
            for number, handler in zip(_SIGNALS, before, strict=True):
                signal.signal(number, handler)

    def interrupt(self, number: int) -> None:
        """End in good order at a first signal; leave at once at the next."""
        if self.signal is not None:
            self.leave()
        else:
            self.request("interrupted")
        self.signal = number

    def left(self) -> KeyboardInterrupt:
        """Return what is raised on leaving at once: with the number of the signal."""
        return KeyboardInterrupt(self.signal)

    def request(self, cause: UnfinishedCause) -> None:
        """Draw no further document and let calls in flight end.

        They get a few seconds, or as long as they take where the ceiling on costs was reached:
        those are paid for.
        """
        if self.cause is None:
            self.cause = cause
        if self._scope is not None and cause in {"interrupted", "unavailable"}:
            self._scope.deadline = min(self._scope.deadline, anyio.current_time() + _GRACE_S)

    def leave(self) -> None:
        """Leave at once."""
        self.is_left = True
        if self._scope is not None:
            self._scope.cancel()


async def watch_signals(stop: Stop, *, task_status: TaskStatus[None]) -> None:
    """End the run at the first interrupt, in good order; leave at the second."""
    if threading.current_thread() is not threading.main_thread():
        task_status.started()
        return
    before = [signal.getsignal(number) for number in _SIGNALS]
    try:
        with anyio.open_signal_receiver(*_SIGNALS) as received:
            task_status.started()
            async for number in received:
                stop.interrupt(number)
    finally:
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)


_SELDOM: Final = (20_000, 20, 50)


@contextmanager
def seldom_collected() -> Generator[None]:
    """Look for cycles seldom, and not among what is there already: modules, schemas, prompts.

    Looking through these time and again was a tenth of a run. Few cycles are made by a document,
    and they are small. What the caller has frozen stays so: Python can only unfreeze everything.
    """
    before = gc.get_threshold()
    is_frozen = gc.get_freeze_count() > 0
    if not is_frozen:
        gc.collect()
        gc.freeze()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not is_frozen:
            gc.unfreeze()
