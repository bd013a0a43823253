"""`rubric-synth collect | run | stats | check | questions`: parse, call, print; no logic."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import structlog
from cyclopts import App, Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from rubric_core import RubricError
from rubric_synth.advice import empty_splits, fatal_shortfall
from rubric_synth.check import check_dataset
from rubric_synth.collect import collect, read_collected
from rubric_synth.config import SynthConfig, load_config
from rubric_synth.controls import CONTROLS
from rubric_synth.files import write_lines
from rubric_synth.pipeline import synthesise
from rubric_synth.questions import question_lines
from rubric_synth.stats import dataset_statistics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rubric_synth.stats import DatasetStatistics, Spread

app = App(name="rubric-synth", help="From technical documents to tasks with rubrics.")

_out = Console()
_err = Console(stderr=True)


@app.command(name="collect")
def collect_command(*sources: str, out: Path, config: Path | None = None) -> None:
    """Read sources into a folder of distinct, cleaned documents.

    Args:
        sources: Folders of text and Markdown, JSONL files, or python:PACKAGE.
        out: Folder to write.
        config: YAML file; its `collect` part is used.
    """
    settings = _settings(config).collect
    with _progress() as progress:
        task = progress.add_task("documents read", total=None)
        report = collect(
            sources,
            out,
            config=settings,
            on_document=lambda count: progress.update(task, completed=count),
        )
    _print_counts("Left out", report.rejected)
    _out.print(f"{report.documents} documents in {report.out}")


@app.command
def run(collected: Path, *, out: Path, config: Path | None = None) -> None:
    """Turn a collected folder into a dataset: train, validation and test tasks.

    Args:
        collected: Folder written by `collect`.
        out: Dataset folder to write.
        config: YAML file.
    """
    settings = _settings(config)
    total = sum(1 for _ in read_collected(collected))
    with _progress() as progress:
        task = progress.add_task("documents done", total=total)
        report = synthesise(
            collected,
            out,
            config=settings,
            on_document=lambda count: progress.update(task, completed=count),
        )
    _print_counts("Left out", report.rejected)
    _print_counts("Tasks", report.tasks)
    _out.print(f"{report.accepted_documents} of {report.documents} documents, in {report.out}")
    if shortfall := fatal_shortfall(report):
        _fail(shortfall)
    if warning := empty_splits(report):
        _err.print(f"rubric-synth: {warning}", style="yellow", markup=False, soft_wrap=True)


@app.command
def stats(dataset: Path, *, json: Annotated[bool, Parameter(negative="")] = False) -> None:
    """Show statistics of a dataset and write them to stats.json in its folder.

    Args:
        dataset: Dataset folder.
        json: Print JSON in place of tables.
    """
    statistics = dataset_statistics(dataset)
    if json:
        _out.print_json(statistics.model_dump_json())
    else:
        _print_statistics(statistics)


@app.command
def check(dataset: Path) -> None:
    """Check that a dataset parses, leaks nothing and keeps its splits apart.

    Args:
        dataset: Dataset folder.
    """
    report = check_dataset(dataset)
    for problem in report.problems:
        _err.print(problem, markup=False, highlight=False)
    _out.print(f"{sum(report.tasks.values())} tasks, {len(report.problems)} problems")
    if report.problems:
        sys.exit(1)


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
        _out.print(f"{write_lines(out, lines)} questions in {out}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an expected error is one message and exit status 1.

    Args:
        arguments: What stands after the program's name; the process's own if None.
    """
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        app(arguments)
    except RubricError as error:
        _fail(str(error))


def _settings(path: Path | None) -> SynthConfig:
    return load_config(path) if path is not None else SynthConfig()


def _progress() -> Progress:
    """Return a progress display on standard error, silent when that is not a terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=_err,
        transient=True,
        disable=not _err.is_terminal,
    )


def _print_counts(title: str, counts: Mapping[str, int]) -> None:
    table = Table("", "count", title=title, title_justify="left")
    for name, count in counts.items():
        table.add_row(name, str(count))
    if counts:
        _out.print(table)


def _print_statistics(statistics: DatasetStatistics) -> None:
    _print_counts("Tasks", statistics.tasks)
    per_task = {f"{number} criteria": n for number, n in statistics.criteria_per_task.items()}
    _print_counts("Criteria per task", per_task)
    _print_counts("Criteria", statistics.criteria)
    _print_counts("Weights", statistics.weights)
    table = Table("", "min", "median", "mean", "max", title="Spread", title_justify="left")
    spreads: dict[str, Spread] = {
        "total weight W": statistics.total_weight,
        "effective criteria M_eff": statistics.effective_criteria,
        "words of the question": statistics.question_words,
        "words of the passage": statistics.passage_words,
        "words of the reference": statistics.reference_words,
    }
    for name, spread in spreads.items():
        table.add_row(name, *(f"{value:.4g}" for value in spread.model_dump().values()))
    _out.print(table)
    _print_counts("Left out", statistics.rejected)
    controls = Table("", "mean reward", "the answer", title="Controls", title_justify="left")
    for name, reward in statistics.controls.items():
        controls.add_row(name, f"{reward:.3f}", CONTROLS[name])
    _out.print(controls)


def _fail(message: str) -> NoReturn:
    shown = f"rubric-synth: {message}"
    _err.print(shown, style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(1)


if __name__ == "__main__":
    main()
