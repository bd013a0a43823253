"""What the commands that study judges share: judging with replicates, and printing tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from rubric_core import Judge, JudgeResult, JudgeView
from rubric_judge.cli.app import progress_bar

if TYPE_CHECKING:
    from rubric_judge.ledger import Ledger
    from rubric_judge.tables import Table

__all__ = ["Judged", "judge_replicates", "print_tables"]

_SHORT_CELL: Final = 14


class Judged:
    """What `judge_replicates` brought."""

    def __init__(self, results_RN: list[list[JudgeResult]], unwritten: int) -> None:
        self.results_RN = results_RN
        self.unwritten = unwritten
        """Judgements that the ledger could not take; they are in the results all the same."""


def judge_replicates(
    judges: Sequence[Judge],
    views: Sequence[JudgeView],
    *,
    replicates: int = 1,
    ledger: Path | None = None,
    workers: int = 32,
) -> Judged:
    """Judge every view a number of times, with a progress bar.

    Args:
        judges: replicas of one judge; closed at the end.
        views: what to judge.
        replicates: judgements of each view.
        ledger: where judgements are looked up and kept.
        workers: judge workers.

    Returns:
        R lists of N results.
    """
    from rubric_judge.ledger import Ledger  # noqa: PLC0415

    with ExitStack() as stack:
        books = stack.enter_context(Ledger(ledger)) if ledger else None
        results = anyio.run(_judge, judges, views, replicates, books, workers)
        unwritten = books.unwritten if books else 0
    if unwritten:
        print(f"not written to {ledger}: {unwritten} judgements", file=sys.stderr)
    return Judged(results, unwritten)


async def _judge(
    judges: Sequence[Judge],
    views: Sequence[JudgeView],
    replicates: int,
    ledger: Ledger | None,
    workers: int,
) -> list[list[JudgeResult]]:
    from rubric_judge.capabilities import close  # noqa: PLC0415
    from rubric_judge.pool import JudgePool  # noqa: PLC0415

    pool = JudgePool(judges, workers=workers, ledger=ledger)
    try:
        with progress_bar() as progress:
            bar = progress.add_task(judges[0].name, total=replicates * len(views))

            def advance(position: int, result: JudgeResult) -> None:
                del position, result
                progress.advance(bar)

            return [
                await pool.judge_all(views, on_result=advance, replicate=replicate)
                for replicate in range(replicates)
            ]
    finally:
        for judge in judges:
            await close(judge)


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
                printed.add_column(name, no_wrap=place == 0 or longest <= _SHORT_CELL)
            for cells in table.rows:
                printed.add_row(*cells)
            console.print(printed)
    console.print(footer)
