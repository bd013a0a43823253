"""All checks of a draft that only read it, the cheapest first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rubric_core import SchemaError, leaked_ngrams
from rubric_synth.quality.pointers import (
    CRITERION_POINTERS,
    GUIDE_POINTERS,
    QUESTION_POINTERS,
    Pointer,
)
from rubric_synth.quality.structure import (
    check_analysis,
    check_repetition,
    check_structure,
)
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import StageRefusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rubric_core import DocumentAnalysis, Task
    from rubric_synth.config import QualityConfig
    from rubric_synth.document import Document
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


_WORD: Final = re.compile(r"\w+")
_SENTENCE: Final = re.compile(r"[.!?]\s+|\n")
_FEWEST_WORDS: Final = 3
"""A shorter answer, "Yes" or a name, may well be part of the question."""


def check_leaks(task: Task, config: QualityConfig) -> None:
    """Check that the question shares no long run of words with what only the judge may see.

    Raises:
        StageRefusal: It does, or it holds a sentence of the reference answer or all of it.
    """
    leaks = sum(leaked.count for leaked in leaked_ngrams(task, n=config.leak_words))
    if leaks:
        detail = f"{leaks} runs of as many words as {config.limit('leak_words')}"
        raise StageRefusal(RejectionReason.LEAK, detail)
    answer = task.reference_answer or ""
    if _tells(task.question, answer, config.leak_words):
        raise StageRefusal(RejectionReason.LEAK, "the reference answer in the question")


def _tells(question: str, answer: str, fewest_words: int) -> bool:
    """Whether a question holds an answer, or a sentence of it that is no mere phrase."""
    asked = _plain(_words(question))
    told = [_words(sentence) for sentence in _SENTENCE.split(answer)]
    whole = _plain(word for words in told for word in words)
    if whole in asked and whole.count(" ") > _FEWEST_WORDS:
        return True
    return any(len(words) >= fewest_words and _plain(words) in asked for words in told)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _plain(words: Iterable[str]) -> str:
    return f" {' '.join(words)} "


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
