"""`rubric-synth collect`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from rubric_synth.advice import few_collected
from rubric_synth.cli.app import app
from rubric_synth.cli.console import (
    err_console,
    out_console,
    print_line,
    print_reasons,
    read_settings,
    warn,
)
from rubric_synth.collect import REJECTED_FILE, collect
from rubric_synth.remedies import what_to_do_about_unread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rubric_synth.collect import CollectProgress, CollectReport


@app.command(name="collect")
def collect_command(*sources: str, out: Path, config: Path | None = None) -> None:
    """Read sources into a folder of distinct, cleaned documents.

    A source is one of:

    - a folder of the files below, with its subfolders, or one such file;

    - text (.txt), Markdown (.md), HTML and PDF files, reStructuredText (.rst), LaTeX (.tex),
      notebooks (.ipynb), Word (.docx), OpenDocument, EPUB and Org files: one document each;

    - JSONL, JSON and Parquet files: one document for each record;

    - hf:PATH or hf:PATH:SPLIT: a data set that `datasets.load_dataset` opens;

    - python:PACKAGE: the documentation of an installed package.

    Collecting into the same folder again keeps the documents that the sources still give, and
    adds the new ones behind them.

    Args:
        sources: Folders, files, hf:PATH[:SPLIT] and python:PACKAGE, any number of them.
        out: Folder to write, outside all sources.
        config: YAML file; its `collect` part is used.
    """
    settings = read_settings(config)
    _tell_of_the_network(sources)
    with _progress() as progress:
        report = collect(sources, out, config=settings.collect, on_progress=_shown_by(progress))
    print_reasons(f"Left out, line by line in {out / REJECTED_FILE}", report.rejected, settings)
    if len(report.by_source) > 1:
        _print_sources(report)
    if report.stayed or report.gone:
        print_line(
            f"{report.stayed} documents stayed, {report.documents - report.stayed} are new, "
            f"{report.gone} are no longer in the sources"
        )
    print_line(f"{report.documents} documents in {report.out}")
    if warning := few_collected(report) or what_to_do_about_unread(report.rejected):
        warn(warning)


def _tell_of_the_network(sources: Sequence[str]) -> None:
    """Say, before it happens, that the library asks the network, which may take long."""
    for source in sources:
        path = source.removeprefix("hf:")
        places = (path, path.rpartition(":")[0] or path)
        if path != source and not any(Path(place).exists() for place in places):
            warn(
                f"{source} is no folder here: asking the Hugging Face Hub, which takes minutes "
                "where it does not answer; with HF_HUB_OFFLINE=1 only what was downloaded is read"
            )


def _progress() -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=err_console,
        transient=True,
        disable=not err_console.is_terminal,
    )


def _shown_by(progress: Progress) -> Callable[[CollectProgress], None]:
    task = progress.add_task("reading", total=None)

    def show(at: CollectProgress) -> None:
        elapsed_s = progress.tasks[task].elapsed or 0.0
        rate = (
            f", {at.read / elapsed_s:,.0f} per second" if elapsed_s and at.step == "reading" else ""
        )
        description = f"{at.step}: {at.read:,} read, {at.left_out:,} left out{rate}"
        progress.update(task, description=description)

    return show


def _print_sources(report: CollectReport) -> None:
    table = Table("source", "documents", "left out", title="Sources", title_justify="left")
    for name, counts in report.by_source.items():
        left_out = sum(counts.values()) - counts["documents"]
        table.add_row(escape(name), str(counts["documents"]), str(left_out))
    out_console.print(table)
