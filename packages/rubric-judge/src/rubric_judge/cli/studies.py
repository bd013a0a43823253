"""What the commands that study judges share: judging with replicates, and printing tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from rubric_core import Judge, JudgeResult, JudgeView
from rubric_judge.cli.app import progress_bar

if TYPE_CHECKING:
    from rich.progress import Progress

    from rubric_judge.ledger import Ledger
    from rubric_judge.pool import JudgePool
    from rubric_judge.tables import Table

__all__ = ["Batch", "Judged", "judge_batches", "print_tables"]

_SHORT_CELL: Final = 14


class Batch(NamedTuple):
    """Views that are judged a number of times."""

    title: str
    """What the progress bar says."""
    views: Sequence[JudgeView]
    replicates: int = 1


class Judged(NamedTuple):
    """What `judge_batches` brought."""

    batches: list[list[list[JudgeResult]]]
    """For each batch, R lists of one result a view."""
    unwritten: int
    """Judgements that the ledger could not take; they are in the results all the same."""


def judge_batches(
    judges: Sequence[Judge],
    batches: Sequence[Batch],
    *,
    ledger: Path | None = None,
    workers: int = 32,
) -> Judged:
    """Judge every batch, with a progress bar.

    Args:
        judges: replicas of one judge; closed at the end.
        batches: what to judge, in this order.
        ledger: where judgements are looked up and kept.
        workers: judge workers.

    Returns:
        The results, in order.
    """
    from rubric_judge.ledger import Ledger  # noqa: PLC0415

    with ExitStack() as stack:
        books = stack.enter_context(Ledger(ledger)) if ledger else None
        results = anyio.run(_judge, judges, batches, books, workers)
        unwritten = books.unwritten if books else 0
    if unwritten:
        print(f"not written to {ledger}: {unwritten} judgements", file=sys.stderr)
    return Judged(results, unwritten)


async def _judge(
    judges: Sequence[Judge], batches: Sequence[Batch], ledger: Ledger | None, workers: int
) -> list[list[list[JudgeResult]]]:
    from rubric_judge.capabilities import close  # noqa: PLC0415
    from rubric_judge.pool import JudgePool  # noqa: PLC0415

    pool = JudgePool(judges, workers=workers, ledger=ledger)
    try:
        with progress_bar() as progress:
            return [await _judge_batch(pool, batch, progress) for batch in batches]
    finally:
        for judge in judges:
            await close(judge)


async def _judge_batch(
    pool: JudgePool, batch: Batch, progress: Progress
) -> list[list[JudgeResult]]:
    bar = progress.add_task(batch.title, total=batch.replicates * len(batch.views))

    def advance(position: int, result: JudgeResult) -> None:
        del position, result
        progress.advance(bar)

    return [
        await pool.judge_all(batch.views, on_result=advance, replicate=replicate)
        for replicate in range(batch.replicates)
    ]


def print_tables(tables: Sequence[Table], *, footer: str) -> None:
    """Print a report's tables on stdout, and where the rest of it is."""
    console = Console()
    for table in tables:
        if table.rows:
            printed = RichTable(
                title=table.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
            )
            for place, name in enumerate(table.header):
                longest = max(len(row[place]) for row in table.rows)
                fixed = longest <= _SHORT_CELL and place < len(table.header) - 1
                printed.add_column(name, no_wrap=place == 0 or fixed)
            for cells in table.rows:
                printed.add_row(*cells)
            console.print(printed)
    console.print(footer)
