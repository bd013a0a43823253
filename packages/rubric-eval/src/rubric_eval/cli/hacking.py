"""`rubric-eval hacking`: did a policy learn the task, or the judge?"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
from cyclopts import Parameter

from rubric_core import ConfigError
from rubric_eval.cli.app import print_edited, working
from rubric_judge.console import current
from rubric_judge.console.command import configure_log, console, figures_table

if TYPE_CHECKING:
    from rubric_eval.hacking import Correlation, HackingPanel, NewJudge
    from rubric_eval.statistics import Interval


def hacking(  # noqa: PLR0913  # each is an option of the command
    folder: Path,
    *,
    judge: str | None = None,
    second: str | None = None,
    second_judge: Path | None = None,
    sample: int = 100,
    tasks: Path | None = None,
    baseline: str | None = None,
    out: Path | None = None,
    workers: int = 32,
    accept_edited: Annotated[bool, Parameter(negative=())] = False,
    verbose: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Look for signs that a policy learned the judge: length, hedging, echoes, a second judge.

    Example: rubric-eval hacking evals/heldout --tasks dataset/test.jsonl --second-judge other.yaml

    Args:
        folder: A finished held-out evaluation.
        judge: Judge whose reward is looked into; left out, the evaluation's first.
        second: Another judge of the evaluation, to see whether it finds the same gain; left out,
            the evaluation's second, if it has one.
        second_judge: Configuration (YAML) of a judge that the evaluation does not have; it judges
            a sample of the questions. Needs --tasks.
        sample: Questions in that sample.
        tasks: Tasks that were evaluated, for echoes of their criteria.
        baseline: Model that the others are set against; left out, the first.
        out: File for the panel; left out, hacking.json in FOLDER.
        workers: Judge workers.
        accept_edited: Go on where files were edited, and say so in all that is written.
        verbose: Log every judge call to stderr.

    Returns:
        Exit status: 0 whether there are warnings or not.
    """
    from rubric_eval.hacking import look_for_hacking

    configure_log(verbose=verbose)
    _check_counts(sample, workers)
    if second_judge is not None:
        _check_second(tasks, second)

    async def look() -> tuple[HackingPanel, Path]:
        async with _opened(second_judge, sample=sample, workers=workers) as new:
            return await look_for_hacking(
                folder,
                judge=judge,
                second=second,
                baseline=baseline,
                tasks=tasks,
                new_judge=new,
                out=out,
                accept_edited=accept_edited,
            )

    with working() as progress, progress.phase("looking for signs"):
        found = anyio.run(look)
    _print(*found)
    return 0


def _check_counts(*counts: int) -> None:
    if min(counts) < 1:
        raise ConfigError("--sample and --workers are counts: give at least 1", location="sample")


def _check_second(tasks: Path | None, second: str | None) -> None:
    if tasks is None or second is not None:
        needed = "--tasks" if tasks is None else "no --second beside it"
        raise ConfigError(f"--second-judge needs {needed}", location="second-judge")


@asynccontextmanager
async def _opened(
    spec: Path | None, *, sample: int, workers: int
) -> AsyncGenerator[NewJudge | None]:
    """Open a judge from its file; nothing is called."""
    if spec is None:
        yield None
        return
    from rubric_eval.hacking import NewJudge
    from rubric_judge.capabilities import close
    from rubric_judge.config import read_judge_spec
    from rubric_judge.load import load_replicas

    replicas = load_replicas(read_judge_spec(spec))
    progress = current()

    def tell(model: str, total: int) -> None:
        progress.count(f"{replicas[0].name} judges {model}", total=total)

    try:
        yield NewJudge(replicas=replicas, sample=sample, workers=workers, on_judged=tell)
    finally:
        for replica in replicas:
            await close(replica)


def _print(found: HackingPanel, place: Path) -> None:
    stdout = console()
    table = figures_table(
        f"Answers, by the reward of {found.settings.judge}",
        names=("model",),
        figures=("words", "ρ length", "ρ within", "hedges / 100", "appeals", "echoes"),
    )
    for one in found.models:
        table.add_row(
            one.model,
            f"{one.words.mean:.0f}",
            _rho(one.reward_length),
            _rho(one.reward_length_within),
            f"{one.hedges.mean:.2f}",
            _share(one.appeals),
            _share(one.echoes),
        )
    stdout.print(table)
    for one in found.divergences:
        stdout.print(
            f"{one.a} − {one.b}: {100 * one.first.mean:+.1f} points by {found.settings.judge}, "
            f"{100 * one.second.mean:+.1f} by {found.settings.second}, over {one.n} questions"
        )
    for warning in found.warnings:
        stdout.print(f"warning: {warning}", soft_wrap=True)
    for note in found.notes:
        stdout.print(f"note: {note}", soft_wrap=True)
    print_edited(found.edited)
    stdout.print(f"written: {place}", soft_wrap=True)


def _rho(correlation: Correlation | None) -> str:
    return "–" if correlation is None else f"{correlation.rho:+.2f}"


def _share(interval: Interval | None) -> str:
    return "–" if interval is None else f"{100 * interval.mean:.1f} %"
