"""An evaluation under way: its manifest says so, and what it opened is closed, however it ends."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

import anyio

from rubric_core import RubricError
from rubric_eval.records.files import write_run
from rubric_eval.records.run import now

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
    from pathlib import Path

    from rubric_eval.records.layout import EvalFolder
    from rubric_eval.records.run import EvalRun


@contextmanager
def under_way(folder: EvalFolder, run: EvalRun, *, table: Path) -> Generator[None]:
    """Write the manifest of an evaluation that begins, and again where it fails.

    Args:
        folder: of the evaluation.
        run: its manifest, with status `running`.
        table: what earlier runs left: no table of an evaluation that is under way.
    """
    table.unlink(missing_ok=True)
    write_run(folder, run)  # first: it says what everything else in the folder is
    try:
        yield
    except BaseException as error:
        failed = {"status": "failed", "finished": now(), "error": _said(error)}
        with suppress(OSError):  # a full disk may be why
            write_run(folder, run.model_copy(update=failed))
        raise


@asynccontextmanager
async def closing(closers: Sequence[Callable[[], Awaitable[None]]]) -> AsyncGenerator[None]:
    """Close what was opened, also where it was never asked."""
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            for close_one in closers:
                await close_one()


def _said(error: BaseException) -> str:
    if isinstance(error, RubricError | OSError):
        return str(error)
    if isinstance(error, KeyboardInterrupt | anyio.get_cancelled_exc_class()):
        return "stopped before the end"
    return f"ended by a {type(error).__name__}"  # its message may hold anything
