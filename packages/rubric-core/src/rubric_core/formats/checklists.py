"""Checklists in rows: a question and a list of criteria, each with points or without."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from rubric_core.errors import RubricFileError
from rubric_core.files import read_file, toml_beside
from rubric_core.formats.draft import Draft, Points
from rubric_core.formats.guides import scale_of
from rubric_core.formats.pitfalls import Pitfalls, is_avoidance
from rubric_core.formats.row import Row
from rubric_core.formats.trees import Node, children_of, nodes_of
from rubric_core.formats.turns import Turn
from rubric_core.schema.kinds import CriterionKind

_POLARITY: Final[dict[Pitfalls | None, str]] = {
    None: (
        "is {:g} and its text says what is not done, which this data set does for faults "
        '("does not mention …") and for their avoidance ("does not recommend …"): say `worded` to '
        "tell them apart by their verbs, `failure` where all of them are faults, or `avoidance` "
        "where a good answer meets all of them"
    ),
    "worded": (
        "is {:g} and nothing in the text's verb says whether a good answer does what it denies: "
        "reword it, or say `avoidance` or `failure` for all"
    ),
    "avoidance": (
        "is {:g} and its text says what an answer lacks, which no good answer does: say `worded`, "
        "which tells such texts from those of an avoided fault"
    ),
}

_TITLES: Final = ("title", "name", "axis", "criterion_type")
_WORD_WEIGHTS: Final = {"critical": 4.0, "major": 3.0, "minor": 2.0, "additional": 1.0}
"""ProfBench's scale."""


@dataclass(frozen=True, slots=True)
class Checklist:
    """Where one format keeps its parts, by dotted paths of which the first that is there counts."""

    question: list[str]
    criteria: list[str]
    text: list[str]
    weight: list[str]
    reference: list[str]
    source_id: list[str]
    system: list[str]
    more: list[str]
    """What is asked besides: goes behind the question."""
    shown: list[str]
    """Documents that the question comes with: go before it, and are what a judge checks against."""
    passage: list[str]
    """Documents for the judge alone."""
    ask_pitfalls: bool = False
    """Negative weights stand beside texts of either polarity, so that the reader must say which."""

    def read(self, row: Row, pitfalls: Pitfalls | None) -> Draft:
        """Read one row.

        Raises:
            RubricFileError: a field that is missing or ill-typed, or a negative weight whose
                polarity the format does not settle while `pitfalls` is None.
        """
        name = row.name_of(*self.criteria)
        nodes = nodes_of(row, name, partial(self.node, pitfalls=pitfalls))
        self._take_copies(row, name)
        turns, passage = self.asked(row)
        source_id = row.identifier(*self.source_id)
        reference = row.maybe_text(*self.reference)
        return Draft(
            tuple(node.points for node in nodes), turns, source_id, reference, passage
        )

    def asked(self, row: Row) -> tuple[tuple[Turn, ...], str]:
        """Return the turns of the question, and what a judge is to check against."""
        turns = row.turns(*self.question)
        shown = row.joined(*self.shown)
        passage = row.joined(*self.passage)
        more = [row.maybe_text(name) for name in self.more if not row.has_read(name)]
        role, content = turns[-1]
        turns[-1] = (role, "\n\n".join(filter(None, (shown, content, *more))))
        if system := row.maybe_text(*self.system):
            turns.insert(0, ("system", system))
        return tuple(turns), "\n\n".join(filter(None, (shown, passage)))

    def _take_copies(self, row: Row, chosen: str) -> None:
        """Take down another list that holds the same criteria."""
        for name in self.criteria:
            if name != chosen and row.get(name) == row.get(chosen):
                row.take(name)

    def node(self, criterion: Row, *, pitfalls: Pitfalls | None = None) -> Node:
        """Read one criterion, without those below it."""
        points = weight_of(criterion, self.weight)
        has_weight = points is not None
        points = 1.0 if points is None else points
        if str(criterion.get("pass_criteria") or "").upper() == "NO":
            points = -points  # a question whose right answer is no: met by the fault
        criterion.take("pass_criteria")
        # A list under the name of a text is of the criteria below it.
        texts = [
            name for name in self.text if not isinstance(criterion.get(name), list)
        ]
        title = ", ".join(
            criterion.joined(*_TITLES).split("\n\n")
        )  # ProfBench has several types
        needs_text = not children_of(criterion)
        text = ""
        if needs_text or texts:
            text = (criterion.text if needs_text else criterion.maybe_text)(
                *texts or self.text
            )
        avoidance = (
            self.ask_pitfalls and points < 0 and self._avoids(criterion, text, pitfalls)
        )
        evidence = criterion.texts("evidence")
        lost = points < 0 and not avoidance
        guide = scale_of(criterion, lost=lost) or criterion.maybe_text(
            "scoring_guide", "guide"
        )
        for setting in ("scale_type", "aggregation"):
            criterion.leave_out(setting, "setting")
        name = criterion.identifier("id", "criterion_id", "rubric_item_id")
        found = Points(
            text,
            points,
            name,
            title,
            guide,
            (),
            evidence,
            _kind_of(criterion),
            avoidance,
        )
        return Node(found, has_weight=has_weight)

    def _avoids(self, criterion: Row, text: str, pitfalls: Pitfalls | None) -> bool:
        if (told := is_avoidance(text, pitfalls)) is not None:
            return told
        name = criterion.name_of(*self.weight)
        raise criterion.error(_POLARITY[pitfalls].format(criterion.number(name)), name)


_KINDS: Final = {kind.value: kind for kind in CriterionKind}


def _kind_of(criterion: Row) -> CriterionKind | None:
    """Return a kind of ours that a row names; whatever else it calls so is not read."""
    value = criterion.get("kind")
    if not isinstance(value, str) or value not in _KINDS:
        return None
    criterion.take("kind")
    return _KINDS[value]


_TABLE: Final = toml_beside(__file__, "checklists.toml")
ANY: Final = Checklist(**_TABLE["any"])
"""What public data sets call the same thing."""
QUESTIONS: Final = Checklist(**_TABLE["any"] | _TABLE["questions"])
"""Of a file of questions alone."""
CHECKLISTS: Final[dict[str, Checklist]] = {
    name: Checklist(**_TABLE["any"] | paths)
    for name, paths in _TABLE["formats"].items()
}


def read_dr_tulu(row: Row, pitfalls: Pitfalls | None) -> Draft:
    """Read a DR Tulu row, whose `ground_truth` is a JSON text."""
    return CHECKLISTS["dr_tulu"].read(row.inner("ground_truth"), pitfalls)


_ITEM: Final = re.compile(r"^\s*(?:\d+[.)]|[-*•])\s+", re.MULTILINE)
_TAG: Final = re.compile(r"\s*\[(hard rule|principle)\]\s*", re.IGNORECASE)


def read_openrubrics(row: Row) -> Draft:
    """Read an OpenRubrics row, whose rubric is one text of numbered lines."""
    criteria: list[Points] = []
    for item in filter(None, map(str.strip, _ITEM.split(row.text("rubric")))):
        title = tag[1].capitalize() if (tag := _TAG.search(item)) else ""
        criteria.append(Points(_TAG.sub(" ", item).strip(), title=title))
    return Draft(tuple(criteria), tuple(row.turns("instruction")))


def weight_of(criterion: Row, names: Sequence[str]) -> float | None:
    """Return what a criterion weighs, None where its source does not say.

    Raises:
        RubricFileError: neither a number nor a known word.
    """
    value = criterion.get(*names)
    if value is None:
        return None
    if isinstance(value, str):
        name = criterion.name_of(*names)
        if known := _WORD_WEIGHTS.get(value.strip().lower()):
            criterion.take(name)
            return known
        if (
            not value.strip()
            .rstrip("%")
            .replace(".", "", 1)
            .lstrip("+-")
            .strip()
            .isdecimal()
        ):
            words = ", ".join(_WORD_WEIGHTS)
            raise criterion.error(f"must be a number or one of {words}", name)
    return criterion.number(*names)


def read_hellobench(row: Row) -> Iterator[Draft]:
    """Read a HelloBench file: yes/no questions by category, or a row of its tasks.

    Whatever a task requires beyond its instruction goes behind it.
    """
    if row.get("instruction") is None:
        for category in row.fields:
            if questions := row.texts(category):
                yield Draft(tuple(map(Points, questions)), source_id=category)
        return
    draft = ANY.read(row, None)
    ((role, content),) = draft.turns
    more = [text for text in row.texts("requirements") if text not in content]
    turns = ((role, "\n\n".join([content, *more])),)
    yield replace(draft, turns=turns)


def read_checkeval(path: Path) -> Iterator[Draft]:
    """Read a CheckEval file: indented text, aspects with a yes/no question a line.

    Raises:
        RubricFileError: no question in it, or a line that is none of these.
    """
    criteria: list[Points] = []
    aspect = ""
    definition = ""
    part = ""
    for number, line in enumerate(read_file(path).decode("utf-8-sig").splitlines(), 1):
        text = line.strip().removesuffix("|").strip()
        if not text:
            continue
        if not line[:1].isspace() and text.rstrip(":") in ("definition", "sub_aspect"):
            part = text.rstrip(":")
        elif part == "definition":
            definition = f"{definition}\n{text}".strip()
        elif part == "sub_aspect" and text.endswith("?"):
            criteria.append(Points(text, title=aspect, guide=definition))
        elif part == "sub_aspect" and text.endswith(":"):
            aspect = text.removesuffix(":")
        else:
            problem = (
                "is neither `definition:`, `sub_aspect:`, an aspect nor a question"
            )
            raise RubricFileError(problem, path=path, line=number)
    if not criteria:
        raise RubricFileError(
            "holds no `sub_aspect:` with questions under it", path=path
        )
    yield Draft(tuple(criteria), source_id=path.stem)


def lines_of(draft: Draft) -> int:
    """Return how many values a CheckEval file gave a draft: questions, aspects, definition."""
    aspects = {criterion.title for criterion in draft.criteria} | {
        criterion.guide for criterion in draft.criteria
    }
    return len(draft.criteria) + len(aspects - {""})
