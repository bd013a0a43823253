"""The report of an evaluation: a page that needs no network, and beside it the tables as files."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

from rubric_core import Task, read_tasks
from rubric_core.files import replacing
from rubric_eval.comparison import ModelScore
from rubric_eval.errors import EvalConfigError, EvalFolderError
from rubric_eval.heldout.table import corrected_rewards
from rubric_eval.records.inputs import EvalFolder, evaluation_files, hashed_inputs
from rubric_eval.report import views
from rubric_eval.report.curves import Training, read_training, training_charts
from rubric_eval.report.excerpts import Entry, excerpts
from rubric_eval.report.pictures import load_pictures, write_pictures
from rubric_eval.report.reading import Evaluation, Findings, findings, read_evaluations
from rubric_eval.report.signs import (
    Reliability,
    Signs,
    read_reliability,
    signs,
    signs_table,
)
from rubric_eval.report.tables import all_tables, average_transfer
from rubric_eval.report.views import exploratory, heat
from rubric_eval.transfer.suites import SuiteName
from rubric_judge.page.rendering import inert_json, render_page
from rubric_judge.page.tables import Figure, Table, counted, latex, markdown, written


def facts(evaluation: Evaluation) -> list[tuple[str, str]]:
    """How answers were made, in a few words each."""
    run = evaluation.run
    decoding = run.decoding
    parts = [
        "greedy"
        if decoding.temperature == 0
        else f"temperature {decoding.temperature:g}"
    ]
    parts += [f"top-p {decoding.top_p:g}"] if decoding.top_p < 1 else []
    parts += [f"top-k {decoding.top_k}"] if decoding.top_k is not None else []
    parts += [f"at most {_budget(evaluation)} tokens"]
    if run.suite == SuiteName.LIKELIHOOD:
        parts = ["the likeliest of the choices; nothing is written"]
    draws = len(run.seeds) * run.samples
    is_product = 1 not in {len(run.seeds), run.samples}
    of_both = f" ({len(run.seeds)} seeds × {run.samples})" if is_product else ""
    found = [
        ("Models", ", ".join(evaluation.models)),
        (
            "Judge" if len(run.judges) == 1 else "Judges",
            ", ".join(j.name for j in run.judges),
        ),
        ("Decoding", ", ".join(parts)),
        ("Answers a question", f"{draws}{of_both}"),
        ("Finished", (run.finished or "")[:16].replace("T", " ")),
    ]
    return [(name, value) for name, value in found if value]


def _budget(evaluation: Evaluation) -> str:
    """Tokens of an answer; benchmarks may differ."""
    run = evaluation.run
    budgets = sorted(
        {run.max_tokens.get(name, run.decoding.max_tokens) for name in run.questions}
    )
    return " or ".join(f"{budget:,}" for budget in budgets)


def _heldout_figures(found: Findings, heldout: Evaluation | None) -> list[Figure]:
    if heldout is None:
        return []
    judge, models = next(iter(found.judges.items()))
    named = list(models.values())
    first = named[0]
    last = named[-1]
    alone = len(models) == 1
    between = "" if alone else f"{first.model} → {last.model}, "
    documents = f"from {counted(first.clusters, 'document')}"

    def percent(label: str, of: Callable[[ModelScore], float], note: str) -> Figure:
        now, before = (written(of(score), "percent") for score in (last, first))
        return Figure(label, now, "" if alone else before, note)

    return [
        percent(
            "Held-out reward, %", lambda one: one.mean, f"{between}judged by {judge}"
        ),
        percent(
            "Zero reward, %",
            lambda one: one.zero_frac,
            "share of answers that earned nothing",
        ),
        Figure(
            "Held-out questions", f"{len(heldout.measured[0].ids):,}", note=documents
        ),
    ]


def _transfer_figures(found: Findings, transfer: Evaluation | None) -> list[Figure]:
    if transfer is None:
        return []
    benchmarks = counted(len(found.benchmarks), "benchmark")
    first = transfer.models[0]
    last = transfer.models[-1]
    if (average := found.average(last, first)) is None:
        mean = written(average_transfer(found), "percent")
        return [Figure("Accuracy, %", mean, note=f"mean of {benchmarks}")]
    note = f"{last} − {first}, mean of {benchmarks}, points"
    return [Figure("Average transfer Δ", written(average.mean, "points"), note=note)]


@dataclass(frozen=True)
class Content:
    """All that a page shows."""

    heldout: Evaluation | None
    transfer: Evaluation | None
    findings: Findings
    tables: tuple[Table, ...]
    signs: Signs | None
    training: Training | None
    reliability: Reliability | None
    excerpts: Entry
    is_revealed: bool

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """Those that there are."""
        return tuple(
            evaluation
            for evaluation in (self.heldout, self.transfer)
            if evaluation is not None
        )

    @property
    def edited(self) -> tuple[str, ...]:
        """What was not as an evaluation left it, and was accepted so."""
        return tuple(
            what for evaluation in self.evaluations for what in evaluation.edited
        )

    @property
    def file_notes(self) -> tuple[str, ...]:
        """What else a reader should know of the files."""
        return tuple(
            what for evaluation in self.evaluations for what in evaluation.notes
        )


_TITLES: Final = {"heldout": "Held-out", "transfer": "Transfer"}


def page(content: Content) -> str:
    """Make the page; the same evaluation gives the same text."""
    heldout = content.heldout
    level = content.findings.level
    groups = heldout.groups if heldout else {}
    shown = {
        "content": content,
        "tables": {table.key: table for table in content.tables},
        "name": content.evaluations[0].folder.root.resolve().name,
        "figures": [
            *_heldout_figures(content.findings, content.heldout),
            *_transfer_figures(content.findings, content.transfer),
        ],
        "facts": [
            (evaluation, facts(evaluation)) for evaluation in content.evaluations
        ],
        "views": views,
        "counted": counted,
        "level": level,
        "heats": [heat(*group, is_alone=len(groups) == 1) for group in groups.items()],
        "parts": exploratory(content.findings),
        "charts": training_charts(content.training) if content.training else (),
        "titles": _TITLES,
        "identities": _identities(content),
        "inputs": _inputs(content),
        "data": inert_json(content.excerpts),
    }
    return render_page(__package__, "report", shown, scripts=("charts.js", "report.js"))


def _identities(content: Content) -> list[tuple[str, str]]:
    """What each model and judge was, for the record."""
    found: dict[str, str] = {}
    for evaluation in content.evaluations:
        for entry in (*evaluation.run.models, *evaluation.run.judges):
            text = json.dumps(
                entry.identity, ensure_ascii=False, indent=2, sort_keys=True
            )
            found.setdefault(f"{entry.name} · {entry.fingerprint}", text)
    return list(found.items())


def _inputs(content: Content) -> list[tuple[str, str]]:
    """What the numbers were read from, by content."""
    return [
        (f"{evaluation.folder.root.resolve().name}/{file.path}", file.sha256)
        for evaluation in content.evaluations
        for file in hashed_inputs(
            evaluation_files(evaluation.folder), beside=evaluation.folder.run
        )
    ]


TABLE_KEYS = (
    "table1_heldout",
    "corrected_heldout",
    "figure2_judges",
    "table2_transfer",
    "transfer_quality",
    "differences",
    "hacking_signs",
)
"""Names of all tables that a report may write."""


@dataclass(frozen=True)
class ReportSources:
    """What a report is made of."""

    folders: tuple[Path, ...]
    """A held-out evaluation, a transfer evaluation, or one of each."""

    training: Path | None = None
    """Run folder of a trainer, for the curves."""

    reliability: Path | None = None
    """reliability.json of `rubric-judge reliability`, or its folder."""

    tasks: Path | None = None
    """Tasks that were asked, for their passages and rubrics."""

    is_revealed: bool = False
    """Whether the page may show judges' words, and passages and rubrics of the tasks."""

    accepts_edited: bool = False
    """Whether evaluations are reported whose files are not as their run left them; it is said."""


@dataclass(frozen=True)
class ReportFiles:
    """What was written."""

    page: Path
    tables: tuple[Path, ...]
    pictures: tuple[Path, ...] = ()
    edited: tuple[str, ...] = ()
    """What was not as an evaluation left it, and was accepted so."""

    notes: tuple[str, ...] = ()


def write_report(
    sources: ReportSources, out: Path | None = None, *, figures: Path | None = None
) -> ReportFiles:
    """Write the page and the tables, and pictures where they are asked for.

    Args:
        sources: what to report.
        out: folder for report.html and tables/; the first evaluation's own when left out.
        figures: folder for the figures as PNG and PDF; none are drawn when left out.

    Returns:
        The files, each of which has replaced an earlier one in one step.

    Raises:
        EvalEditedError: files are not as their evaluation left them, or contradict each other.
        EvalFolderError: an evaluation that is missing, has not ended well, or does not fit the
            others.
        RubricFileError: a damaged file.
        ConfigError: tasks are named that may not be shown.
        MissingExtraError: figures are asked for and matplotlib is not installed.
        OSError: a file cannot be read or written.
    """
    if not sources.folders:
        raise EvalFolderError("no evaluation is named; give the folder of one")
    if figures is not None:
        load_pictures()
    heldout, transfer = read_evaluations(
        sources.folders, accept_edited=sources.accepts_edited
    )
    evaluations = [
        evaluation for evaluation in (heldout, transfer) if evaluation is not None
    ]
    found = findings(evaluations)
    tasks = _tasks(sources, heldout)
    seen = None if heldout is None else signs(heldout, tasks)
    corrected = (
        corrected_rewards(heldout.folder, heldout.run.judges, heldout.measured)
        if heldout
        else ()
    )
    tables = (
        *all_tables(found, corrected),
        *(() if seen is None else (signs_table(seen),)),
    )
    content = Content(
        heldout=heldout,
        transfer=transfer,
        findings=found,
        tables=tables,
        signs=seen,
        training=None if sources.training is None else read_training(sources.training),
        reliability=None
        if sources.reliability is None
        else read_reliability(sources.reliability),
        excerpts=excerpts(
            heldout, transfer, tasks=tasks, is_revealed=sources.is_revealed
        ),
        is_revealed=sources.is_revealed,
    )
    text = page(content)
    folder = EvalFolder(sources.folders[0] if out is None else out)
    folder.tables.mkdir(parents=True, exist_ok=True)
    _write(folder.report, text)
    written = tuple(_write_tables(folder.tables, tables))
    pictures = (
        () if figures is None else write_pictures(found, content.training, figures)
    )
    return ReportFiles(
        folder.report,
        written,
        pictures,
        edited=content.edited,
        notes=content.file_notes,
    )


def _write_tables(folder: Path, tables: tuple[Table, ...]) -> list[Path]:
    written = {
        folder / f"{table.key}.{suffix}": form(table)
        for table in tables
        for suffix, form in _FORMS.items()
    }
    for path, text in written.items():
        _write(path, text)
    # What an earlier report of more evaluations has left would be taken for a part of this one.
    for key, suffix in product(TABLE_KEYS, _FORMS):
        if (path := folder / f"{key}.{suffix}") not in written:
            path.unlink(missing_ok=True)
    return list(written)


def _json(table: Table) -> str:
    return table.model_dump_json(indent=1) + "\n"


_FORMS: Final = {"md": markdown, "tex": latex, "json": _json}


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        # A lone surrogate, which JSON can spell and UTF-8 cannot, becomes a question mark.
        file.write(text.encode("utf-8", "replace"))


def _tasks(
    sources: ReportSources, heldout: Evaluation | None
) -> Mapping[str, Task] | None:
    """Read the tasks, and refuse others than those that were asked: ids are of their content."""
    if sources.tasks is None:
        return None
    if not sources.is_revealed:
        raise EvalConfigError(
            "--tasks holds passages and rubrics, which are shown with --reveal-grounding "
            "alone; give both or neither",
            location="tasks",
        )
    if heldout is None:
        raise EvalFolderError(
            f"{sources.tasks} holds tasks, but no held-out evaluation is named; leave out --tasks"
        )
    found = {task.task_id: task for task in read_tasks(sources.tasks)}
    if missing := [id_ for id_ in heldout.measured[0].ids if id_ not in found]:
        raise EvalFolderError(
            f"{sources.tasks} lacks {len(missing)} of the {len(heldout.measured[0].ids)} "
            f"questions of {heldout.folder.root}, the first is {missing[0]}; name the file "
            "that was evaluated"
        )
    return found
