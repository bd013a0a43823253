"""`rubric-eval heldout`: and `rejudge`: models on held-out questions, judged alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from rubric_eval.cli.app import GREEDY, DecodingOptions, evaluated, note, working
from rubric_judge.console import current
from rubric_judge.console.command import configure_log

if TYPE_CHECKING:
    from rubric_eval.heldout import HeldoutPlan, HeldoutProgress, HeldoutTable


def heldout(  # noqa: PLR0913  # the flags of a command
    *models: str,
    tasks: Path,
    judge: Annotated[tuple[str, ...], Parameter(negative=())],
    out: Path,
    seeds: Annotated[tuple[int, ...], Parameter(consume_multiple=True, negative=())] = (0,),
    samples: int = 1,
    decoding: DecodingOptions = GREEDY,
    limit: int | None = None,
    max_unavailable_frac: float = 0.05,
    workers: int = 32,
    verbose: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Have models answer the same held-out questions, and judge all answers alike: Table 1.

    Example: rubric-eval heldout base=policy:runs/q/base grpo=policy:runs/q/checkpoints/best
    --tasks runs/q/tasks/test.jsonl --judge configs/judge/lexical.yaml --out evals/q

    A model is NAME=policy:DIR, NAME=hf:DIR, NAME=server:URL#MODEL, NAME=litellm:MODEL,
    NAME=file:MODEL.yaml, or a YAML file of models. The same command goes on where it was stopped;
    with other models or judges it adds them to the folder.

    Args:
        models: Models, in the order of the table.
        tasks: Tasks that no training used, JSON Lines in the paper's schema (or Parquet).
        judge: The judge's configuration, YAML, or NAME=FILE.yaml; once or more.
        out: Folder of the evaluation.
        seeds: Seeds of the draws; each gives every question its samples anew.
        samples: Answers to each question and seed.
        decoding: How models answer.
        limit: Ask at most so many questions, from all over TASKS.
        max_unavailable_frac: End where a larger share of a model's answers has no judgement.
        workers: Judge workers for each judge; each holds up to four answers.
        verbose: Log every judge call to stderr.

    Returns:
        Exit status: 1 when a model or a judge left too much open.
    """
    from rubric_core import read_tasks
    from rubric_eval.heldout import HeldoutPlan, spread

    configure_log(verbose=verbose)
    with working() as progress, progress.phase("reading tasks"):
        chosen = spread(list(read_tasks(tasks)), limit)
    plan = HeldoutPlan(
        tasks=chosen,
        source=str(tasks),
        decoding=decoding.decoding(),
        seeds=seeds,
        samples=samples,
        max_unavailable_frac=max_unavailable_frac,
        workers=workers,
    )
    if decoding.temperature == 0 and len(seeds) * samples > 1:
        note("at temperature 0 all draws of an answer are the same: set --temperature")

    return evaluated(partial(_evaluate, models, judge, out, plan), plan, out=out)


async def _evaluate(
    models: Sequence[str],
    judges: Sequence[str],
    out: Path,
    plan: HeldoutPlan,
    progress: HeldoutProgress,
) -> HeldoutTable:
    from rubric_eval.heldout import run_heldout
    from rubric_eval.responders import open_models, parse_models
    from rubric_eval.scores import read_judges

    specs, named = parse_models(models), read_judges(judges)
    with current().phase("opening the models"):
        opened = await open_models(specs)
    return await run_heldout(out, plan, opened, named, progress=progress)


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
    from rubric_core import read_tasks
    from rubric_eval.heldout import plan_of, rejudge_heldout
    from rubric_eval.records import EvalFolder
    from rubric_eval.scores import read_judges

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
