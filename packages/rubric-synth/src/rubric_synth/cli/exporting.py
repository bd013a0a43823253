"""`rubric-synth export`: a dataset as an environment of other stacks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from rubric_judge.errors import JudgeSetupError
from rubric_judge.ui.console import command
from rubric_judge.ui.page.tables import counted
from rubric_synth.cli import console

if TYPE_CHECKING:
    from rubric_synth.export.card_figures import Figures
    from rubric_synth.export.environment import Environment

_NO_ANSWER = 4


@console.app.command
def export(  # noqa: PLR0913  # each is an option of the command
    dataset: Path,
    *,
    to: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())],
    out: Path,
    judge: Path | None = None,
    name: str | None = None,
    fixtures: command.Count | None = None,
    low: command.Share = 0.5,
    keep_failing: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Write a dataset as an environment that other stacks install and run, tested by its own judge.

    Each task with a reference answer is tested: the reference must earn the whole reward, an empty
    answer nothing, and damaged or false ones little. A task that fails is left out.

    Example: rubric-synth export dataset --to verifiers --out my-docs

    Args:
        dataset: Dataset folder.
        to: Stacks that it is for, one or more: verifiers (for prime-rl too), nemo-gym, harbor, trl,
            verl, skyrl, slime (for miles too), inspect-ai.
        out: Folder to write, which is not there yet.
        judge: YAML file of the judge that rewards answers; that of claims, which needs no model, if
            left out.
        name: Name of the package; that of the folder if left out.
        fixtures: Test so many tasks; all where the judge is a program and 20 where it asks a model
            if left out; 0 for none.
        low: Reward from which a false answer is a false pass.
        keep_failing: Keep the tasks that fail.
    """
    from rubric_synth.export import run

    targets = run.chosen_targets(to)
    with command.working(console.app) as progress:
        with progress.phase("reading tasks"):
            environment = run.read_environment(
                dataset,
                name=name or out.name,
                judge=judge,
                targets=targets,
                fixture_tasks=fixtures,
            )
            run.require_new(out)
        if environment.fixtures:
            environment = _tested(environment, low=low, keep_failing=keep_failing)
        with progress.phase("writing the environment"):
            files = run.write_environment(environment, out)
    if environment.figures is not None:
        _print_figures(environment.figures)
    console.print_line(
        f"{counted(len(environment.tasks), 'task')} and "
        f"{counted(len(environment.fixtures), 'fixture')} in {counted(len(files), 'file')} "
        f"of {out}"
    )
    if environment.figures is not None and environment.figures.is_failed:
        sys.exit(command.FAILED)


def _tested(environment: Environment, *, low: float, keep_failing: bool) -> Environment:
    import anyio

    from rubric_judge import load_replicas
    from rubric_judge.ui.console import progress
    from rubric_synth.export import trial

    judges = load_replicas(environment.judge_spec)
    only = judges[0] if len(judges) == 1 else judges

    async def test() -> Environment:
        return await trial.tried(environment, only, low=low, keep_failing=keep_failing)

    with progress.current().phase("testing the environment"):
        try:
            return anyio.run(test)
        except JudgeSetupError as error:
            console.fail(str(error), status=_NO_ANSWER)


def _print_figures(figures: Figures) -> None:
    """Print what each kind of answer earned, and what that meant for the tasks."""
    rows = (
        (name, expect, str(count), _percent(mean), _percent(worst), str(failures))
        for name, expect, count, mean, worst, failures in figures.report.rows()
    )
    console.print_table(
        f"Answers of known worth, by {figures.judge}",
        ("answer", "must earn"),
        ("answers", "mean", "worst", "fail"),
        rows,
    )
    for name, problem, count in figures.reasons:
        console.print_line(f"{counted(count, 'task')}: {name} {problem}")
    if figures.left_out:
        console.print_line(
            f"{counted(figures.left_out, 'task')} of {figures.tested} left out: the judge "
            "cannot tell right from false there (--keep-failing keeps them)"
        )
    if figures.report.unavailable:
        lost = counted(figures.report.unavailable, "fixture")
        console.warn(f"{lost} could not be judged: the test is not passed")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
