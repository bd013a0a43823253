"""The parts of a report put into one page that needs no other file and no network."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

from rubric_eval.heldout.table import judge_pair
from rubric_eval.records import evaluation_files, hashed_inputs
from rubric_eval.report.curves import training_charts
from rubric_eval.report.drawing import svg
from rubric_eval.report.exploratory import exploratory, heat
from rubric_eval.report.headline import facts, figures
from rubric_eval.report.table import bounds, written
from rubric_judge.page import inert_json, render_page

if TYPE_CHECKING:
    from rubric_eval.heldout import JudgePair
    from rubric_eval.records import InputFile
    from rubric_eval.report.curves import Training
    from rubric_eval.report.excerpts import Excerpts
    from rubric_eval.report.findings import Findings
    from rubric_eval.report.reading import Evaluation
    from rubric_eval.report.reliability import Reliability
    from rubric_eval.report.signs import Signs
    from rubric_eval.report.table import Table


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
    excerpts: Excerpts
    is_revealed: bool

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """Those that there are."""
        return tuple(one for one in (self.heldout, self.transfer) if one is not None)

    @property
    def edited(self) -> tuple[str, ...]:
        """What was not as an evaluation left it, and was accepted so."""
        return tuple(what for one in self.evaluations for what in one.edited)

    @property
    def file_notes(self) -> tuple[str, ...]:
        """What else a reader should know of the files."""
        return tuple(what for one in self.evaluations for what in one.notes)

    @property
    def is_compared(self) -> bool:
        """Whether there is more than one model."""
        return any(len(one.models) > 1 for one in self.evaluations)

    @cached_property
    def judge_pairs(self) -> list[JudgePair]:
        """Every two judges side by side."""
        if self.heldout is None:
            return []
        measured = {(one.model, one.judge or ""): one for one in self.heldout.measured}
        pairs = (judge_pair(measured, a, b) for a, b in combinations(self.heldout.groups, 2))
        return [pair for pair in pairs if pair is not None]

    def table(self, key: str) -> Table | None:
        """The table of a name, where there is one."""
        return next((table for table in self.tables if table.key == key), None)


def page(content: Content) -> str:
    """Make the page; the same evaluation gives the same text."""
    heldout = content.heldout
    shown = {
        "content": content,
        "name": content.evaluations[0].folder.root.resolve().name,
        "figures": figures(content.findings, content.heldout, content.transfer),
        "facts": [(one, facts(one)) for one in content.evaluations],
        "heats": [heat(*group) for group in heldout.groups.items()] if heldout else [],
        "parts": exploratory(content.findings),
        "charts": training_charts(content.training) if content.training else (),
        "identities": _identities(content),
        "inputs": _inputs(content),
        "svg": svg,
        "data": inert_json(content.excerpts.data()),
    }
    return render_page(
        __package__ or "",
        "report.html.j2",
        shown,
        style="report.css",
        scripts=("report.js",),
        filters={"written": written, "bounds": bounds},
    )


def _identities(content: Content) -> list[tuple[str, str]]:
    """What each model and judge was, for the record."""
    found: dict[str, str] = {}
    for evaluation in content.evaluations:
        for entry in (*evaluation.run.models, *evaluation.run.judges):
            text = json.dumps(entry.identity, ensure_ascii=False, indent=2, sort_keys=True)
            found.setdefault(f"{entry.name} · {entry.fingerprint}", text)
    return list(found.items())


def _inputs(content: Content) -> list[InputFile]:
    """What the numbers were read from, by content."""
    return [
        one.model_copy(update={"path": f"{evaluation.folder.root.resolve().name}/{one.path}"})
        for evaluation in content.evaluations
        for one in hashed_inputs(evaluation_files(evaluation.folder), beside=evaluation.folder.run)
    ]
