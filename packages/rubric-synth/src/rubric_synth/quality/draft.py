"""All checks of a draft that only read it, the cheapest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rubric_core import SchemaError
from rubric_synth.quality.leaks import check_leaks
from rubric_synth.quality.self_contained import check_self_contained
from rubric_synth.quality.structure import (
    check_analysis,
    check_repetition,
    check_structure,
)
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import StageRefusal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rubric_core import DocumentAnalysis, Task
    from rubric_synth.config import QualityConfig
    from rubric_synth.document import Document
    from rubric_synth.stages import Draft

_PUNCTUATION: Final = str.maketrans(dict.fromkeys(".,;:?!'\"`", " "))


def check_draft(
    document: Document, analysis: DocumentAnalysis, draft: Draft, config: QualityConfig
) -> Task:
    """Return the task of a draft that is sound in itself.

    Raises:
        StageRefusal: With the first reason found.
    """
    check_structure(draft, config)
    check_analysis(analysis)
    check_self_contained(draft)
    try:
        task = draft.to_task(document, analysis)
    except SchemaError as error:
        raise StageRefusal(RejectionReason.INVALID_SCHEMA, str(error)) from None
    check_repetition(task)
    check_leaks(task, config)
    return task


def check_unrepeated(draft: Draft, accepted: Iterable[str]) -> None:
    """Check that a document's draft does not ask what an accepted one of it asks.

    Args:
        draft: The draft.
        accepted: Questions of the same document that have passed every check.

    Raises:
        StageRefusal: The question is there already, but for case, spaces and punctuation.
    """
    key = _normalised(draft.question)
    if any(key == _normalised(question) for question in accepted):
        raise StageRefusal(RejectionReason.DUPLICATE_QUESTION, "of the same document")


def _normalised(question: str) -> str:
    # Signs such as + and - stay: they may be all that parts two questions.
    return " ".join(question.casefold().translate(_PUNCTUATION).split())
