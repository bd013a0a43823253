"""The life of each criterion of a run: for the command, and as a section of the page."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from rubric_core import ConfigError, Pooling, RubricFileError, Task, read_tasks
from rubric_judge.quality.criteria.measure import By, measure
from rubric_judge.quality.criteria.ours import run_answers, step_files
from rubric_judge.quality.criteria.printing import finish, noise_of
from rubric_judge.quality.criteria.report import CriteriaReport
from rubric_judge.quality.view.joining import joined
from rubric_judge.quality.view.ours import run_source
from rubric_judge.quality.view.page import page_text
from rubric_judge.ui.page.links import link_to, linked
from rubric_judge.ui.page.tables import Row, Table, counted
from rubric_train_openrlhf.report.reading import read_config
from rubric_train_openrlhf.run.writing import write_text

_SHOWN_STEPS = 20
"""Last steps that the page measures: a page should take no longer than its charts."""
_VIEWER = "view.html"


@dataclass(frozen=True)
class CriteriaSection:
    """The section of the page: what was measured, the table, and what to do."""

    caption: str
    table: Table
    remedies: Table
    kinds: Mapping[str, Mapping[str, str]]
    """Names of the kinds of criteria that are not measured by their own id, by task and id."""

    def leading_to(self, known: Collection[str]) -> Self:
        """Return the section with links of those names alone that responses are chosen by."""

        def address(row: Row) -> str:
            return row.link if row.name in known else ""

        table = linked(self.table, address)
        return replace(self, table=table, remedies=linked(self.remedies, address))


def run_criteria(
    run_dir: Path,
    *,
    by: By = "criterion",
    last: int | None = None,
    calibration: Path | None = None,
) -> CriteriaReport:
    """Measure every criterion of a run, or every prompt.

    Args:
        run_dir: the run folder.
        by: what a row stands for.
        last: only the last steps; all if None.
        calibration: of the judge, for its noise; that of the run's configuration if None.

    Returns:
        The report, pooled as the run's own figures are where its tasks are still there.

    Raises:
        RubricFileError: no such folder, no judgements in it, or a broken row.
        ConfigError: the calibration cannot be read.
    """
    noise = noise_of(calibration or _calibration(read_config(run_dir)))
    notes: list[str] = []
    tasks = _tasks(read_config(run_dir), notes)
    report = _measured(run_dir, tasks, by=by, last=last, noise=noise)
    return finish(report, notes)


def _measured(
    run_dir: Path,
    tasks: Sequence[Task],
    *,
    by: By,
    last: int | None,
    noise: Mapping[str, float],
) -> CriteriaReport:
    files = step_files(run_dir, last=last)
    if not files:
        raise RubricFileError(
            "holds no judgements/step_*.jsonl: a run writes one after each step",
            path=run_dir,
        )
    notes: list[str] = []
    answers = run_answers(files, notes=notes)
    report = measure(answers, source="run", by=by, tasks=tasks, noise=noise)
    return finish(report, notes)


def write_viewer(run_dir: Path, tasks: Mapping[str, Task]) -> str:
    """Write the page of the judgements that the table of criteria measures, beside them.

    Args:
        run_dir: the run folder.
        tasks: tasks by id, whose passages and rubrics the page shows.

    Returns:
        Its path from the run folder; empty for a run without judgements.

    Raises:
        RubricFileError: a broken row.
        DiskWriteError: the page could not be written.
    """
    folder = run_dir / "judgements"
    if not step_files(run_dir) or not folder.is_dir():
        return ""
    source = run_source(run_dir, tasks, last=_SHOWN_STEPS)
    if not source.rows:
        return ""
    name = run_dir.resolve().name
    write_text(folder / _VIEWER, page_text(joined([source]), [source], title=name))
    return f"{folder.name}/{_VIEWER}"


def criteria_section(run_dir: Path, *, viewer: str = "") -> CriteriaSection | None:
    """Return the section of a run's page; None for a run without judgements.

    Args:
        run_dir: the run folder.
        viewer: path of the page of judgements that its rows lead to; empty where they lead to the
            responses of the page itself.

    Raises:
        RubricFileError: a broken row.
    """
    files = step_files(run_dir)
    if not files:
        return None
    noise: Mapping[str, float] = {}
    without = ""
    try:
        noise = noise_of(_calibration(read_config(run_dir)))
    except ConfigError as error:
        without = f" The judge's noise is left out: {error}"
    tasks = _tasks(read_config(run_dir), [])
    report = _measured(run_dir, tasks, by="criterion", last=_SHOWN_STEPS, noise=noise)
    if not report.cells:
        return None
    which = ""
    if len(files) > _SHOWN_STEPS:
        steps = counted(_SHOWN_STEPS, "step")
        which = f"Of the last {steps}; rubric-train criteria shows all. "

    def address(row: Row) -> str:
        return link_to(viewer, criterion=row.name)

    return CriteriaSection(
        caption=f"{which}{report.summary()} {report.method()}{without}",
        table=linked(report.table_shown(), address),
        remedies=linked(report.remedies(), address),
        kinds=_kinds(tasks),
    )


def _kinds(tasks: Sequence[Task]) -> dict[str, dict[str, str]]:
    pooling = Pooling.of(tasks)
    kinds: dict[str, dict[str, str]] = {}
    for task in tasks:
        names = {c.id: pooling.pool(c).name for c in task.rubric}
        kinds[task.task_id] = {id_: name for id_, name in names.items() if name != id_}
    return kinds


def _tasks(config: Mapping[str, Any], notes: list[str]) -> list[Task]:
    """Read the tasks of a run, which say of what kind its criteria are."""
    data: Mapping[str, Any] = config.get("data") or {}
    paths = [Path(data[name]) for name in ("train", "validation") if data.get(name)]
    if missing := [path for path in paths if not path.is_file()]:
        notes.append(
            f"The tasks of the run are not there ({missing[0]}): criteria are pooled by ids that "
            "repeat, and not by kind"
        )
        return []
    return [task for path in paths for task in read_tasks(path)]


def _calibration(config: Mapping[str, Any]) -> Path | None:
    """Return the calibration that the run was configured with, where it is still there."""
    judge: Mapping[str, Any] = config.get("judge") or {}
    named = judge.get("calibration")
    if not named:
        return None
    path = Path(str(named))
    return path if path.is_file() else None
