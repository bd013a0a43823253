"""`rubric-eval report`: an evaluation as one page, and the paper's tables as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rubric_eval.cli.app import print_edited, working


def report(  # noqa: PLR0913  # each is an option of the command
    *folders: Path,
    out: Path | None = None,
    figures: Path | None = None,
    training: Path | None = None,
    reliability: Path | None = None,
    tasks: Path | None = None,
    reveal_grounding: Annotated[bool, Parameter(negative=())] = False,
    accept_edited: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Write report.html, one page that needs no network, and tables as Markdown, LaTeX and JSON.

    Example: rubric-eval report evals/heldout evals/transfer --training runs/q

    Args:
        folders: A finished held-out evaluation, a finished transfer evaluation, or one of each.
        out: Folder for report.html and tables/; the first evaluation's own when left out.
        figures: Folder for the figures of a paper as PNG and PDF: both tables as bars, the judge
            comparison, the curves, and all differences. Needs rubric-eval[plots].
        training: Run folder of a trainer, for the curves of reward and zero reward.
        reliability: What `rubric-judge reliability` wrote, for the trust in the judge.
        tasks: Tasks that were asked, for their passages and rubrics; needs --reveal-grounding.
        reveal_grounding: Show what only the judge's side may see: the judge's reasons, which may
            quote the passage, and passages and rubrics of --tasks.
        accept_edited: Go on where files are not as their evaluation left them, or contradict each
            other, and say so in all that is written.

    Returns:
        Exit status.
    """
    from rubric_eval.report import ReportSources, write_report

    sources = ReportSources(
        folders=folders,
        training=training,
        reliability=reliability,
        tasks=tasks,
        is_revealed=reveal_grounding,
        accepts_edited=accept_edited,
    )
    with working() as progress, progress.phase("writing the report"):
        written = write_report(sources, out, figures=figures)
    print_edited(written.edited)
    for what in written.notes:
        print(f"note: {what}")
    print(f"written: {written.page}")
    print(f"written: {len(written.tables)} files in {written.tables[0].parent}")
    if figures is not None:
        print(f"written: {len(written.pictures)} pictures in {figures}")
    return 0
