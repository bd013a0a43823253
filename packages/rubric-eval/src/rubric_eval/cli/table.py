"""A held-out evaluation on the terminal: its progress, and its table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import anyio

from rubric_eval.cli.app import working
from rubric_eval.errors import HeldoutAbortError
from rubric_eval.heldout import HeldoutProgress
from rubric_eval.records import EvalFolder
from rubric_judge.console.command import FAILED, console, figures_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from rubric_eval.heldout import HeldoutPlan, HeldoutRow, HeldoutTable, JudgePair
    from rubric_judge.console import Progress


_COLUMNS: Final = ("zero", "invalid", "missing", "cut", "n")
"""Shares of rewards of 0, invalid judgements, answers without a judgement, and cut answers; and
the number of questions."""


def evaluated(
    evaluate: Callable[[HeldoutProgress], Awaitable[HeldoutTable]], plan: HeldoutPlan, *, out: Path
) -> int:
    """Evaluate with progress on stderr, and print the table; return the exit status."""
    try:
        with working() as progress, progress.phase("evaluating"):
            table = anyio.run(evaluate, _told_to(progress, total=plan.answers))
    except HeldoutAbortError as error:
        print(f"rubric-eval: {error}", file=sys.stderr)
        return FAILED
    _print(table, out=out)
    return 0


def _told_to(progress: Progress, *, total: int) -> HeldoutProgress:
    """Count each model's answers, and the judgements of each judge and model."""
    return HeldoutProgress(
        on_answer=lambda model: progress.count(f"{model} answers", total=total),
        on_judged=lambda judge, model: progress.count(f"{judge} judges {model}", total=total),
    )


def _print(table: HeldoutTable, *, out: Path) -> None:
    level = f"{100 * table.confidence:g} %"
    rewards = figures_table(
        "Held-out rubric reward", names=("model", "judge"), figures=("reward", level, *_COLUMNS)
    )
    for row in table.rows:
        rewards.add_row(row.model, row.judge, *_cells(row))
    for model, judge in table.missing:
        rewards.add_row(model, judge, *["–"] * (2 + len(_COLUMNS)))
    stdout = console()
    stdout.print(rewards)
    if table.missing:
        stdout.print("–: not brought together; `rubric-eval rejudge` judges what is answered")
    for row in table.rows:
        for name, count in row.by_fallback.items():
            of = f"{count} of {row.values} rewards of {row.model} by {row.judge}"
            stdout.print(f"by the fallback {name}: {of}", soft_wrap=True)
    if table.judge_pairs:
        pairs = figures_table(
            "Judges on the same answers, points",
            names=("judge", "minus"),
            figures=("answers", "difference", "rank correlation", "same order"),
        )
        for pair in table.judge_pairs:
            pairs.add_row(pair.a, pair.b, *_pair_cells(pair))
        stdout.print(pairs)
    stdout.print(f"written: {EvalFolder(out).heldout}", soft_wrap=True)


def _cells(row: HeldoutRow) -> list[str]:
    shares = (row.zero_frac, row.invalid_frac, row.unavailable_frac, row.truncated_frac)
    interval = (
        "unknown"
        if row.ci_low is None or row.ci_high is None
        else f"{100 * row.ci_low:.1f} to {100 * row.ci_high:.1f}"
    )
    return [_percent(row.mean), interval, *map(_percent, shares), str(row.n)]


def _pair_cells(pair: JudgePair) -> list[str]:
    correlation = pair.rank_correlation
    return [
        str(pair.answers),
        f"{100 * pair.mean_difference:+.1f}",
        "–" if correlation is None else f"{correlation:.2f}",
        "yes" if pair.same_order else "no",
    ]


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
