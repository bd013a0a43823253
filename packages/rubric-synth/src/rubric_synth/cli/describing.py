"""`rubric-synth stats | check | questions`: what a dataset holds, as numbers and as files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.markup import escape
from rich.table import Table

from rubric_judge import (
    HybridConfig,
    JudgeSetupError,
    LexicalConfig,
    load_replicas,
    read_judge_spec,
)
from rubric_judge.console.command import FAILED
from rubric_synth.check import check_dataset
from rubric_synth.cli.app import app
from rubric_synth.cli.console import (
    err_console,
    fail,
    out_console,
    print_counts,
    print_fallbacks,
    print_line,
    warn,
    working,
)
from rubric_synth.controls import CONTROLS
from rubric_synth.dataset import asked_of_models, read_manifest
from rubric_synth.files import write_lines
from rubric_synth.questions import question_lines
from rubric_synth.stats import (
    CONTROL_TASKS,
    PAGE_FILE,
    counted,
    dataset_statistics,
    judged_by_words,
    unreadable_rejections,
)

if TYPE_CHECKING:
    from rubric_judge.config import JudgeSpec
    from rubric_synth.stats import DatasetStatistics, Spread

_MODEL_TASKS: Final = 20
_NO_ANSWER: Final = 4


@app.command
def stats(
    dataset: Path,
    *,
    judge: Path | None = None,
    controls: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
    html: Path | None = None,
    reveal_grounding: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Show statistics of a dataset; write them to stats.json in its folder, and a page to look at.

    The page shows rubrics and reference answers: it is for the judge's side.

    Args:
        dataset: Dataset folder.
        judge: YAML file of the judge that scores the controls; the lexical one if left out, which
            sees the words of a criterion in free text and not its meaning.
        controls: Score the controls of this many tasks; 500 if left out, 20 where a model judges.
        json: Print JSON in place of tables.
        html: Page to write; stats.html in the dataset folder if left out.
        reveal_grounding: Show the passages on the page too.
    """
    page = html or dataset / PAGE_FILE
    spec = LexicalConfig() if judge is None else read_judge_spec(judge)
    sample = controls or (CONTROL_TASKS if _is_program(spec) else _MODEL_TASKS)
    if not _is_program(spec):
        _say_calls(dataset, sample)
    try:
        with working() as progress, progress.phase("reading tasks, judging the controls"):
            statistics = dataset_statistics(
                dataset,
                judge=load_replicas(spec),
                controls=sample,
                page=page,
                reveal_grounding=reveal_grounding,
            )
    except JudgeSetupError as error:
        fail(str(error), status=_NO_ANSWER)
    if json:
        out_console.print_json(statistics.model_dump_json())
    else:
        _print_statistics(statistics)
    _warn_of(statistics)
    err_console.print(f"page: {page}", markup=False, highlight=False, soft_wrap=True)


@app.command
def check(dataset: Path, *, collected: Path | None = None) -> None:
    """Check that a dataset parses, adds up, leaks nothing and keeps its splits apart.

    Args:
        dataset: Dataset folder.
        collected: The collected folder that it was made of, to look for each of its documents.
    """
    with working() as progress, progress.phase("checking"):
        report = check_dataset(dataset, collected=collected)
    for problem in report.problems:
        err_console.print(problem, markup=False, highlight=False)
    tasks = counted(sum(report.tasks.values()), "tasks")
    out_console.print(f"{tasks}, {counted(report.problem_count, 'problems')}")
    if report.problem_count:
        sys.exit(FAILED)


@app.command
def questions(
    dataset: Path,
    *,
    split: str = "test",
    out: Annotated[Path, Parameter(allow_leading_hyphen=True)],
) -> None:
    """Write the questions of a split, for answers that `rubric-judge score` can score.

    Each line is {"task_id", "question"}: what a policy sees, and no more. Answer with lines of
    {"task_id", "response"}, then: rubric-judge score DATASET/test.jsonl ANSWERS --judge
    JUDGE.yaml --out JUDGED.jsonl

    Args:
        dataset: Dataset folder.
        split: train, validation or test.
        out: File to write; - for standard output.
    """
    lines = question_lines(dataset, split=split)
    if str(out) == "-":
        sys.stdout.writelines(lines)
    else:
        print_line(f"{write_lines(out, lines)} questions in {out}")


def _is_program(spec: JudgeSpec) -> bool:
    return isinstance(spec.judge if isinstance(spec, HybridConfig) else spec, LexicalConfig)


def _say_calls(dataset: Path, sample: int) -> None:
    tasks = min(sample, sum(read_manifest(dataset).tasks.values()))
    message = f"controls: {tasks} tasks with {len(CONTROLS)} answers each, "
    message += f"{tasks * len(CONTROLS):,} calls of the judge at most"
    err_console.print(message, markup=False, highlight=False, soft_wrap=True)


def _warn_of(found: DatasetStatistics) -> None:
    if found.unread_criteria:
        warn(judged_by_words(found))
    if found.control_failures:
        warn(f"{found.control_failures:,} answers could not be judged; the means leave them out")
    if found.unreadable_rejections:
        warn(unreadable_rejections(found))


def _print_statistics(found: DatasetStatistics) -> None:
    documents = {
        "accepted": found.documents_accepted,
        "rejected": found.documents_rejected,
        "pending": found.documents_pending,
    }
    print_counts("Documents", documents)
    print_counts("Tasks", found.tasks)
    print_counts("Kinds of tasks", found.task_kinds)
    per_task = {f"{number} criteria": n for number, n in found.criteria_per_task.items()}
    print_counts("Criteria per task", per_task)
    print_counts("Criteria", found.criteria)
    print_counts("Weights", found.weights)
    _print_spreads(found)
    _print_coverage(found)
    by_stage = found.rejected_by_stage.items()
    print_counts("Left out", {f"{s}: {r}": n for s, rs in by_stage for r, n in rs.items()})
    table = Table(
        "",
        "mean reward",
        "the answer",
        title=escape(
            f"Controls, {counted(found.control_tasks, 'tasks')}, judge {found.control_judge}"
        ),
        title_justify="left",
    )
    for name, reward in found.controls.items():
        table.add_row(name, f"{reward:.3f}", CONTROLS[name])
    out_console.print(table)
    _print_usage(found)


def _print_spreads(found: DatasetStatistics) -> None:
    spreads: dict[str, Spread] = {
        "total weight W": found.total_weight,
        "effective criteria M_eff": found.effective_criteria,
        "words of the question": found.question_words,
        "words of the passage": found.passage_words,
        "words of the reference": found.reference_words,
        "words of a criterion": found.criterion_words,
    }
    numbers = ("min", "p5", "median", "mean", "p95", "max")
    table = Table("", *numbers, title="Spread", title_justify="left")
    for name, spread in spreads.items():
        table.add_row(name, *(f"{getattr(spread, number):.4g}" for number in numbers))
    out_console.print(table)


def _print_coverage(found: DatasetStatistics) -> None:
    table = Table("", "mean share", "tasks with all", title="Coverage", title_justify="left")
    for name, coverage in found.coverage.items():
        if coverage.tasks:
            shares = (coverage.mean, coverage.complete_frac)
            table.add_row(name.replace("_", " "), *(f"{100 * share:.1f} %" for share in shares))
    if table.row_count:
        out_console.print(table)


def _print_usage(found: DatasetStatistics) -> None:
    usage = asked_of_models(found.usage)
    if not usage.total.calls:
        return
    table = Table(
        "", "calls", "tokens read", "tokens written", "US$", "calls without a price",
        title="Calls of models", title_justify="left",
    )  # fmt: skip
    for stage, totals in {**usage.by_stage, "all": usage.total}.items():
        counts = (totals.calls, totals.prompt_tokens, totals.completion_tokens)
        cost = f"{totals.cost_usd:.2f}"
        table.add_row(escape(stage), *(str(n) for n in counts), cost, str(totals.unpriced_calls))
    out_console.print(table)
    print_fallbacks(usage.total)
