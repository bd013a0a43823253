"""The application, its progress, and what several of its commands say."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import anyio
from cyclopts import Parameter

import rubric_core
from rubric_judge.console.command import command_app, console, figures_table, working
from rubric_judge.page.tables import or_dash

if TYPE_CHECKING:
    from rubric_eval.heldout.plan import HeldoutPlan
    from rubric_eval.heldout.table import HeldoutRow, HeldoutTable

app = command_app(
    "rubric-eval",
    summary="Evaluate policies on held-out rubrics and on benchmarks, and compare them.",
)


def note(message: str) -> None:
    """Say something on stderr that a reader of the table should know."""
    print(f"rubric-eval: {message}", file=sys.stderr)


def print_edited(edited: Sequence[str]) -> None:
    """List the edited files of an evaluation that were accepted."""
    for what in edited:
        console().print(f"edited, and accepted: {what}", soft_wrap=True)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DrawOptions:
    """Flags of a `Decoding` whose tokens and stops are each benchmark's own."""

    temperature: float = 0.0
    """Of the draw of tokens; 0 takes the most likely one."""

    top_p: float = 1.0
    """Draw from the smallest set of tokens with this probability."""

    top_k: int | None = None
    """Draw from so many most likely tokens."""

    def decoding(self) -> rubric_core.Decoding:
        """Return what they mean.

        Raises:
            ConfigError: a value that is out of range.
        """
        try:
            return rubric_core.Decoding(**asdict(self))
        except rubric_core.SchemaError as error:
            flag = f"--{(error.field or '').replace('_', '-')}"
            raise rubric_core.ConfigError(f"{flag}: {error}", location=flag) from None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DecodingOptions(DrawOptions):
    """Flags of a `Decoding`."""

    max_tokens: int = 3072
    """Tokens after which an answer is cut; fewer where a model has no room for them."""

    stop: Annotated[tuple[str, ...], Parameter(negative=())] = ()
    """Text that ends an answer; once or more."""


GREEDY: Final = DecodingOptions()


_COLUMNS: Final = ("zero", "invalid", "missing", "cut", "n")
"""Shares of rewards of 0, invalid judgements, answers without a judgement, and cut answers; and
the number of questions."""


def evaluated(
    evaluate: Callable[..., Awaitable[HeldoutTable]], plan: HeldoutPlan, *, out: Path
) -> int:
    """Evaluate with progress on stderr, and print the table; return the exit status."""
    from rubric_eval.heldout.run import HeldoutProgress

    with working(app) as progress, progress.phase("evaluating"):
        shown = HeldoutProgress(
            on_answer=lambda model: progress.count(f"{model} answers", total=plan.answers),
            on_judged=lambda judge, model: progress.count(
                f"{judge} judges {model}", total=plan.answers
            ),
        )
        table = anyio.run(partial(evaluate, progress=shown))
    _print(table, out=out)
    return 0


def _print(table: HeldoutTable, *, out: Path) -> None:
    from rubric_eval.records.inputs import EvalFolder

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
        stdout.print("–: not judged yet; `rubric-eval rejudge` judges stored answers")
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
            pairs.add_row(
                pair.a,
                pair.b,
                str(pair.answers),
                f"{100 * pair.mean_difference:+.1f}",
                or_dash(pair.rank_correlation, ".2f"),
                "yes" if pair.same_order else "no",
            )
        stdout.print(pairs)
    _print_corrected(table)
    stdout.print(f"written: {EvalFolder(out).heldout}", soft_wrap=True)


def _print_corrected(table: HeldoutTable) -> None:
    """Show what labels make of the rewards, and why not where they make nothing of them."""
    if not table.corrected:
        return
    corrected = figures_table(
        "Reward corrected by labels",
        names=("model", "judge"),
        figures=("judged", "corrected", f"{100 * table.confidence:g} %", "λ", "responses"),
    )
    for row in table.corrected:
        limits = f"{percent(row.ci_low)} to {percent(row.ci_high)}" if row.mean is not None else "–"
        figures = (percent(row.raw), percent(row.mean), limits, or_dash(row.trust, ".2f"))
        corrected.add_row(row.model, row.judge, *figures, str(row.labelled))
    stdout = console()
    stdout.print(corrected)
    for row in table.corrected:
        if row.refused:
            told = f"{row.model} by {row.judge} is not corrected: {row.refused}"
            stdout.print(told, soft_wrap=True)


def _cells(row: HeldoutRow) -> list[str]:
    shares = (row.zero_frac, row.invalid_frac, row.unavailable_frac, row.truncated_frac)
    return [percent(row.mean), row.in_percent(), *map(percent, shares), str(row.n)]


def percent(share: float | None) -> str:
    """Write a share in per cent, and a dash where there is none."""
    return "–" if share is None else f"{100 * share:.1f} %"
