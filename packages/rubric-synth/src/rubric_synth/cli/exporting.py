"""`rubric-synth export`: a dataset as an environment of other stacks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rubric_judge.ui.console import command
from rubric_judge.ui.page.tables import counted
from rubric_synth.cli import console


@console.app.command
def export(
    dataset: Path,
    *,
    to: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())],
    out: Path,
    judge: Path | None = None,
    name: str | None = None,
    fixtures: command.Count = 20,
) -> None:
    """Write a dataset as an environment that other stacks install and run.

    Example: rubric-synth export dataset --to verifiers --judge judge.yaml --out my-docs

    Args:
        dataset: Dataset folder.
        to: Stacks that it is for, one or more: verifiers.
        out: Folder to write, which is not there yet.
        judge: YAML file of the judge that rewards answers; that of claims, which needs no model, if
            left out.
        name: Name of the package; that of the folder if left out.
        fixtures: Make answers of known worth from so many tasks; 0 for none.
    """
    from rubric_synth.export import run

    targets = run.chosen_targets(to)
    with (
        command.working(console.app) as progress,
        progress.phase("reading tasks, writing the environment"),
    ):
        environment = run.read_environment(
            dataset,
            name=name or out.name,
            judge=judge,
            targets=targets,
            fixture_tasks=fixtures,
        )
        files = run.write_environment(environment, out)
    console.print_line(
        f"{counted(len(environment.tasks), 'task')} and "
        f"{counted(len(environment.fixtures), 'fixture')} in {counted(len(files), 'file')} "
        f"of {out}"
    )
