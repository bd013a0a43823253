"""`rubric-eval rejudge`: answers that are there, before other judges."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from rubric_eval.cli.app import working
from rubric_judge.console.command import configure_log

if TYPE_CHECKING:
    from rubric_eval.heldout import HeldoutProgress, HeldoutTable


def rejudge(  # the flags of a command
    folder: Path,
    *,
    tasks: Path,
    judge: Annotated[tuple[str, ...], Parameter(negative=())],
    max_unavailable_frac: float = 0.05,
    workers: int = 32,
    verbose: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Judge the answers of a held-out evaluation by further judges; nothing is generated.

    Example: rubric-eval rejudge evals/q --tasks runs/q/tasks/test.jsonl --judge strict.yaml

    Args:
        folder: Folder of the evaluation.
        tasks: The tasks that were asked; passages and rubrics are not kept in FOLDER.
        judge: The judge's configuration, YAML, or NAME=FILE.yaml; once or more.
        max_unavailable_frac: End where a larger share of a model's answers has no judgement.
        workers: Judge workers for each judge; each holds up to four answers.
        verbose: Log every judge call to stderr.

    Returns:
        Exit status: 1 when a judge left too much open.
    """
    from rubric_core import read_tasks  # noqa: PLC0415
    from rubric_eval.cli.table import evaluated  # noqa: PLC0415
    from rubric_eval.heldout import plan_of, rejudge_heldout  # noqa: PLC0415
    from rubric_eval.records import EvalFolder  # noqa: PLC0415
    from rubric_eval.scores import read_judges  # noqa: PLC0415

    configure_log(verbose=verbose)
    with working() as progress, progress.phase("reading tasks"):
        plan = plan_of(
            EvalFolder(folder),
            read_tasks(tasks),
            source=str(tasks),
            max_unavailable_frac=max_unavailable_frac,
            workers=workers,
        )

    async def evaluate(progress: HeldoutProgress) -> HeldoutTable:
        return await rejudge_heldout(folder, plan, read_judges(judge), progress=progress)

    return evaluated(evaluate, plan, out=folder)
