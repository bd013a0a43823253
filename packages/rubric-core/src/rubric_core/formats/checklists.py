"""Checklists in rows: a question and a list of criteria, each with points or without."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rubric_core.errors import RubricFileError
from rubric_core.files import read_file, toml_beside
from rubric_core.formats.draft import Draft, Points
from rubric_core.formats.guides import scale_of
from rubric_core.formats.pitfalls import Pitfalls, is_avoidance
from rubric_core.formats.row import Row
from rubric_core.formats.trees import Node, children_of, nodes_of
from rubric_core.schema.conversation import Turn
from rubric_core.schema.kinds import CriterionKind

_POLARITY: dict[Pitfalls | None, str] = {
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

_TITLES = ("title", "name", "axis", "criterion_type")
_WORD_WEIGHTS = {
    "critical": 4.0,
    "major": 3.0,
    "minor": 2.0,
    "additional": 1.0,
}
"""ProfBench's scale."""


@dataclass(frozen=True)
class Checklist:
    """The places where one format keeps its parts: dotted paths, the first that is there counts."""

    question: list[str]
    criteria: list[str]
    text: list[str]
    weight: list[str]
    reference: list[str]
    source_id: list[str]
    system: list[str]
    more: list[str]
    """Further text of the request: goes after the question."""
    shown: list[str]
    """Documents that come with the question: go before it, and a judge checks against them."""
    passage: list[str]
    """Documents for the judge alone."""
    ask_pitfalls: bool = False
    """Whether negative weights stand beside texts of either polarity: `pitfalls` must say which."""

    def read(self, row: Row, pitfalls: Pitfalls | None) -> Draft:
        """Read one row.

        Raises:
            RubricFileError: a field that is missing or ill-typed, or a negative weight whose
                polarity the format does not settle while `pitfalls` is None.
        """
        name = row.name_of(*self.criteria)
        nodes = nodes_of(row, name, partial(self.node, pitfalls=pitfalls))
        for copy in self.criteria:
            if copy != name and row.get(copy) == row.get(name):
                row.take(copy)
        turns, passage = self.asked(row)
        source_id = row.identifier(*self.source_id)
        reference = row.maybe_text(*self.reference)
        criteria = tuple(node.points for node in nodes)
        return Draft(criteria, turns, source_id, reference, passage)

    def asked(self, row: Row) -> tuple[tuple[Turn, ...], str]:
        """Return the turns of the question, and the text that a judge is to check against."""
        turns = row.turns(*self.question)
        documents = row.joined(*self.shown)
        passage = row.joined(*self.passage)
        more = [row.maybe_text(name) for name in self.more if not row.has_read(name)]
        role, content = turns[-1]
        turns[-1] = (role, _paragraphs(documents, content, *more))
        system = row.maybe_text(*self.system)
        if system:
            turns.insert(0, ("system", system))
        return tuple(turns), _paragraphs(documents, passage)

    def node(self, criterion: Row, *, pitfalls: Pitfalls | None = None) -> Node:
        """Read one criterion, without those below it."""
        points = weight_of(criterion, self.weight)
        has_weight = points is not None
        if points is None:
            points = 1.0
        right_answer = str(criterion.get("pass_criteria") or "")
        if right_answer.upper() == "NO":
            points = -points  # met by the fault
        criterion.take("pass_criteria")
        titles = criterion.joined(*_TITLES).split("\n\n")  # ProfBench has several types
        text = self._text_of(criterion)
        avoidance = False
        if self.ask_pitfalls and points < 0:
            avoidance = self._avoids(criterion, text, pitfalls)
        evidence = criterion.texts("evidence")
        is_fault = points < 0 and not avoidance
        guide = scale_of(criterion, lost=is_fault)
        if not guide:
            guide = criterion.maybe_text("scoring_guide", "guide")
        for setting in ("scale_type", "aggregation"):
            criterion.leave_out(setting, "setting")
        node_points = Points(
            text=text,
            points=points,
            id=criterion.identifier("id", "criterion_id", "rubric_item_id"),
            title=", ".join(titles),
            guide=guide,
            evidence=evidence,
            kind=_kind_of(criterion),
            avoidance=avoidance,
        )
        return Node(node_points, has_weight=has_weight)

    def _text_of(self, criterion: Row) -> str:
        """Return the text of a criterion; one with children may lack it."""
        # A list under the name of a text holds the criteria below it.
        names = [
            name for name in self.text if not isinstance(criterion.get(name), list)
        ]
        if not children_of(criterion):
            return criterion.text(*names or self.text)
        if not names:
            return ""
        return criterion.maybe_text(*names)

    def _avoids(
        self,
        criterion: Row,
        text: str,
        pitfalls: Pitfalls | None,
    ) -> bool:
        avoidance = is_avoidance(text, pitfalls)
        if avoidance is not None:
            return avoidance
        name = criterion.name_of(*self.weight)
        problem = _POLARITY[pitfalls].format(criterion.number(name))
        raise criterion.error(problem, name)


def _paragraphs(*texts: str) -> str:
    """Join the texts that are not empty, with empty lines between."""
    return "\n\n".join(filter(None, texts))


_KINDS = {kind.value: kind for kind in CriterionKind}


def _kind_of(criterion: Row) -> CriterionKind | None:
    """Return the kind that a row names if it is one of ours; another value is not read."""
    value = criterion.get("kind")
    if not isinstance(value, str) or value not in _KINDS:
        return None
    criterion.take("kind")
    return _KINDS[value]


_TABLE = toml_beside(__file__, "checklists.toml")
ANY = Checklist(**_TABLE["any"])
"""All the names that public data sets use for each part."""
QUESTIONS = Checklist(**_TABLE["any"] | _TABLE["questions"])
"""The names in a file of questions alone."""
CHECKLISTS: dict[str, Checklist] = {
    name: Checklist(**_TABLE["any"] | paths)
    for name, paths in _TABLE["formats"].items()
}


def read_dr_tulu(row: Row, pitfalls: Pitfalls | None) -> Draft:
    """Read a DR Tulu row, whose `ground_truth` is a JSON text."""
    return CHECKLISTS["dr_tulu"].read(row.inner("ground_truth"), pitfalls)


_ITEM = re.compile(r"^\s*(?:\d+[.)]|[-*•])\s+", re.MULTILINE)
_TAG = re.compile(r"\s*\[(hard rule|principle)\]\s*", re.IGNORECASE)


def read_openrubrics(row: Row) -> Draft:
    """Read an OpenRubrics row, whose rubric is one text of numbered lines."""
    criteria: list[Points] = []
    for part in _ITEM.split(row.text("rubric")):
        item = part.strip()
        if not item:
            continue
        tag = _TAG.search(item)
        title = "" if tag is None else tag[1].capitalize()
        text = _TAG.sub(" ", item).strip()
        criteria.append(Points(text, title=title))
    turns = row.turns("instruction")
    return Draft(tuple(criteria), tuple(turns))


def weight_of(criterion: Row, names: Sequence[str]) -> float | None:
    """Return the weight of a criterion, None where its source does not say.

    Raises:
        RubricFileError: neither a number nor a known word.
    """
    value = criterion.get(*names)
    if value is None:
        return None
    if isinstance(value, str):
        name = criterion.name_of(*names)
        weight = _WORD_WEIGHTS.get(value.strip().lower())
        if weight is not None:
            criterion.take(name)
            return weight
        signed = value.strip().rstrip("%").replace(".", "", 1)
        digits = signed.lstrip("+-").strip()
        if not digits.isdecimal():
            words = ", ".join(_WORD_WEIGHTS)
            raise criterion.error(f"must be a number or one of {words}", name)
    return criterion.number(*names)


def read_hellobench(row: Row) -> Iterator[Draft]:
    """Read a HelloBench file: yes/no questions by category, or a row of its tasks.

    The requirements of a task that its instruction does not hold go after the instruction.
    """
    if row.get("instruction") is None:
        for category in row.fields:
            criteria = tuple(map(Points, row.texts(category)))
            if criteria:
                yield Draft(criteria, source_id=category)
        return
    draft = ANY.read(row, None)
    ((role, content),) = draft.turns
    requirements = row.texts("requirements")
    more = [requirement for requirement in requirements if requirement not in content]
    turn = (role, _paragraphs(content, *more))
    yield replace(draft, turns=(turn,))


def read_checkeval(path: Path) -> Iterator[Draft]:
    """Read a CheckEval file: indented text, aspects with a yes/no question a line.

    Raises:
        RubricFileError: no question in it, or a line that is none of these.
    """
    criteria: list[Points] = []
    aspect = ""
    definition = ""
    part = ""
    lines = read_file(path).decode("utf-8-sig").splitlines()
    for number, line in enumerate(lines, start=1):
        text = line.strip().removesuffix("|").strip()
        if not text:
            continue
        heading = text.rstrip(":")
        is_indented = line[:1].isspace()
        if not is_indented and heading in ("definition", "sub_aspect"):
            part = heading
        elif part == "definition":
            definition = f"{definition}\n{text}".strip()
        elif part == "sub_aspect" and text.endswith("?"):
            criteria.append(Points(text, title=aspect, guide=definition))
        elif part == "sub_aspect" and text.endswith(":"):
            aspect = text.removesuffix(":")
        else:
            raise RubricFileError(
                "is neither `definition:`, `sub_aspect:`, an aspect nor a question",
                path=path,
                line=number,
            )
    if not criteria:
        raise RubricFileError(
            "holds no `sub_aspect:` with questions under it", path=path
        )
    yield Draft(tuple(criteria), source_id=path.stem)


def lines_of(draft: Draft) -> int:
    """Return how many values a CheckEval file gave a draft: questions, aspects, definition."""
    headings: set[str] = set()
    for criterion in draft.criteria:
        headings.add(criterion.title)
        headings.add(criterion.guide)
    headings.discard("")
    return len(draft.criteria) + len(headings)
