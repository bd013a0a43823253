"""A calibration as one page that needs no other file and no network."""

import sys
from collections import Counter
from pathlib import Path

from rubric_core.files import write_text
from rubric_judge.quality.calibration.record import Verdict
from rubric_judge.quality.calibration.report import (
    WORDS,
    CalibrationReport,
    Files,
    by_reason,
    next_steps,
)
from rubric_judge.ui.page.links import Leads, link_to
from rubric_judge.ui.page.rendering import render_page
from rubric_judge.ui.page.tables import Cell, Row, Table, or_dash
from rubric_judge.ui.page.top_figures import Figure


def headline(report: CalibrationReport) -> list[Figure]:
    """Return the figures at the top of the page."""
    j = or_dash(report.reward.youden_j.value, ".2f")  # the table holds the interval
    counts = Counter(criterion.verdict for criterion in report.criteria)
    reward = report.reward
    pairs = report.counts().split(maxsplit=2)[2]
    figures = [
        Figure(
            "Criteria admitted",
            f"{counts[Verdict.ADMIT]} of {len(report.criteria)}",
            note=f"J above {report.bound:g} with {report.confidence:.0%} confidence",
        ),
        Figure("J of all criteria", j.replace("-", "−"), note="TPR − FPR"),
        Figure("Labels", f"{report.given:,}", note=pairs),
    ]
    if reward.flips.value is not None:
        note = "advantages whose sign the labels turn around"
        figures.append(Figure("Signs turned", f"{reward.flips.value:.1%}", note=note))
    return figures


def youden_view(report: CalibrationReport) -> Table:
    """Return J by criterion along an axis with its zero, and the verdict beside it."""
    rows = (
        Row(
            name=criterion.criterion,
            role=WORDS["roles"][criterion.verdict],
            cells=(
                Cell.of(criterion.youden_j),
                Cell(value=criterion.tpr.value),
                Cell(value=criterion.fpr.value),
                Cell(text=f"{criterion.positives} / {criterion.labels}"),
                Cell(value=criterion.factor),
                Cell(text=criterion.decision),
            ),
        )
        for criterion in report.criteria
    )
    bound = f"{report.bound:g}"
    level = f"{report.confidence:.0%}"
    return Table.from_words(
        WORDS["youden_j"], rows, key="youden_j", bound=bound, level=level
    )


def reasons(report: CalibrationReport) -> list[tuple[str, str, str, str]]:
    """Return (criteria, verdict, colour, reason) for each verdict and its reason."""
    decisions = {
        criterion.criterion: criterion.decision for criterion in report.criteria
    }
    colours = WORDS["roles"]
    return [
        (", ".join(names), decisions[names[0]], colours[verdict] or "muted", reason)
        for (verdict, reason), names in by_reason(report.criteria).items()
    ]


def write_page(
    report: CalibrationReport,
    path: Path,
    files: Files | None = None,
    *,
    differ: Table | None = None,
    viewer: str = "",
) -> None:
    """Write the page; the same calibration of the same files gives the same bytes.

    Args:
        report: the calibration.
        path: the page.
        files: what it is of, for the commands that come next.
        differ: where judge and people differ, its rows leading to the samples.
        viewer: path of the page of judgements from this one, to which names of criteria lead; they
            lead nowhere if empty.
    """
    steps = next_steps(report, files or Files())
    # The template calls the functions of this module and the report's own tables.
    tables = [*report.tables()[2:], *report.score_tables()]
    youden = youden_view(report)
    if viewer:
        names = [item.criterion for item in (*report.criteria, *report.kinds)]
        by_gap = {name: link_to(viewer, criterion=name, sort="gap") for name in names}
        leads = Leads(viewer, by_gap, link_to(viewer, differ="people", sort="gap"))
        tables = [leads.table(table) for table in tables]
        youden = leads.table(youden)
    content = {
        "report": report,
        "youden": youden,
        "viewer": viewer,
        "views": sys.modules[__name__],
        "tables": tables,
        "steps": steps,
        "differ": differ,
    }
    write_text(path, render_page(__package__, "calibration", content))
