"""The application, its progress, and what several of its commands say."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from cyclopts import Parameter

import rubric_core
from rubric_core.files import toml_beside
from rubric_judge.ui.console.command import command_app, console, print_figures, working

if TYPE_CHECKING:
    from rubric_eval.heldout.plan import HeldoutPlan
    from rubric_eval.heldout.table import HeldoutTable

app = command_app(
    "rubric-eval",
    summary="Evaluate policies on held-out rubrics and on benchmarks, and compare them.",
)
app.default_parameter = Parameter.combine(app.default_parameter, Parameter(negative=()))


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
    """Temperature of the draw of tokens; 0 takes the most likely one."""

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

    stop: tuple[str, ...] = ()
    """Text that ends an answer; once or more."""


GREEDY = DecodingOptions()


TABLES = toml_beside(__file__, "tables.toml")
"""Tables that the commands print."""


def evaluated(
    evaluate: Callable[..., Awaitable[HeldoutTable]], plan: HeldoutPlan, *, out: Path
) -> int:
    """Evaluate with progress on stderr, and print the table; return the exit status."""
    from rubric_eval.heldout.run import HeldoutProgress

    with working(app) as progress, progress.phase("evaluating"):
        shown = HeldoutProgress(
            on_answer=lambda model: progress.count(
                f"{model} answers", total=plan.answers
            ),
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
    scored = [(row.model, row.judge, row, row.in_percent()) for row in table.rows]
    missing = [(*pair, None, None) for pair in table.missing]
    print_figures(TABLES["rewards"], [*scored, *missing], level=level)
    stdout = console()
    if table.missing:
        stdout.print("–: not judged yet; `rubric-eval rejudge` judges stored answers")
    for row in table.rows:
        for name, count in row.by_fallback.items():
            of = f"{count} of {row.values} rewards of {row.model} by {row.judge}"
            stdout.print(f"by the fallback {name}: {of}", soft_wrap=True)
    notes = [row.thought_note for row in table.rows if row.thought_note]
    for note in dict.fromkeys(notes):
        stdout.print(note, soft_wrap=True)
    pairs = ((pair, "yes" if pair.same_order else "no") for pair in table.judge_pairs)
    print_figures(TABLES["judge_pairs"], pairs)
    limits = (
        (row, "uncorrected", None)
        if row.mean is None
        else (
            row,
            percent(row.mean),
            f"{percent(row.ci_low)} to {percent(row.ci_high)}",
        )
        for row in table.corrected
    )
    print_figures(TABLES["corrected"], limits, level=level)
    for row in table.corrected:
        if row.refused:
            refused = row.refused.replace("EVAL/", f"{out}/")  # the file may be moved
            why = f"{row.model} by {row.judge} is not corrected: {refused}"
            stdout.print(why, soft_wrap=True)
        if row.population:
            stdout.print(
                f"{row.model} by {row.judge}: {row.population}", soft_wrap=True
            )
    stdout.print(f"written: {EvalFolder(out).heldout}", soft_wrap=True)


def percent(share: float | None) -> str:
    """Write a share in per cent, and a dash where there is none."""
    return "–" if share is None else f"{100 * share:.1f} %"
