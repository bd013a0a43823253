"""Documents whose calls are all answered: done again without a model, as after a new setting."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import anyio.lowlevel

from rubric_synth.calls import DocumentCalls
from rubric_synth.errors import CallsStoppedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rubric_synth.engines import Pending
    from rubric_synth.pipeline.recorder import Recorder
    from rubric_synth.worker import Worker


async def replay(worker: Worker, answered: Iterable[Pending], recorder: Recorder) -> None:
    """Finish the documents that need no further call; put back the others.

    Args:
        worker: Does the work, and is never let ask.
        answered: Documents with answered calls.
        recorder: Keeps the outcomes, and says when to stop.
    """
    for document, known in answered:
        calls = DocumentCalls(known, permit=_refuse)
        try:
            outcome = await worker.process(document, calls)
        except CallsStoppedError:
            recorder.put_back(document.doc_hash)
        else:
            recorder.on_outcome(outcome)
        if recorder.is_stopped:
            return
        await anyio.lowlevel.checkpoint()


def _refuse() -> NoReturn:
    message = "only what was answered before is used"
    raise CallsStoppedError(message)
