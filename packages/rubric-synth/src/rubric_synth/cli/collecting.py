"""`rubric-synth collect`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.markup import escape
from rich.table import Table

from rubric_judge.console import Steps
from rubric_synth.advice import few_collected
from rubric_synth.cli.app import app
from rubric_synth.cli.console import (
    out_console,
    print_line,
    print_reasons,
    read_settings,
    warn,
    working,
)
from rubric_synth.collect import REJECTED_FILE, collect
from rubric_synth.remedies import what_to_do_about_unread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_synth.collect import CollectProgress, CollectReport

_STEPS: Final = {
    "reading": ("reading", "documents"),
    "comparing": ("looking for duplicates", ""),
    "writing": ("writing the documents", ""),
}
"""What `collect` does, and what is counted of it."""


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
    with working() as progress, Steps(progress) as steps:
        show = partial(_show, steps)
        report = collect(sources, out, config=settings.collect, on_progress=show)
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


def _show(steps: Steps, at: CollectProgress) -> None:
    name, unit = _STEPS[at.step]
    phase = steps.to(name, unit=unit)
    if unit:
        phase.done, phase.note = at.read, f"{at.left_out:,} left out"


def _print_sources(report: CollectReport) -> None:
    table = Table("source", "documents", "left out", title="Sources", title_justify="left")
    for name, counts in report.by_source.items():
        left_out = sum(counts.values()) - counts["documents"]
        table.add_row(escape(name), str(counts["documents"]), str(left_out))
    out_console.print(table)
