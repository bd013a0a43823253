"""Checklists in rows: a question and a list of criteria, each with points or without."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from rubric_core.formats.draft import Draft, Points

if TYPE_CHECKING:
    from rubric_core.formats.row import Row

Pitfalls = Literal["avoidance", "failure"]

# What public data sets call the same thing; the first that a row has counts.
QUESTION: Final = (
    "question",
    "prompt",
    "instruction",
    "query",
    "input",
    "conversation_input",
    "convo",
    "responses_create_params.input",
)
TEXT: Final = (
    "criterion",
    "description",
    "requirement",
    "requirements",
    "criteria",
    "criterion_description",
    "criteria_description",
    "rubric_item",
    "rubric_str",
    "question",
    "text",
)
WEIGHT: Final = ("points", "weight", "criterion_weight")
CRITERIA: Final = (
    "rubrics",
    "rubric",
    "rubric_list",
    "criteria",
    "checklist",
    "checklists",
    "rubric_items",
    "reward_model.rubrics",
    "Rubric",
)
REFERENCE: Final = (
    "reference_answer",
    "reference_response",
    "ideal_completions_data.ideal_completion",
    "references.gpt-4",
)
SOURCE_ID: Final = ("prompt_id", "sample_id", "task_id", "uuid", "session_id", "id")

_WORD_WEIGHTS: Final = {"critical": 4.0, "major": 3.0, "minor": 2.0, "additional": 1.0}
"""ProfBench's scale."""


@dataclass(frozen=True, slots=True)
class Checklist:
    """Where one format keeps its parts."""

    question: tuple[str, ...] = QUESTION
    criteria: tuple[str, ...] = CRITERIA
    text: tuple[str, ...] = TEXT
    weight: tuple[str, ...] = WEIGHT
    reference: tuple[str, ...] = REFERENCE
    source_id: tuple[str, ...] = SOURCE_ID
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
        return Draft(
            question=row.conversation(*self.question),
            criteria=criteria,
            source_id=row.identifier(*self.source_id),
            reference=row.maybe_text(*self.reference),
        )

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
        return Points(
            text=criterion.text(*self.text),
            points=points,
            id=criterion.identifier("id"),
            title=criterion.maybe_text("title", "name"),
            evidence=criterion.texts("evidence"),
            avoidance=points < 0 and self.ask_pitfalls and pitfalls == "avoidance",
        )


CHECKLISTS: Final[dict[str, Checklist]] = {
    "checklist": Checklist(),
    "dr_tulu": Checklist(question=("query", "question")),
    "healthbench": Checklist(
        question=("prompt",), criteria=("rubrics",), text=("criterion",), weight=("points",)
    ),
    "inverse_if": Checklist(
        question=("responses_create_params.input", "prompt"),
        criteria=("rubric",),
        text=("criteria",),
    ),
    "multichallenge": Checklist(
        question=("responses_create_params.input", "prompt"),
        criteria=("rubric",),
        text=("question",),
        source_id=("uuid", "task_id"),
    ),
    "profbench": Checklist(
        question=("prompt",),
        criteria=("rubrics",),
        text=("criterion_description",),
        weight=("criterion_weight",),
    ),
    "rar": Checklist(
        question=("question",),
        criteria=("rubric", "rubric_list"),
        text=("description",),
        weight=("weight",),
        ask_pitfalls=True,
    ),
    "researchrubrics": Checklist(
        question=("prompt",), criteria=("rubrics",), text=("criterion",), weight=("weight",)
    ),
    "rubrichub": Checklist(
        question=("prompt",),
        criteria=("reward_model.rubrics", "Rubric", "rubrics"),
        text=("criterion",),
        weight=("points",),
    ),
    "tinker": Checklist(question=("convo",), criteria=("rubric_items",), text=("rubric_str",)),
    "wildbench": Checklist(question=("conversation_input",), criteria=("checklist",)),
}


def read_dr_tulu(row: Row, pitfalls: Pitfalls | None) -> Draft:
    """Read a DR Tulu row, whose `ground_truth` is a JSON text."""
    inner = row.at("ground_truth", row.decoded(row.text("ground_truth"), "ground_truth"))
    return CHECKLISTS["dr_tulu"].read(inner, pitfalls)


_ITEM: Final = re.compile(r"^\s*(?:\d+[.)]|[-*•])\s+", re.MULTILINE)


def read_openrubrics(row: Row, pitfalls: Pitfalls | None) -> Draft:
    """Read an OpenRubrics row, whose rubric is one text of numbered lines."""
    del pitfalls
    items = [part.strip() for part in _ITEM.split(row.text("rubric")) if part.strip()]
    tag = re.compile(r"\s*\[(hard rule|principle)\]\s*", re.IGNORECASE)
    criteria = tuple(
        Points(text=tag.sub(" ", item).strip(), title=_tag(tag.search(item))) for item in items
    )
    return Draft(question=row.conversation("instruction"), criteria=criteria)


def _tag(found: re.Match[str] | None) -> str:
    return found[1].capitalize() if found else ""


def _weight(criterion: Row, names: tuple[str, ...]) -> float:
    value = criterion.get(*names)
    if value is None:
        return 1.0
    if isinstance(value, str):
        known = _WORD_WEIGHTS.get(value.strip().lower())
        if known is None:
            words = ", ".join(_WORD_WEIGHTS)
            raise criterion.error(f"must be a number or one of {words}", names[0])
        return known
    return criterion.number(*names)
