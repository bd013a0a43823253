"""`rubric-eval heldout`, `rejudge`, `transfer`, `lm-eval` and `validate`: models are asked."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
from cyclopts import App, Parameter

import rubric_core
from rubric_core.nearest import near
from rubric_eval.cli.app import (
    GREEDY,
    TABLES,
    DecodingOptions,
    DrawOptions,
    app,
    evaluated,
    note,
)
from rubric_judge.ui.console import command
from rubric_judge.ui.console.command import Positive
from rubric_judge.ui.console.progress import current
from rubric_judge.ui.page.tables import or_dash

if TYPE_CHECKING:
    from rubric_core import Task
    from rubric_eval.heldout.plan import HeldoutPlan
    from rubric_eval.heldout.run import HeldoutProgress
    from rubric_eval.heldout.table import HeldoutTable
    from rubric_eval.statistics.intervals import ModelScore
    from rubric_eval.transfer.plan import TransferPlan
    from rubric_eval.transfer.table import TransferTable
    from rubric_judge.quality.labels.written import KnownAnswers
    from rubric_judge.ui.console.progress import Progress


def heldout(  # noqa: PLR0913  # the flags of a command
    *models: str,
    tasks: Path,
    judge: tuple[str, ...],
    out: Path,
    seeds: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = (0,),
    samples: Positive = 1,
    decoding: DecodingOptions = GREEDY,
    limit: Positive | None = None,
    max_unavailable_frac: float = 0.05,
    workers: Positive = 32,
    calibration: Path | None = None,
    controls: bool = False,
    verbose: bool = False,
) -> int:
    """Have models answer the same held-out questions, and judge all answers alike: Table 1.

    Example: rubric-eval heldout base=policy:DIR --tasks test.jsonl --judge judge.yaml --out evals/q

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
        calibration: Of the judge; rewards corrected by its labels then stand beside the raw ones.
        controls: Judge answers that no model gave too: a template, wrong references, written ones.
        verbose: Log every judge call to stderr.

    Returns:
        Exit status: 1 when too many answers or judgements are missing.
    """
    from rubric_eval.heldout.plan import HeldoutPlan, spread

    command.configure_log(verbose=verbose)
    with command.working(app) as progress, progress.phase("reading tasks"):
        everything = list(rubric_core.read_tasks(tasks))
        known = _written(everything, tasks.parent) if controls else None
    plan = HeldoutPlan(
        tasks=spread(everything, limit),
        source=str(tasks),
        decoding=decoding.decoding(),
        seeds=seeds,
        samples=samples,
        max_unavailable_frac=max_unavailable_frac,
        workers=workers,
    )
    if decoding.temperature == 0 and len(seeds) * samples > 1:
        note("at temperature 0 all draws of an answer are the same: set --temperature")
    asked = partial(
        _heldout, models, judge, out, plan, calibration=calibration, known=known
    )
    return evaluated(asked, plan, out=out)


def _written(tasks: Sequence[Task], folder: Path) -> KnownAnswers:
    """Read the answers that people wrote, right or false; warn of those left out or copied."""
    from rubric_judge.quality.labels.written import WrittenAnswers, warnings_of

    known = WrittenAnswers(folder).to(tasks)
    for warning in warnings_of(strange=known.strange, copied=known.copied):
        note(warning)
    return known


async def _heldout(  # noqa: PLR0913  # the flags of a command
    models: Sequence[str],
    judges: Sequence[str],
    out: Path,
    plan: HeldoutPlan,
    *,
    progress: HeldoutProgress,
    calibration: Path | None,
    known: KnownAnswers | None,
) -> HeldoutTable:
    from rubric_eval.heldout.run import run_heldout
    from rubric_eval.responders.opening import open_controls, open_models
    from rubric_eval.responders.spec import parse_models
    from rubric_eval.scores.scoring import read_judges

    specs = parse_models(models)
    named = read_judges(judges)
    with current().phase("opening the models"):
        opened = await open_models(specs)
        if known is not None:
            opened += open_controls(plan.tasks, beside=specs, known=known.controls)
    return await run_heldout(
        out, plan, opened, named, progress=progress, calibration=calibration
    )


def rejudge(
    folder: Path,
    *,
    tasks: Path,
    judge: tuple[str, ...],
    max_unavailable_frac: float = 0.05,
    workers: Positive = 32,
    verbose: bool = False,
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
    from rubric_eval.heldout.plan import plan_of
    from rubric_eval.heldout.run import rejudge_heldout
    from rubric_eval.records.inputs import EvalFolder
    from rubric_eval.scores.scoring import read_judges

    command.configure_log(verbose=verbose)
    with command.working(app) as progress, progress.phase("reading tasks"):
        plan = plan_of(
            EvalFolder(folder),
            rubric_core.read_tasks(tasks),
            source=str(tasks),
            max_unavailable_frac=max_unavailable_frac,
            workers=workers,
        )
    evaluate = partial(rejudge_heldout, folder, plan, read_judges(judge))
    return evaluated(evaluate, plan, out=folder)


GREEDY_DRAW = DrawOptions()


def transfer(  # noqa: PLR0913  # the flags of a command
    *models: str,
    out: Path,
    suite: Literal["paper", "likelihood", "stock"] = "paper",
    data: str | None = None,
    benchmarks: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    seeds: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = (0,),
    draw: DrawOptions = GREEDY_DRAW,
    max_tokens: Positive | None = None,
    limit: Positive | None = None,
    max_unavailable_frac: float = 0.05,
    verbose: bool = False,
) -> int:
    """Have models answer the same benchmarks, and score all answers alike: Table 2.

    Example: rubric-eval transfer base=hf:models/base tuned=hf:models/tuned --data small --out t

    A model is NAME=policy:DIR, NAME=hf:DIR, NAME=server:URL#MODEL, NAME=litellm:MODEL,
    NAME=file:MODEL.yaml, or a YAML file of models. The same command goes on where it was stopped;
    with other models it adds them to the folder.

    Args:
        models: Models, in the order of the table; differences are from the first.
        out: Folder of the evaluation.
        suite: `paper` for our pinned tasks, `likelihood` for GPQA by the letter that a model finds
            likeliest, `stock` for lm-eval's own prompts and scoring.
        data: Folder with local copies of the benchmarks, or `small` for the set that comes with
            this package. Left out, the Hugging Face Hub is asked.
        benchmarks: Some of gsm8k, math, gpqa_main and gpqa_diamond; all of them when left out.
        seeds: Seeds of the draws; each gives every item an answer of its own.
        draw: How tokens are drawn.
        max_tokens: Tokens of an answer, in place of each benchmark's own; fewer where a model has
            no room for them.
        limit: Only the first items of each benchmark, to try something out.
        max_unavailable_frac: End where a larger share of a benchmark's items has no answer.
        verbose: Log what the models' side does to stderr.

    Returns:
        Exit status: 1 when a model left too many items without an answer.
    """
    from rubric_eval.transfer.plan import plan_transfer
    from rubric_eval.transfer.suites import SuiteName

    command.configure_log(verbose=verbose)
    with command.working(app) as progress, progress.phase("building the benchmarks"):
        plan = plan_transfer(
            suite=SuiteName(suite),
            benchmarks=benchmarks,
            data=data,
            decoding=draw.decoding(),
            max_tokens=max_tokens,
            limit=limit,
            seeds=seeds,
            max_unavailable_frac=max_unavailable_frac,
        )
    with command.working(app) as progress, progress.phase("evaluating"):
        table = anyio.run(_transfer, models, out, plan, progress)
    _print_transfer(table, out=out)
    return 0


async def _transfer(
    models: Sequence[str], out: Path, plan: TransferPlan, shown: Progress
) -> TransferTable:
    from rubric_eval.responders.opening import open_models
    from rubric_eval.responders.spec import parse_models
    from rubric_eval.transfer.plan import run_transfer

    def count(model: str, benchmark: str, total: int) -> None:
        shown.count(f"{model} {benchmark}", total=total)

    with shown.phase("opening the models"):
        opened = await open_models(parse_models(models))
    return await run_transfer(out, plan, opened, on_progress=count)


def _print_transfer(table: TransferTable, *, out: Path) -> None:
    from rubric_eval.records.inputs import EvalFolder
    from rubric_eval.transfer.suites import TITLES

    columns = table.rows[0].cells
    benchmarks = (
        f"{TITLES.get(name, name)}\nn = {n}" for name, n in table.items.items()
    )
    accuracy = [
        [
            row.model,
            *map(_accuracy, row.cells),
            f"{100 * row.average:.2f}",
            _percent(row.average_delta, "+.2f"),
        ]
        for row in table.rows
    ]
    if any(cell.chance is not None for cell in columns):
        chance = [_percent(column.chance, ".0f") for column in columns]
        accuracy.append(["chance", *chance, "", ""])
    command.print_rows(
        ("model", *benchmarks, "Avg.", "Avg. Δ"),
        accuracy,
        "Accuracy, %, with its 95 % interval",
    )
    ends = (
        (TITLES.get(cell.benchmark, cell.benchmark), cell)
        for row in table.rows
        for cell in row.cells
    )
    command.print_figures(TABLES["ends"], ends)
    for row in table.rows:
        for cell in row.cells:
            if said := cell.thought_note:
                title = TITLES.get(cell.benchmark, cell.benchmark)
                command.console().print(f"{title}, {said}", soft_wrap=True)
    command.console().print(f"written: {EvalFolder(out).transfer}", soft_wrap=True)


def _percent(share: float | None, form: str) -> str:
    return or_dash(None if share is None else 100 * share, form)


def _accuracy(cell: ModelScore) -> str:
    text = f"{100 * cell.mean:.2f}"
    if cell.ci_low is None or cell.ci_high is None:
        return f"{text}\n{cell.no_interval}"
    return f"{text}\n{100 * cell.ci_low:.1f} to {100 * cell.ci_high:.1f}"


lm_eval = App(
    name="lm-eval",
    help="Run lm-eval with our tasks: every argument is lm-eval's own.",
    help_flags=(),
    version_flags=(),
)


@lm_eval.default
def run(
    *arguments: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
) -> int:
    """Run lm-eval with our tasks found; a `--use_cache` is kept apart for each model.

    Example: rubric-eval lm-eval run --tasks rubric_gsm8k --metadata data=bench --model hf …

    Args:
        arguments: lm-eval's.

    Returns:
        Exit status.
    """
    with command.working(app) as progress, progress.phase("loading lm-eval"):
        from rubric_eval.transfer.building import harness
        from rubric_eval.transfer.pass_through import run_lm_eval

        # Half a minute on a cold disk; from then on lm-eval tells of its work itself.
        harness("lm_eval.__main__")
    return run_lm_eval(arguments, say=lambda text: print(text, file=sys.stderr))


def tasks_path() -> int:
    """Print the folder of our tasks, for lm-eval's own `--include_path`.

    Example: lm-eval run --include_path "$(rubric-eval tasks-path)" --tasks rubric_gsm8k …

    Returns:
        Exit status.
    """
    from rubric_eval.lm_tasks import TASKS_PATH

    print(TASKS_PATH)
    return 0


def validate(
    *, data: str | None = None, tasks: Path | None = None, judge: Path | None = None
) -> int:
    """Build every task of all suites and rubric_heldout, with data and prompts; name any gaps.

    Example: rubric-eval validate --data small

    Args:
        data: Folder with local copies of the benchmarks (gsm8k_test.jsonl, math_test.jsonl or
            math500_test.jsonl, gpqa_main.csv, gpqa_diamond.csv), or `small` for the set that comes
            with this package. Left out, the Hugging Face Hub is asked.
        tasks: Held-out questions for rubric_heldout. Left out, one question stands for any.
        judge: YAML file of its judge, which is asked whether it is there. Left out, that of
            claims is taken.

    Returns:
        Exit status: 1 where a task cannot be built.
    """
    from rubric_eval.lm_tasks.sources import SMALL
    from rubric_eval.transfer.building import validate as build_all

    for flag, value in (("data", data), ("tasks", tasks), ("judge", judge)):
        if value and value != SMALL and not Path(value).exists():
            hint = near(Path(value))
            problem = f"--{flag} {value}: there is no such file or folder{hint}"
            raise rubric_core.ConfigError(problem, location=flag)
    with command.working(app) as progress, progress.phase("building the tasks"):
        rows = build_all(data=data, tasks=tasks, judge=judge)
    command.print_rows(
        ("task", "items", "source, or what is missing"),
        (
            (row.task, "-" if row.items is None else str(row.items), row.source)
            for row in rows
        ),
    )
    return command.FAILED if any(row.items is None for row in rows) else 0
