"""Questions and criteria that cannot be understood without the passage."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rubric_synth.quality.pointers import (
    CRITERION_POINTERS,
    GUIDE_POINTERS,
    QUESTION_POINTERS,
    Pointer,
)
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import StageRefusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rubric_synth.stages import CriterionDraft, Draft


_TOKEN: Final = re.compile(r"\w+|[\[\\§]|\?\?")
_HINTS: Final = frozenset[str]().union(*(pointer.hints for pointer in QUESTION_POINTERS))
"""Of all pointers, for those of a question are among the others."""
_CODE_OR_FORMULA: Final = re.compile(r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$\n]*\$", re.DOTALL)


def check_self_contained(draft: Draft) -> None:
    """Check that the question and the criteria can be read without the passage.

    A verification method may name the passage: the judge who follows it has it.

    Raises:
        StageRefusal: One points at a text that is not there; the detail names pattern and field.
    """
    name = pointers_in(draft.question, QUESTION_POINTERS)
    if name:
        raise StageRefusal(RejectionReason.NOT_SELF_CONTAINED, f"{name} in question")
    for criterion in draft.criteria:
        fields = tuple(_fields(criterion))
        # One look at all fields together: most criteria hold no hint of any pattern.
        hinted = _hinted("\n".join(text for _, text, _ in fields), CRITERION_POINTERS)
        for field, text, pointers in fields if hinted else ():
            name = _first(text, [pointer for pointer in hinted if pointer in pointers])
            if name:
                detail = f"{name} in criterion {criterion.id}: {field}"
                raise StageRefusal(RejectionReason.NOT_SELF_CONTAINED, detail)


def pointers_in(text: str, pointers: Sequence[Pointer]) -> str:
    """Return the name of the first pattern that points away from a text, or ""."""
    return _first(text, _hinted(text, pointers))


def _first(text: str, pointers: Sequence[Pointer]) -> str:
    if not pointers:
        return ""
    prose = _CODE_OR_FORMULA.sub("`", text) if "`" in text or "$" in text else text
    return next((pointer.name for pointer in pointers if pointer.points(prose)), "")


def _hinted(text: str, pointers: Sequence[Pointer]) -> list[Pointer]:
    words = _HINTS.intersection(_TOKEN.findall(text.lower()))
    if not words:
        return []
    return [pointer for pointer in pointers if not pointer.hints.isdisjoint(words)]


def _fields(criterion: CriterionDraft) -> Iterator[tuple[str, str, Sequence[Pointer]]]:
    yield "name", criterion.name, CRITERION_POINTERS
    yield "description", criterion.description, CRITERION_POINTERS
    yield "scoring_guide", criterion.scoring_guide, GUIDE_POINTERS
    for name in ("required_elements", "expected_keywords", "expected_concepts"):
        for text in getattr(criterion, name):
            if " " in text:  # it takes two words to point
                yield name, text, CRITERION_POINTERS
