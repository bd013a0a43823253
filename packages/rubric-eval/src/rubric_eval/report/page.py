"""The parts of a report put into one page that needs no other file and no network."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rubric_eval.heldout.table import judge_pair
from rubric_eval.records import evaluation_files, hashed_inputs
from rubric_eval.report.curves import training_charts
from rubric_eval.report.drawing import svg
from rubric_eval.report.exploratory import exploratory
from rubric_eval.report.headline import facts, figures
from rubric_eval.report.heat import heat
from rubric_eval.report.table import bounds, written
from rubric_eval.report.visible import visible

if TYPE_CHECKING:
    from rubric_eval.heldout import JudgePair
    from rubric_eval.records import InputFile
    from rubric_eval.report.excerpts import Excerpts
    from rubric_eval.report.findings import Findings
    from rubric_eval.report.reading import Evaluation
    from rubric_eval.report.reliability import Reliability
    from rubric_eval.report.signs import Signs
    from rubric_eval.report.table import Table
    from rubric_eval.report.training import Training

_STYLE: Final = "report.css"
_SCRIPT: Final = "report.js"


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
    environment = Environment(
        loader=PackageLoader("rubric_eval.report"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    cast("dict[str, Any]", environment.globals).update(svg=svg)
    cast("dict[str, Any]", environment.filters).update(
        visible=visible, written=written, bounds=bounds
    )
    script = _asset(_SCRIPT)
    heldout = content.heldout
    return environment.get_template("report.html.j2").render(
        content=content,
        name=content.evaluations[0].folder.root.resolve().name,
        figures=figures(content.findings, content.heldout, content.transfer),
        facts=[(one, facts(one)) for one in content.evaluations],
        heats=[heat(*group) for group in heldout.groups.items()] if heldout else [],
        parts=exploratory(content.findings),
        charts=training_charts(content.training) if content.training else (),
        identities=_identities(content),
        inputs=_inputs(content),
        style=Markup(_asset(_STYLE)),  # noqa: S704  # ours
        script=Markup(script),  # noqa: S704  # ours
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=inert_json(content.excerpts.data()),
    )


def inert_json(value: object) -> Markup:
    """Write JSON that is data in a page whatever its strings hold.

    All but ASCII is escaped, and so are <, > and &: no string can end the script element or open a
    comment. NaN and infinities become null, which JSON has a word for.
    """
    text = json.dumps(_finite(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704  # escaped above


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


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_finite(item) for item in cast("list[object]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shown(value: object) -> object:
    """Make the characters of a text visible; what is markup already was made of such texts."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _asset(name: str) -> str:
    folder = files("rubric_eval.report") / "templates"
    return (folder / name).read_text(encoding="utf-8")
