"""`rubric-synth stats | check | questions | show`: a dataset as numbers, files and text."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

import rubric_synth
from rubric_judge.errors import JudgeSetupError
from rubric_judge.ui.console import command
from rubric_judge.ui.console.printing import Printed, print_cells
from rubric_judge.ui.page.rendering import visible
from rubric_judge.ui.page.tables import counted
from rubric_synth.cli import console

if TYPE_CHECKING:
    from rubric_synth.stats.examples import Example

_NO_ANSWER = 4


@console.app.command
def stats(
    dataset: Path,
    *,
    judge: Path | None = None,
    controls: command.Positive | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
    html: Path | None = None,
    reveal_grounding: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Show statistics of a dataset; write them to stats.json in its folder, and a page to look at.

    The page shows rubrics and reference answers: it is for the judge's side.

    Args:
        dataset: Dataset folder.
        judge: YAML file of the judge that scores the controls; that of claims if left out, which
            sees of a criterion that states no claim the words and not the meaning.
        controls: Score the controls of this many tasks; 500 if left out, 20 where a model judges.
        json: Print JSON in place of tables.
        html: Page to write; stats.html in the dataset folder if left out.
        reveal_grounding: Show the passages on the page too.
    """
    from rubric_judge import ClaimConfig, load_replicas, read_judge_spec
    from rubric_judge.config import is_program
    from rubric_synth.config import reader_of
    from rubric_synth.stats.tally import CONTROL_TASKS, PAGE_FILE

    page = html or dataset / PAGE_FILE
    spec = ClaimConfig() if judge is None else read_judge_spec(judge)
    is_quick = is_program(reader_of(spec))
    usual_sample = CONTROL_TASKS if is_quick else 20
    sample = controls or usual_sample
    if not is_quick:
        _say_calls(dataset, sample)
    try:
        with (
            command.working(console.app) as progress,
            progress.phase("reading tasks, judging the controls"),
        ):
            statistics = rubric_synth.dataset_statistics(
                dataset,
                judge=load_replicas(spec),
                controls=sample,
                page=page,
                reveal_grounding=reveal_grounding,
            )
    except JudgeSetupError as error:
        console.fail(str(error), status=_NO_ANSWER)
    if json:
        command.console().print_json(statistics.model_dump_json())
    else:
        _print_statistics(statistics, dataset)
    _warn_of(statistics)
    command.say_on_stderr(f"page: {page}")


def _say_calls(dataset: Path, sample: int) -> None:
    """Say how often a judge that is a model will be asked at most."""
    from rubric_judge.quality.wrong_answers import CONTROLS
    from rubric_synth.run.dataset.folder import read_manifest
    from rubric_synth.stats.controls import OF_CONTEXT, WRITTEN

    manifest = read_manifest(dataset)
    tasks = min(sample, sum(manifest.tasks.values()))
    answers = len(CONTROLS) - len(WRITTEN)
    if manifest.context is None:
        answers -= len(OF_CONTEXT)
    command.say_on_stderr(
        f"controls: {tasks} tasks with {answers} answers each, "
        f"{tasks * answers:,} calls of the judge at most, and one for each written answer"
    )


def _warn_of(statistics: rubric_synth.DatasetStatistics) -> None:
    """Warn of what the numbers do not cover."""
    from rubric_judge.quality.labels.written import warnings_of
    from rubric_synth.stats.page import judged_by_words, unreadable_rejections

    if statistics.unread_criteria:
        console.warn(judged_by_words(statistics))
    if failures := statistics.control_failures:
        console.warn(
            f"{failures:,} answers could not be judged; the means leave them out"
        )
    if statistics.unreadable_rejections:
        console.warn(unreadable_rejections(statistics))
    for warning in warnings_of(
        strange=statistics.strange_answers, copied=statistics.copied_answers
    ):
        console.warn(warning)


@console.app.command
def check(dataset: Path, *, collected: Path | None = None) -> None:
    """Check that a dataset parses, adds up, leaks nothing and keeps its splits apart.

    Args:
        dataset: Dataset folder.
        collected: The collected folder that it was made of, to look for each of its documents.
    """
    with command.working(console.app) as progress, progress.phase("checking"):
        report = rubric_synth.check_dataset(dataset, collected=collected)
    for problem in report.problems:
        command.say_on_stderr(problem)
    tasks = counted(sum(report.tasks.values()), "task")
    console.print_line(f"{tasks}, {counted(report.problem_count, 'problem')}")
    if report.problem_count:
        sys.exit(command.FAILED)


@console.app.command
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
    from rubric_synth.files import write_lines
    from rubric_synth.run.dataset.folder import question_lines

    lines = question_lines(dataset, split=split)
    if str(out) == "-":
        sys.stdout.writelines(lines)
    else:
        console.print_line(f"{counted(write_lines(out, lines), 'question')} in {out}")


def _print_statistics(
    statistics: rubric_synth.DatasetStatistics, dataset: Path
) -> None:
    from rubric_synth.run.dataset.writing import asked_of_models
    from rubric_synth.stats.controls import described, overpaid
    from rubric_synth.stats.page import calls, per_task
    from rubric_synth.stats.report import Spread
    from rubric_synth.tables import read_table

    documents = {
        "accepted": statistics.documents_accepted,
        "rejected": statistics.documents_rejected,
        "pending": statistics.documents_pending,
    }
    console.print_counts("Documents", documents)
    console.print_counts("Tasks", statistics.tasks)
    console.print_counts("Kinds of tasks", statistics.task_kinds)
    console.print_counts("Criteria per task", per_task(statistics))
    console.print_counts("Criteria", statistics.criteria)
    console.print_counts("Weights", statistics.weights)
    left_out = {
        f"{stage}: {reason}": ("", count)
        for stage, reasons in statistics.rejected_by_stage.items()
        for reason, count in reasons.items()
    }
    console.print_left_out(dataset, left_out)
    if statistics.context is not None:
        summary = statistics.context.summary()
        console.print_table(
            "Context",
            ("",),
            ("",),
            summary.items(),
        )
    layouts = read_table("printed")
    spreads = [
        (name.replace("_", " "), spread)
        for name, spread in statistics
        if isinstance(spread, Spread)
    ]
    command.print_figures(layouts["spread"], spreads)
    shares = (
        (name.replace("_", " "), coverage)
        for name, coverage in statistics.coverage.items()
        if coverage.tasks
    )
    command.print_figures(layouts["coverage"], shares)
    rewards = (
        (name, described(name, statistics.written_answers), reward)
        for name, reward in statistics.controls.items()
    )
    command.print_figures(
        layouts["controls"],
        rewards,
        tasks=counted(statistics.control_tasks, "task"),
        judge=statistics.control_judge,
    )
    for warning in overpaid(statistics.controls).values():
        console.print_line(f"warning: {warning}")
    table = calls(statistics)
    command.print_rows(table.header, table.texts, table.title)
    console.print_fallbacks(asked_of_models(statistics.usage).total)


@console.app.command
def show(
    dataset: Path,
    *,
    split: Literal["train", "validation", "test"] = "train",
    limit: command.Positive = 3,
    seed: int = 0,
    rejected: Annotated[bool, Parameter(negative="")] = False,
    reveal_grounding: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Show some tasks: question, rubric and reference answer. It is for the judge's side.

    Args:
        dataset: Dataset folder.
        split: Split to choose from.
        limit: Show at most this many.
        seed: Choose others.
        rejected: Show what was left out, of all splits: stage, reason, detail and draft.
        reveal_grounding: Show the passages too.
    """
    from rubric_synth.stats.examples import chosen_examples

    of = None if rejected else split
    examples = chosen_examples(
        dataset, of, limit=limit, seed=seed, reveal_grounding=reveal_grounding
    )
    stdout = command.console()
    for example in examples:
        heading = " · ".join(visible(part) for part in (*example.tags, example.origin))
        stdout.rule(stdout.render_str(heading, emoji=False), align="left")
        _print_part("Left out because", example.detail)
        _print_part("Question", example.question)
        if example.criteria:
            _print_rubric(example)
        _print_part("Reference answer", example.reference)
        _print_part("Passage", example.passage or "")
        stdout.print()
    if not examples:
        message = "nothing was left out" if rejected else f"{split} holds no task"
        console.print_line(message)


def _print_part(title: str, text: str) -> None:
    stdout = command.console()
    if text:
        stdout.print(title, style="bold")
    for line in visible(text).splitlines():
        filled = textwrap.fill(line, stdout.width - 2)
        stdout.print(textwrap.indent(filled, "  "), emoji=False)


def _print_rubric(example: Example) -> None:
    title = f"Rubric, total weight {example.total_weight:g}"
    names = ("name", "description", "required elements", "check", "weight")
    stdout = command.console()
    rows: list[list[Printed]] = []
    for criterion in example.criteria:
        weight = criterion["weight"]
        cells = (
            criterion["name"] or criterion["id"],
            criterion["description"],
            ", ".join(criterion["required_elements"]),
            criterion["verification_method"],
            f"{weight:g}" if isinstance(weight, float) else weight,
        )
        rows.append([visible(cell) for cell in cells])
    print_cells(stdout, title, names, rows, is_ruled=True)
