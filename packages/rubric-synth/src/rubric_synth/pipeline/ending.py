"""How a run ends: why it stopped, and whether its dataset is what another run would write."""

from __future__ import annotations

import json
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import anyio

from rubric_synth.dataset import CARD_FILE, MANIFEST_FILE, REJECTED_FILE, SPLITS, SynthReport
from rubric_synth.work import note_of_finished

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path
    from types import FrameType

    from anyio.abc import TaskStatus

    from rubric_synth.config import SynthConfig
    from rubric_synth.errors import UnfinishedCause
    from rubric_synth.pipeline.spending import Spending
    from rubric_synth.work import WorkFolder

_NOTE: Final = "dataset"
DATASET_FILES: Final = (
    *(f"{split}.{kind}" for split in SPLITS for kind in ("jsonl", "parquet")),
    REJECTED_FILE,
    CARD_FILE,
    MANIFEST_FILE,
)


def stopped_because(cause: UnfinishedCause, config: SynthConfig, spent: Spending) -> str:
    """Say why a run stopped and what to do."""
    match cause:
        case "cost":
            return (
                f"another call is expected to pass max_cost_usd={config.max_cost_usd:g}: "
                f"{spent.calls} calls have cost {spent.cost_usd:.4g} USD; raise it to go on"
            )
        case "unpriced":
            return (
                f"max_cost_usd={config.max_cost_usd:g} is set, and what {spent.unpriced_calls} of "
                f"{spent.calls} calls cost is not known: "
                "set `prices:` of the model, and of the judge where it is one, or leave out "
                "max_cost_usd"
            )
        case "unavailable":
            return (
                f"{config.max_unavailable_in_a_row} documents after each other got no answer "
                "(max_unavailable_in_a_row): see that model and judge answer"
            )
        case "interrupted":
            return "interrupted"


def spent_so_far(spent: Spending) -> str:
    """Say what all calls took, as the manifest does."""
    cost = f"{spent.cost_usd:.4g} USD"
    if spent.unpriced_calls:
        cost += f" and {spent.unpriced_calls} without a known price"
    return f"{spent.calls} calls so far, {cost}"


def unanswered(documents: int) -> str:
    """Say that documents got no answer, and what to do."""
    got = "document got" if documents == 1 else "documents got"
    return f"{documents} {got} no answer from a model or judge: see that they answer"


def note_written(report: SynthReport, folder: WorkFolder, making: str) -> None:
    """Remember a finished dataset, so that another run need not write it again."""
    content = {
        "making": making,
        "files": _states(report.out),
        "report": report.model_dump(mode="json", exclude={"out"}),
    }
    folder.set_note(_NOTE, json.dumps(content))


def written_before(out: Path, folder: WorkFolder, making: str) -> SynthReport | None:
    """Return the report of a finished dataset that is there untouched; None where it is not.

    Args:
        out: Dataset folder.
        folder: Its work folder.
        making: Digest of all that the bytes of the dataset depend on.
    """
    return _written(folder.note(_NOTE), out, making)


def written_on_read_only(out: Path, work: Path, making: str) -> SynthReport | None:
    """Do the same where the work folder cannot be opened for writing."""
    return _written(note_of_finished(work, _NOTE), out, making)


def _written(note: str | None, out: Path, making: str) -> SynthReport | None:
    if note is None:
        return None
    content = json.loads(note)
    if content["making"] != making or content["files"] != _states(out):
        return None
    return SynthReport.model_validate({**content["report"], "out": out})


def _states(out: Path) -> dict[str, list[int]]:
    """Return size and time of the last change of each file of a dataset."""
    found = {name: out / name for name in DATASET_FILES if (out / name).is_file()}
    states = {name: path.stat() for name, path in found.items()}
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
        self._is_interrupted = False
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
            KeyboardInterrupt: At the second interrupt.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupted(number: int, frame: FrameType | None) -> None:
            del number, frame
            self.interrupt()
            if self.is_left:
                raise KeyboardInterrupt

        before = [signal.signal(number, interrupted) for number in _SIGNALS]
        try:
            yield
        finally:
            for number, handler in zip(_SIGNALS, before, strict=True):
                signal.signal(number, handler)

    def interrupt(self) -> None:
        """End in good order; leave at once where that was asked for before."""
        if self._is_interrupted:
            self.leave()
        else:
            self._is_interrupted = True
            self.request("interrupted")

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
            async for _ in received:
                stop.interrupt()
    finally:
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)
