"""The report of an evaluation: a page that needs no network, and its tables as files beside it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from rubric_core.files import write_text
from rubric_eval.findings.evaluations import Evaluation
from rubric_eval.findings.measuring import Findings, Results, measure
from rubric_eval.findings.reading import Reading, ReportSources, read_sources
from rubric_eval.records.inputs import REPORT, TABLES
from rubric_eval.report import views
from rubric_eval.report.curves import training_charts
from rubric_eval.report.pictures import load_pictures, write_pictures
from rubric_eval.report.tables import FORMS, all_tables, table_files
from rubric_eval.transfer.suites import SuiteName
from rubric_judge.ui.page.charts import Bars
from rubric_judge.ui.page.rendering import inert_json, render_page
from rubric_judge.ui.page.tables import Row, Table, counted
from rubric_judge.ui.page.top_figures import Figure

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
_TITLES = {"heldout": "Held-out", "transfer": "Transfer"}


def facts(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Return (label, value) pairs that describe how answers were generated and judged."""
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
        ("Answers per question", answers),
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


def _heldout_figures(findings: Findings, questions: int) -> list[Figure]:
    judge, models = next(iter(findings.judges.items()))
    scores = list(models.values())
    first = scores[0]
    last = scores[-1]
    is_alone = len(scores) == 1
    reward_note = f"judged by {judge}"
    if not is_alone:
        reward_note = f"{first.model} → {last.model}, {reward_note}"
    return [
        Figure(
            "Held-out reward, %",
            last.mean,
            "" if is_alone else first.mean,
            reward_note,
            form="percent",
        ),
        Figure(
            "Zero reward, %",
            last.zero_frac,
            "" if is_alone else first.zero_frac,
            "share of answers that earned nothing",
            form="percent",
        ),
        Figure(
            "Held-out questions",
            f"{questions:,}",
            note=f"from {counted(first.clusters, 'document')}",
        ),
    ]


def _transfer_figure(findings: Findings, models: Sequence[str]) -> Figure:
    benchmarks = counted(len(findings.benchmarks), "benchmark")
    first = models[0]
    last = models[-1]
    average = findings.averages.get((last, first))
    if average is None:
        means = [
            score.mean
            for column in findings.benchmarks.values()
            for score in column.values()
        ]
        note = f"mean of {benchmarks}"
        return Figure("Accuracy, %", fmean(means), note=note, form="percent")
    note = f"{last} − {first}, mean of {benchmarks}, points"
    return Figure("Average transfer Δ", average.mean, note=note, form="points")


@dataclass(frozen=True)
class Shown:
    """Models and judges whose answers are on a page, by set of questions."""

    models: Mapping[str, frozenset[str]]
    judges: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, excerpts: Mapping[str, Any]) -> Self:
        """Take them from the data of the page's script."""
        models: dict[str, frozenset[str]] = {}
        judges: dict[str, frozenset[str]] = {}
        for entry in excerpts["sets"]:
            models[entry["name"]] = frozenset((*entry["models"], *entry["controls"]))
            judges[entry["name"]] = frozenset(entry["judges"])
        return cls(models, judges)

    def table(self, table: Table) -> Table:
        """Return a table without the links that lead to answers that the page does not hold."""
        rows: list[Row] = []
        for row in table.rows:
            cells = tuple(
                cell.model_copy(update={"link": self._known(cell.link)})
                if cell.link
                else cell
                for cell in row.cells
            )
            update = {"cells": cells, "link": self._known(row.link)}
            rows.append(row.model_copy(update=update))
        return table.model_copy(update={"rows": tuple(rows)})

    def bars(self, bars: Bars) -> Bars:
        """Return bars without such links."""
        kept = (replace(bar, link=self._known(bar.link)) for bar in bars.bars)
        return replace(bars, bars=tuple(kept))

    def _known(self, link: str) -> str:
        named = {
            name: values[0]
            for name, values in parse_qs(urlsplit(link).fragment).items()
        }
        models = self.models.get(named.get("set", ""), frozenset[str]())
        judges = self.judges.get(named.get("set", ""), frozenset[str]())
        sides = {named[name] for name in ("left", "right") if name in named}
        asked = {named["judge"]} if "judge" in named else set[str]()
        return link if models and sides <= models and asked <= judges else ""


def page(
    reading: Reading, results: Results, tables: Sequence[Table], folder: Path
) -> str:
    """Render the page; the same evaluation gives the same text.

    Args:
        reading: what was read.
        results: what was measured.
        tables: the tables that are also written as files.
        folder: where the page will stand.
    """
    heldout = reading.heldout
    findings = results.findings
    groups = heldout.groups if heldout else {}
    is_alone = len(groups) == 1
    figures: list[Figure] = []
    if heldout is not None:
        figures += _heldout_figures(findings, len(heldout.measured[0].ids))
    if reading.transfer is not None:
        figures.append(_transfer_figure(findings, reading.transfer.models))
    context = {
        "reading": reading,
        "results": results,
        "tables": {table.key: table for table in tables},
        "name": reading.evaluations[0].name,
        "figures": figures,
        "facts": [
            (evaluation, facts(evaluation)) for evaluation in reading.evaluations
        ],
        "titles": _TITLES,
        "identities": _identities(reading),
        "inputs": [
            (f"{evaluation.name}/{file.path}", file.sha256)
            for evaluation in reading.evaluations
            for file in evaluation.inputs
        ],
        "views": views,
        "shown": Shown.of(reading.excerpts),
        "counted": counted,
        "level": findings.level,
        "heats": [
            views.heat(judge, groups[judge], criteria, is_alone=is_alone)
            for judge, criteria in results.criteria.items()
        ],
        "parts": views.exploratory(findings),
        "charts": training_charts(reading.training, beside=folder)
        if reading.training
        else (),
        "data": inert_json(reading.excerpts),
    }
    return render_page(
        __package__,
        "report",
        context,
        scripts=("address.js", "charts.js", "report.js"),
    )


def _identities(reading: Reading) -> list[tuple[str, str]]:
    """Return the identity of each model and judge as JSON, by its name and fingerprint."""
    identities: dict[str, str] = {}
    for evaluation in reading.evaluations:
        for entry in (*evaluation.run.models, *evaluation.run.judges):
            text = json.dumps(
                entry.identity, ensure_ascii=False, indent=2, sort_keys=True
            )
            identities.setdefault(f"{entry.name} · {entry.fingerprint}", text)
    return list(identities.items())


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
    if figures is not None:
        load_pictures()
    reading = read_sources(sources)
    results = measure(reading)
    tables = all_tables(results)
    folder = sources.folders[0] if out is None else out
    table_folder = folder / TABLES
    table_texts = table_files(table_folder, tables)
    report = folder / REPORT
    texts = {report: page(reading, results, tables, folder), **table_texts}
    table_folder.mkdir(parents=True, exist_ok=True)
    for path, content in texts.items():
        # A lone surrogate, which JSON can spell and UTF-8 cannot, becomes a question mark.
        write_text(path, content.encode("utf-8", "replace").decode())
    # A table left by an earlier report of more evaluations would be mistaken for part of this one.
    for key, suffix in product(TABLE_KEYS, FORMS):
        path = table_folder / f"{key}.{suffix}"
        if path not in table_texts:
            path.unlink(missing_ok=True)
    pictures: tuple[Path, ...] = ()
    if figures is not None:
        pictures = write_pictures(results.findings, reading.training, figures)
    return ReportFiles(
        report,
        tuple(table_texts),
        pictures,
        edited=reading.edited,
        notes=reading.notes,
    )
