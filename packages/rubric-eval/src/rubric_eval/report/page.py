"""The report of an evaluation: a page that needs no network, and its tables as files beside it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

from rubric_core import Task, read_tasks
from rubric_core.files import replacing
from rubric_eval.errors import EvalConfigError, EvalFolderError
from rubric_eval.heldout.table import CorrectedReward, corrected_rewards
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
from rubric_judge.ui.page.rendering import inert_json, render_page
from rubric_judge.ui.page.tables import Figure, Table, counted, latex, markdown, written


def facts(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Describe in a few words each how the answers were generated and judged."""
    run = evaluation.run
    judges_label = "Judge" if len(run.judges) == 1 else "Judges"
    judges = ", ".join(judge.name for judge in run.judges)
    answers = str(len(run.seeds) * run.samples)
    if len(run.seeds) > 1 and run.samples > 1:
        answers += f" ({len(run.seeds)} seeds × {run.samples})"
    rows = [
        ("Models", ", ".join(evaluation.models)),
        (judges_label, judges),
        ("Decoding", _decoding(evaluation)),
        ("Answers a question", answers),
        ("Finished", (run.finished or "")[:16].replace("T", " ")),
    ]
    return [(name, value) for name, value in rows if value]


def _decoding(evaluation: Evaluation) -> str:
    """Describe the settings that answers were sampled with."""
    run = evaluation.run
    if run.suite == SuiteName.LIKELIHOOD:
        return "the likeliest of the choices; nothing is written"
    decoding = run.decoding
    parts: list[str] = []
    if decoding.temperature == 0:
        parts.append("greedy")
    else:
        parts.append(f"temperature {decoding.temperature:g}")
    if decoding.top_p < 1:
        parts.append(f"top-p {decoding.top_p:g}")
    if decoding.top_k is not None:
        parts.append(f"top-k {decoding.top_k}")
    parts.append(f"at most {_budget(evaluation)} tokens")
    return ", ".join(parts)


def _budget(evaluation: Evaluation) -> str:
    """Return the token limit of an answer, or several where benchmarks differ."""
    run = evaluation.run
    budgets = sorted(
        {run.max_tokens.get(name, run.decoding.max_tokens) for name in run.questions}
    )
    return " or ".join(f"{budget:,}" for budget in budgets)


def _heldout_figures(findings: Findings, heldout: Evaluation | None) -> list[Figure]:
    if heldout is None:
        return []
    judge, models = next(iter(findings.judges.items()))
    scores = list(models.values())
    first = scores[0]
    last = scores[-1]
    reward_note = f"judged by {judge}"
    reward_before = ""
    zero_before = ""
    if len(scores) > 1:
        reward_note = f"{first.model} → {last.model}, {reward_note}"
        reward_before = written(first.mean, "percent")
        zero_before = written(first.zero_frac, "percent")
    questions = len(heldout.measured[0].ids)
    return [
        Figure(
            "Held-out reward, %",
            written(last.mean, "percent"),
            reward_before,
            reward_note,
        ),
        Figure(
            "Zero reward, %",
            written(last.zero_frac, "percent"),
            zero_before,
            "share of answers that earned nothing",
        ),
        Figure(
            "Held-out questions",
            f"{questions:,}",
            note=f"from {counted(first.clusters, 'document')}",
        ),
    ]


def _transfer_figures(findings: Findings, transfer: Evaluation | None) -> list[Figure]:
    if transfer is None:
        return []
    benchmarks = counted(len(findings.benchmarks), "benchmark")
    first = transfer.models[0]
    last = transfer.models[-1]
    average = findings.average(last, first)
    if average is None:
        mean = written(average_transfer(findings), "percent")
        return [Figure("Accuracy, %", mean, note=f"mean of {benchmarks}")]
    note = f"{last} − {first}, mean of {benchmarks}, points"
    return [Figure("Average transfer Δ", written(average.mean, "points"), note=note)]


@dataclass(frozen=True)
class Content:
    """Everything that the page shows."""

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
        """The evaluations that are reported: held-out, transfer or both."""
        return tuple(
            evaluation
            for evaluation in (self.heldout, self.transfer)
            if evaluation is not None
        )

    @property
    def edited(self) -> tuple[str, ...]:
        """Edits to evaluations' files that the user accepted."""
        return tuple(
            edit for evaluation in self.evaluations for edit in evaluation.edited
        )

    @property
    def file_notes(self) -> tuple[str, ...]:
        """Remarks about evaluations' files for the reader."""
        return tuple(
            note for evaluation in self.evaluations for note in evaluation.notes
        )


_TITLES: Final = {"heldout": "Held-out", "transfer": "Transfer"}


def page(content: Content) -> str:
    """Render the page; the same evaluation gives the same text."""
    heldout = content.heldout
    level = content.findings.level
    groups = heldout.groups if heldout else {}
    is_alone = len(groups) == 1
    heats = [heat(judge, models, is_alone=is_alone) for judge, models in groups.items()]
    context = {
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
        "heats": heats,
        "parts": exploratory(content.findings),
        "charts": training_charts(content.training) if content.training else (),
        "titles": _TITLES,
        "identities": _identities(content),
        "inputs": _inputs(content),
        "data": inert_json(content.excerpts),
    }
    return render_page(
        __package__, "report", context, scripts=("charts.js", "report.js")
    )


def _identities(content: Content) -> list[tuple[str, str]]:
    """Return the identity of each model and judge as JSON, by its name and fingerprint."""
    identities: dict[str, str] = {}
    for evaluation in content.evaluations:
        for entry in (*evaluation.run.models, *evaluation.run.judges):
            text = json.dumps(
                entry.identity, ensure_ascii=False, indent=2, sort_keys=True
            )
            identities.setdefault(f"{entry.name} · {entry.fingerprint}", text)
    return list(identities.items())


def _inputs(content: Content) -> list[tuple[str, str]]:
    """Return path and SHA-256 of each file that the numbers were read from."""
    inputs: list[tuple[str, str]] = []
    for evaluation in content.evaluations:
        folder = evaluation.folder
        name = folder.root.resolve().name
        files = hashed_inputs(evaluation_files(folder), beside=folder.run)
        inputs += [(f"{name}/{file.path}", file.sha256) for file in files]
    return inputs


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
    """Folders and files that a report is made from."""

    folders: tuple[Path, ...]
    """A held-out evaluation, a transfer evaluation, or one of each."""

    training: Path | None = None
    """Run folder of a trainer, for the curves."""

    reliability: Path | None = None
    """reliability.json of `rubric-judge reliability`, or its folder."""

    tasks: Path | None = None
    """File of the tasks that the questions come from, for their passages and rubrics."""

    is_revealed: bool = False
    """Whether the page may show judges' words, and passages and rubrics of the tasks."""

    accepts_edited: bool = False
    """Whether edited evaluations are reported all the same; the page then says so."""


@dataclass(frozen=True)
class ReportFiles:
    """Files that a report consists of, and remarks about the evaluations in it."""

    page: Path
    tables: tuple[Path, ...]
    pictures: tuple[Path, ...] = ()
    edited: tuple[str, ...] = ()
    """Edits to evaluations' files that the user accepted."""

    notes: tuple[str, ...] = ()


def write_report(
    sources: ReportSources, out: Path | None = None, *, figures: Path | None = None
) -> ReportFiles:
    """Write the page and the tables, and the pictures if a folder for them is given.

    Args:
        sources: what to report.
        out: folder for report.html and tables/; by default that of the first evaluation.
        figures: folder for the figures as PNG and PDF; without it none are drawn.

    Returns:
        The files written; each replaces an earlier one atomically.

    Raises:
        EvalEditedError: files are not as their evaluation left them, or contradict each other.
        EvalFolderError: an evaluation is missing, did not finish, or does not fit the others.
        RubricFileError: a file is damaged.
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
    compared = findings(evaluations)
    tasks = _tasks(sources, heldout)
    hacking_signs = None
    corrected: Sequence[CorrectedReward] = ()
    if heldout is not None:
        hacking_signs = signs(heldout, tasks)
        corrected = corrected_rewards(
            heldout.folder, heldout.run.judges, heldout.measured
        )
    tables = all_tables(compared, corrected)
    if hacking_signs is not None:
        tables += (signs_table(hacking_signs),)
    training = None
    if sources.training is not None:
        training = read_training(sources.training)
    reliability = None
    if sources.reliability is not None:
        reliability = read_reliability(sources.reliability)
    content = Content(
        heldout=heldout,
        transfer=transfer,
        findings=compared,
        tables=tables,
        signs=hacking_signs,
        training=training,
        reliability=reliability,
        excerpts=excerpts(
            heldout, transfer, tasks=tasks, is_revealed=sources.is_revealed
        ),
        is_revealed=sources.is_revealed,
    )
    text = page(content)
    folder = EvalFolder(sources.folders[0] if out is None else out)
    folder.tables.mkdir(parents=True, exist_ok=True)
    _write(folder.report, text)
    table_files = tuple(_write_tables(folder.tables, tables))
    pictures: tuple[Path, ...] = ()
    if figures is not None:
        pictures = write_pictures(compared, training, figures)
    return ReportFiles(
        folder.report,
        table_files,
        pictures,
        edited=content.edited,
        notes=content.file_notes,
    )


def _write_tables(folder: Path, tables: tuple[Table, ...]) -> list[Path]:
    texts: dict[Path, str] = {}
    for table in tables:
        for suffix, form in _FORMS.items():
            texts[folder / f"{table.key}.{suffix}"] = form(table)
    for path, text in texts.items():
        _write(path, text)
    # A table left by an earlier report of more evaluations would be mistaken for part of this one.
    for key, suffix in product(TABLE_KEYS, _FORMS):
        path = folder / f"{key}.{suffix}"
        if path not in texts:
            path.unlink(missing_ok=True)
    return list(texts)


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
    """Read the tasks; refuse a file that lacks one of those asked, by hashes of content."""
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
    tasks = {task.task_id: task for task in read_tasks(sources.tasks)}
    missing = [id_ for id_ in heldout.measured[0].ids if id_ not in tasks]
    if missing:
        raise EvalFolderError(
            f"{sources.tasks} lacks {len(missing)} of the {len(heldout.measured[0].ids)} "
            f"questions of {heldout.folder.root}, the first is {missing[0]}; name the file "
            "that was evaluated"
        )
    return tasks
