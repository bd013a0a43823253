"""The criteria of the extractive synthesiser, their executable patterns and their concepts.

Each criterion has its own pattern in the grammar of the lexical judge, written as the first line of
the verification method; the prose below it is for readers and for language models.
"""

from __future__ import annotations

from typing import Any, Final

from rubric_core import DocumentAnalysis
from rubric_judge.lexical.words import FUNCTION_WORDS, stem
from rubric_synth.extractive.phrases import CAVEAT_MARKERS
from rubric_synth.language import first_per_stem, stems
from rubric_synth.stages import CriterionDraft, Draft
from rubric_synth.tables import read_table

_SUPPORT: Final = "supporting_point"


def new_criterion(
    kind: str, keywords: tuple[str, ...] = (), *, required: tuple[str, ...] = (), **fields: object
) -> CriterionDraft:
    """Return a criterion as the table of criteria words it.

    Args:
        kind: Its name in the table.
        keywords: Terms of a good answer.
        required: What an answer must hold, where the table does not say it.
        fields: What the texts of the table leave open, and the weight where it does not say it.
    """
    row: dict[str, Any] = {
        "id": kind,
        "weight": fields.get("weight"),
        **read_table("criteria")[kind],
    }
    row.pop("pattern", None)
    told: dict[str, Any] = {
        name: x.format(**fields) if isinstance(x, str) else x for name, x in row.items()
    }
    if "required" in told:
        required = (told.pop("required"),)
    return CriterionDraft(**told, required_elements=required, expected_keywords=keywords)


def enriched(draft: Draft, analysis: DocumentAnalysis) -> Draft:
    """Return a draft with a pattern, clean terminology and concepts for each criterion."""
    names = next((c.required_elements for c in draft.criteria if c.id == "parameters_named"), ())
    has_result = any(criterion.id == "returns" for criterion in draft.criteria)
    criteria = tuple(
        _enriched(criterion, _pattern(criterion, names, has_result=has_result), analysis)
        for criterion in draft.criteria
    )
    return draft.model_copy(update={"criteria": criteria})


def _pattern(criterion: CriterionDraft, names: tuple[str, ...], *, has_result: bool) -> str:
    kind = _SUPPORT if criterion.id.startswith(_SUPPORT) else criterion.id
    if kind == "structure":
        kind = "api_structure" if names else "prose_structure"
    pattern: str = read_table("criteria").get(kind, {}).get("pattern", "")
    asked = "|".join(names)
    return pattern.format(
        names=asked,
        markers="|".join(CAVEAT_MARKERS),
        required="".join(criterion.required_elements[:1]),
        order=f"order({asked} -> return|yield); " if has_result else "",
        fewest=3 if has_result else 2,
    )


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
