"""Stage 3 without a model: executable verification patterns, terminology and concepts.

Each criterion id of the extractive synthesiser has its own pattern in the grammar of the lexical
judge, written as the first line of the verification method; the prose below it is for readers
and for language models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rubric_judge.lexical.words import FUNCTION_WORDS, stem
from rubric_synth.extractive.cues import CAVEAT_MARKERS
from rubric_synth.language import first_per_stem, stems

if TYPE_CHECKING:
    from rubric_core import DocumentAnalysis
    from rubric_synth.document import Document
    from rubric_synth.stages import CriterionDraft, Draft

_FIXED: Final = {
    "purpose_named": "sentences: first",
    "purpose_terms": "sentences: lead",
    "parameters_named": "sentences: any",
    "returns": "sentences: with(return|yield); skip_first; one; presence",
    "central_idea": "sentences: lead",
    "terminology": "sentences: any",
    "evidence": "sentences: any",
    "limitation": f"sentences: with({'|'.join(CAVEAT_MARKERS)}); skip_first; presence",
    "caveat": f"sentences: with({'|'.join(CAVEAT_MARKERS)}); skip_first; presence",
}
_SHORT_ANSWER: Final = 2
_USUAL_ANSWER: Final = 3
_LONG_ANSWER: Final = 7
_LONG_PROSE: Final = 10


class ExtractiveEnricher:
    """Stage 3 by rule."""

    async def enrich(self, document: Document, analysis: DocumentAnalysis, draft: Draft) -> Draft:  # noqa: ARG002 - the protocol's signature
        """Return the draft with a pattern, clean terminology and concepts for each criterion."""
        names = next(
            (c.required_elements for c in draft.criteria if c.id == "parameters_named"), ()
        )
        has_result = any(criterion.id == "returns" for criterion in draft.criteria)
        return draft.model_copy(
            update={
                "criteria": tuple(
                    _enriched(criterion, _pattern(criterion, names, has_result), analysis)
                    for criterion in draft.criteria
                )
            }
        )


def _pattern(criterion: CriterionDraft, names: tuple[str, ...], has_result: bool) -> str:  # noqa: FBT001 - private, one caller
    match criterion.id:
        case name if name.startswith("supporting_point"):
            return f"sentences: with({criterion.required_elements[0]})"
        case "parameters_described":
            return f"sentences: with({'|'.join(names)})"
        case "structure":
            return _structure(names, has_result)
        case _:
            return _FIXED.get(criterion.id, "")


def _structure(names: tuple[str, ...], has_result: bool) -> str:  # noqa: FBT001 - private, one caller
    if not names:
        return f"structure: count {_USUAL_ANSWER}..{_LONG_PROSE}; clean_end"
    fewest = _USUAL_ANSWER if has_result else _SHORT_ANSWER
    order = f"order({'|'.join(names)} -> return|yield); " if names and has_result else ""
    return f"structure: {order}count {fewest}..{_LONG_ANSWER}; clean_end"


def _enriched(
    criterion: CriterionDraft, pattern: str, analysis: DocumentAnalysis
) -> CriterionDraft:
    """Put the pattern first, drop keywords that repeat a required element, add one concept."""
    required = {stem(word) for word in criterion.required_elements}
    keywords = [w for w in first_per_stem(criterion.expected_keywords) if stem(w) not in required]
    prose = criterion.verification_method
    return criterion.model_copy(
        update={
            "verification_method": f"{pattern}\n{prose}" if pattern else prose,
            "expected_keywords": tuple(keywords),
            "expected_concepts": criterion.expected_concepts or _concept(keywords, analysis),
        }
    )


def _concept(keywords: list[str], analysis: DocumentAnalysis) -> tuple[str, ...]:
    """Return the first concept of the document whose words the criterion already expects."""
    expected = stems(" ".join(keywords))
    for concept in analysis.concepts:
        parts = stems(concept) - FUNCTION_WORDS
        if len(parts) > 1 and parts <= expected:
            return (concept,)
    return ()
