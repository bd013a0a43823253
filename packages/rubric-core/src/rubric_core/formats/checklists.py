"""Checklists in rows: a question and a list of criteria, each with points or without."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from rubric_core.errors import RubricFileError
from rubric_core.files import read_file, toml_beside
from rubric_core.formats.draft import Draft, Points
from rubric_core.formats.row import Row

Pitfalls = Literal["avoidance", "failure"]

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
    ask_pitfalls: bool = False
    """Negative weights stand beside texts of either polarity, so that the reader must say which."""

    def read(self, row: Row, pitfalls: Pitfalls | None) -> Draft:
        """Read one row.

        Raises:
            RubricFileError: a field that is missing or ill-typed, or a negative weight whose
                polarity the format does not settle while `pitfalls` is None.
        """
        criteria = tuple(
            self._points(row, item, number, pitfalls)
            for number, item in enumerate(row.items(*self.criteria))
        )
        question, source_id = row.conversation(*self.question), row.identifier(*self.source_id)
        return Draft(criteria, question, source_id, row.maybe_text(*self.reference))

    def _points(self, row: Row, item: object, number: int, pitfalls: Pitfalls | None) -> Points:
        place = f"{self.criteria[0]}.{number}"
        if isinstance(item, str):
            return Points(text=item)
        criterion = row.at(place, item)
        points = _weight(criterion, self.weight)
        if points < 0 and self.ask_pitfalls and pitfalls is None:
            raise criterion.error(
                f"is {points:g}, and this data set words its pitfalls both ways: say `avoidance` "
                'where they read "does not …", `failure` where they read "claims …"',
                self.weight[0],
            )
        if str(criterion.get("pass_criteria") or "").upper() == "NO":
            points = -points  # a question whose right answer is no: met by the fault
        text, title = criterion.text(*self.text), criterion.maybe_text("title", "name")
        name, evidence = criterion.identifier("id"), criterion.texts("evidence")
        avoidance = points < 0 and self.ask_pitfalls and pitfalls == "avoidance"
        return Points(text, points, name, title, evidence=evidence, avoidance=avoidance)


_TABLE: Final = toml_beside(__file__, "checklists.toml")
ANY: Final = Checklist(**_TABLE["any"])
"""What public data sets call the same thing."""
CHECKLISTS: Final[dict[str, Checklist]] = {
    name: Checklist(**_TABLE["any"] | paths) for name, paths in _TABLE["formats"].items()
}


def read_dr_tulu(row: Row, pitfalls: Pitfalls | None) -> Draft:
    """Read a DR Tulu row, whose `ground_truth` is a JSON text."""
    inner = row.at("ground_truth", row.decoded(row.text("ground_truth"), "ground_truth"))
    return CHECKLISTS["dr_tulu"].read(inner, pitfalls)


_ITEM: Final = re.compile(r"^\s*(?:\d+[.)]|[-*•])\s+", re.MULTILINE)
_TAG: Final = re.compile(r"\s*\[(hard rule|principle)\]\s*", re.IGNORECASE)


def read_openrubrics(row: Row) -> Draft:
    """Read an OpenRubrics row, whose rubric is one text of numbered lines."""
    criteria: list[Points] = []
    for item in filter(None, map(str.strip, _ITEM.split(row.text("rubric")))):
        title = tag[1].capitalize() if (tag := _TAG.search(item)) else ""
        criteria.append(Points(_TAG.sub(" ", item).strip(), title=title))
    return Draft(tuple(criteria), row.conversation("instruction"))


def _weight(criterion: Row, names: Sequence[str]) -> float:
    value = criterion.get(*names)
    if value is None:
        return 1.0
    if not isinstance(value, str):
        return criterion.number(*names)
    if known := _WORD_WEIGHTS.get(value.strip().lower()):
        return known
    raise criterion.error(f"must be a number or one of {', '.join(_WORD_WEIGHTS)}", names[0])


def read_criteria(row: Row) -> Iterator[Draft]:
    """Read a list of criteria: verifiers' `criteria`, autorubric's, `rubric`'s, oumi's.

    Verifiers' ordered `choices`, worst first, become the scoring guide.
    """
    criteria: list[Points] = []
    for item in row.rows("criteria", "rubrics", "rubric"):
        points = 1.0 if item.get(*ANY.weight) is None else item.number(*ANY.weight)
        text, title = item.text(*ANY.text), item.maybe_text("name", "title")
        guide = _choices(item.texts("choices"))
        criteria.append(Points(text, points, title=title, guide=guide))
    yield Draft(tuple(criteria), source_id=row.maybe_text("name"))


_YES_NO: Final = ("no", "yes")


def _choices(choices: tuple[str, ...]) -> str:
    if len(choices) < len(_YES_NO) or choices == _YES_NO:
        return ""
    share = len(choices) - 1
    return "\n".join(f"{n / share:.0%} of the weight: {text}" for n, text in enumerate(choices))


def read_hellobench(row: Row) -> Iterator[Draft]:
    """Read a HelloBench checklist file: yes/no questions by category."""
    for category in row.fields:
        if questions := row.texts(category):
            yield Draft(tuple(map(Points, questions)), source_id=category)


def read_checkeval(path: Path) -> Iterator[Draft]:
    """Read a CheckEval file: indented text, aspects with a yes/no question a line.

    Raises:
        RubricFileError: no question in it.
    """
    criteria: list[Points] = []
    aspect, inside = "", False
    for line in read_file(path).decode("utf-8-sig").splitlines():
        text = line.strip().removesuffix("|").strip()
        if not line[:1].isspace():
            inside = inside or text.startswith("sub_aspect")
        elif inside and text.endswith("?"):
            criteria.append(Points(text=text, title=aspect))
        elif inside and text.endswith(":"):
            aspect = text.removesuffix(":")
    if not criteria:
        raise RubricFileError("holds no `sub_aspect:` with questions under it", path=path)
    yield Draft(tuple(criteria), source_id=path.stem)
