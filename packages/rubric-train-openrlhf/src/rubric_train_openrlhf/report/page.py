"""The parts of a report put into one page that needs no other file and no network."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rubric_core.files import toml_beside
from rubric_judge.ui.console.snapshot import duration_text
from rubric_judge.ui.page.charts import Chart, on_one_scale
from rubric_judge.ui.page.links import link_to, linked
from rubric_judge.ui.page.rendering import inert_json, render_page
from rubric_judge.ui.page.tables import Table, counted
from rubric_judge.ui.page.top_figures import Figure
from rubric_train_openrlhf.config.sections import leaves
from rubric_train_openrlhf.report.audit import audit_sections
from rubric_train_openrlhf.report.charts import is_flat, sections
from rubric_train_openrlhf.report.contrast import (
    KnownQuestion,
    known_questions,
    revealed_tasks,
)
from rubric_train_openrlhf.report.criteria import (
    CriteriaSection,
    criteria_section,
    write_viewer,
)
from rubric_train_openrlhf.report.excerpt import Excerpt, excerpt, spread
from rubric_train_openrlhf.report.reading import Run, read_config, read_run
from rubric_train_openrlhf.report.top_figures import (
    admitted_weight,
    cut_note,
    heldout_figures,
    training_figures,
)
from rubric_train_openrlhf.run.records import MetricsRow
from rubric_train_openrlhf.run.writing import write_text

_TABLE_STEPS = 100
_STEPS_TABLE = toml_beside(__file__, "tables.toml")["steps"]


@dataclass(frozen=True)
class Revealed:
    """Permission to show passages, rubrics and the judge's words on a page."""

    files: tuple[Path, ...] = ()
    """Files of tasks; those that the run names when left out."""


@dataclass(frozen=True)
class PageContext:
    """All that the page of a run shows, by the names that its template uses."""

    name: str
    """Name of the run's folder."""
    run: Run
    settings: Mapping[str, Any]
    """Settings of the run by their dotted keys."""
    admitted: str
    """Share of the rubrics' weight that a calibration leaves; empty without one."""
    figures: Sequence[Figure]
    """Numbers at the top."""
    sections: Mapping[str, Sequence[Chart]]
    """Charts by the heading that they stand under."""
    charts: Sequence[Chart]
    """The same, without headings."""
    flat: Mapping[str, str]
    """Titles of the charts that would show zeros alone, by heading."""
    criteria: CriteriaSection | None
    """The life of each criterion; None for a run without judgements."""
    viewer: str
    """Path of the page of judgements that criteria lead to; empty without one."""
    steps: Table
    known: Sequence[KnownQuestion | None]
    """The judge's knowledge of each test question, where that is revealed."""
    is_revealed: bool
    """Whether the page may quote passages, rubrics and the judge."""
    rollouts: Excerpt
    policy_json: str
    """Data of the policy's side for the script."""
    judge_json: str
    criteria_json: str
    """Names of criteria and kinds by which the script chooses responses."""
    grounding_json: str
    duration_text: Callable[[float], str] = duration_text
    plural: Callable[[int, str], str] = counted


@dataclass(frozen=True)
class ReportFiles:
    """Pages that a report consists of."""

    page: Path
    viewer: Path | None = None
    """Page of judgements that the other leads to; None where none was written."""


def write_report(
    run_dir: Path, *, reveal: Revealed | None = None, out: Path | None = None
) -> Path:
    """Write the report as `write_pages` does, and return the path of its first page."""
    return write_pages(run_dir, reveal=reveal, out=out).page


def write_pages(
    run_dir: Path, *, reveal: Revealed | None = None, out: Path | None = None
) -> ReportFiles:
    """Make report.html out of what a run folder holds so far.

    Works on a run that has just begun as on one that has ended: what there are no rows for is
    left out, and the page says how far the run had got.

    Args:
        run_dir: the run folder; nothing else is read but the run's tasks, for the kinds of their
            criteria and where they are revealed, and its calibration.
        reveal: given for a page of the judge's side, which is report_revealed.html; beside the
            judgements it gets the page that its table of criteria leads to.
        out: the page, where it is to be another one.

    Returns:
        The pages, each of which replaces an earlier one in one step.

    Raises:
        RubricFileError: no such folder, or a broken row; names the file, line and field.
        ConfigError: the tasks to reveal are not there.
        DiskWriteError: the page could not be written.
    """
    viewer = ""
    if reveal is not None and out is None:
        viewer = write_viewer(
            run_dir, revealed_tasks(read_config(run_dir), reveal.files)
        )
    context = _context(run_dir, reveal, viewer)
    page = render_page(
        __package__,
        "report",
        vars(context),
        scripts=("address.js", "charts.js", "rollouts.js"),
    )
    path = out or run_dir / (
        "report.html" if reveal is None else "report_revealed.html"
    )
    write_text(path, page)
    return ReportFiles(path, run_dir / viewer if viewer else None)


def _context(run_dir: Path, reveal: Revealed | None, viewer: str) -> PageContext:
    run = read_run(run_dir)
    best_step = run.best.step if run.best else None
    tasks = None if reveal is None else revealed_tasks(run.config, reveal.files)
    rollouts = excerpt(run_dir, best_step=best_step, notes=run.notes, tasks=tasks)
    criteria = criteria_section(run_dir, viewer=viewer)
    names = rollouts.criterion_names(criteria.kinds if criteria else {})
    if criteria and not viewer:
        criteria = criteria.leading_to(names)
    charts_by_heading = _charts(run_dir, run, leads=bool(rollouts.rows), known=names)
    flat: dict[str, str] = {}
    for heading, charts in charts_by_heading.items():
        titles = [chart.title for chart in charts if _is_named_only(chart)]
        if titles:
            flat[heading] = "; ".join(titles)
    charts_by_heading = {
        heading: tuple(chart for chart in charts if not is_flat(chart))
        for heading, charts in charts_by_heading.items()
    }
    if note := cut_note(run):
        run.notes.append(note)
    known: list[KnownQuestion | None] = []
    if run.contrast and tasks:
        known = known_questions(run.contrast, tasks)
    return PageContext(
        name=run_dir.resolve().name,
        run=run,
        settings=dict(leaves(run.config)),
        admitted=admitted_weight(run),
        figures=[*heldout_figures(run), *training_figures(run.metrics)],
        sections=charts_by_heading,
        charts=[chart for charts in charts_by_heading.values() for chart in charts],
        flat=flat,
        criteria=criteria,
        viewer=viewer,
        steps=_steps_table(run.metrics, leads=bool(rollouts.rows)),
        known=known,
        is_revealed=tasks is not None,
        rollouts=rollouts,
        policy_json=inert_json(rollouts.policy),
        judge_json=inert_json(rollouts.judge),
        criteria_json=inert_json(rollouts.criteria(criteria.kinds if criteria else {})),
        grounding_json=inert_json(rollouts.grounding),
    )


def _charts(
    run_dir: Path, run: Run, *, leads: bool, known: Collection[str]
) -> dict[str, tuple[Chart, ...]]:
    """Choose the charts by heading, those of one quantity on one scale."""
    by_heading = {
        **sections(
            run.metrics,
            run.heldout,
            distilled=run.distilled,
            best_step=run.best.step if run.best else None,
            leads=leads,
            known=known,
        ),
        **audit_sections(run_dir, run, leads=leads),
    }
    scaled = iter(
        on_one_scale(chart for charts in by_heading.values() for chart in charts)
    )
    return {
        heading: tuple(next(scaled) for _ in charts)
        for heading, charts in by_heading.items()
    }


def _is_named_only(chart: Chart) -> bool:
    """Return whether a chart of zeros is named in place of it; a divergence of zeros is none."""
    return is_flat(chart) and chart.key != "kl"


def _steps_table(metrics: Sequence[MetricsRow], *, leads: bool) -> Table:
    """All steps, or evenly spaced ones with the ends among them."""
    shown = (metrics[place] for place in spread(range(len(metrics)), _TABLE_STEPS))
    table = Table.from_forms(_STEPS_TABLE, zip(shown))
    if not leads:
        return table
    return linked(table, lambda row: link_to("", step=row.name))
