"""A held-out evaluation on the terminal: its progress, and its table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import anyio
from rich.table import Table

from rubric_eval.cli.app import FAILED, console, progress_bar
from rubric_eval.errors import HeldoutAbortError
from rubric_eval.heldout import HeldoutProgress
from rubric_eval.records import EvalFolder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from rich.progress import Progress, TaskID

    from rubric_eval.heldout import HeldoutPlan, HeldoutRow, HeldoutTable

__all__ = ["evaluated"]


def evaluated(
    evaluate: Callable[[HeldoutProgress], Awaitable[HeldoutTable]], plan: HeldoutPlan, *, out: Path
) -> int:
    """Evaluate with bars on stderr, and print the table; return the exit status."""
    try:
        with progress_bar() as bars:
            table = anyio.run(evaluate, _shown_by(bars, total=plan.answers))
    except HeldoutAbortError as error:
        print(f"rubric-eval: {error}", file=sys.stderr)
        return FAILED
    _print(table, out=out)
    return 0


def _shown_by(bars: Progress, *, total: int) -> HeldoutProgress:
    """Show a bar for each model's answers, and one for each judge and model."""
    shown: dict[str, TaskID] = {}

    def advance(title: str) -> None:
        if title not in shown:
            shown[title] = bars.add_task(title, total=total)
        bars.advance(shown[title])

    return HeldoutProgress(
        on_answer=lambda model: advance(f"{model} answers"),
        on_judged=lambda judge, model: advance(f"{judge} judges {model}"),
    )


def _print(table: HeldoutTable, *, out: Path) -> None:
    level = f"{100 * table.confidence:g} % interval"
    printed = Table(title="Held-out rubric reward", title_justify="left")
    printed.add_column("model", no_wrap=True)
    printed.add_column("judge", no_wrap=True)
    for name in ("reward", level, "zero", "invalid", "no judgement", "cut", "questions"):
        printed.add_column(name, justify="right")
    for row in table.rows:
        printed.add_row(row.model, row.judge, *_cells(row))
    for model, judge in table.missing:
        printed.add_row(model, judge, *["–"] * 7)
    stdout = console()
    stdout.print(printed)
    if table.judge_pairs:
        pairs = Table(title="Judges side by side", title_justify="left")
        for name in ("judges", "answers", "mean difference", "rank correlation", "same order"):
            pairs.add_column(name, justify="left" if name == "judges" else "right")
        for pair in table.judge_pairs:
            correlation = "–" if pair.rank_correlation is None else f"{pair.rank_correlation:.2f}"
            difference = f"{100 * pair.mean_difference:+.1f}"
            order = "yes" if pair.same_order else "no"
            pairs.add_row(f"{pair.a} − {pair.b}", str(pair.answers), difference, correlation, order)
        stdout.print(pairs)
    stdout.print(f"written: {EvalFolder(out).heldout}", soft_wrap=True)


def _cells(row: HeldoutRow) -> list[str]:
    shares = (row.zero_frac, row.invalid_frac, row.unavailable_frac, row.truncated_frac)
    interval = (
        "unknown"
        if row.ci_low is None or row.ci_high is None
        else f"{100 * row.ci_low:.1f} to {100 * row.ci_high:.1f}"
    )
    percent = ["–" if share is None else f"{100 * share:.1f} %" for share in shares]
    return [f"{100 * row.mean:.1f} %", interval, *percent, str(row.n)]
