"""The criteria of a question about prose: one for each claim that the question asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rubric_synth.extractive.cues import CAVEAT_MARKERS
from rubric_synth.language import stems
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import CriterionDraft, StageRefusal

if TYPE_CHECKING:
    from rubric_synth.extractive.claims import Claim, Claims
    from rubric_synth.extractive.terms import CorpusTerms

_MIN_TERMS: Final = 2


def prose_criteria(
    claims: Claims, reference: str, terms: CorpusTerms, *, limit: int, asked: frozenset[str]
) -> tuple[CriterionDraft, ...]:
    """Return the criteria for the claims of a passage.

    Args:
        claims: What the passage says.
        reference: The reference answer, for terminology.
        terms: Weights of words in the collection.
        limit: Most expected keywords of a criterion.
        asked: Stems of the question: repeating it earns no keyword.

    Raises:
        StageRefusal: A claim has too few terms that the question does not give away.
    """

    def expected(claim: Claim, without: frozenset[str] = frozenset()) -> tuple[str, ...]:
        found = terms.key_terms(claim.sentence, limit=limit, without=asked | without)
        if len(found) < _MIN_TERMS:
            raise StageRefusal(RejectionReason.NO_QUESTION, f"{len(found)} key terms in a claim")
        return found

    criteria = [_central(expected(claims.central))]
    for number, claim in enumerate(claims.supports, start=1):
        criteria.append(_support(number, claim.anchor, expected(claim)))
    if claims.evidence is not None:
        criteria.append(_evidence(claims.evidence.anchor, claims.quantity))
    if claims.caveat is not None:
        markers = stems(" ".join(CAVEAT_MARKERS))
        criteria.append(_limitation(claims.caveat.anchor, expected(claims.caveat, markers)))
    used = asked | stems(" ".join(word for c in criteria for word in c.expected_keywords))
    terminology = terms.key_terms(reference, limit=limit, without=used)
    if terminology:
        criteria.append(_terminology(terminology))
    return (*criteria, _structure())


def _central(keywords: tuple[str, ...]) -> CriterionDraft:
    return CriterionDraft(
        id="central_idea",
        weight=3,
        name="States the central idea",
        description="The opening states the main idea of the subject.",
        scoring_guide="3 for all expected terms in the first two sentences; in proportion.",
        verification_method="Compare the opening with the main statement of the source.",
        expected_keywords=keywords,
    )


def _support(number: int, anchor: str, keywords: tuple[str, ...]) -> CriterionDraft:
    return CriterionDraft(
        id=f"supporting_point_{number}",
        weight=2,
        name=f"Explains {anchor}",
        description=f"The answer explains the part that {anchor} plays.",
        required_elements=(anchor,),
        scoring_guide=(
            "2 for a sentence that names the point and holds all expected terms, "
            "in proportion for some; naming it alone earns little."
        ),
        verification_method=f"Read the sentences that mention {anchor}.",
        expected_keywords=keywords,
    )


def _evidence(anchor: str, quantity: str) -> CriterionDraft:
    return CriterionDraft(
        id="evidence",
        weight=1,
        name="Gives a figure",
        description=f"The answer backs its account of {anchor} with the figure of the source.",
        required_elements=(quantity,),
        scoring_guide="1 for the right figure in a complete sentence; 0 otherwise.",
        verification_method="Compare the figure with the source.",
    )


def _limitation(anchor: str, keywords: tuple[str, ...]) -> CriterionDraft:
    return CriterionDraft(
        id="limitation",
        weight=2,
        name="States a limit or condition",
        description=f"The answer says what limits or conditions {anchor}.",
        scoring_guide=(
            "2 for a sentence that states the limit with all expected terms, in proportion for "
            "some; a word of caution alone earns nothing."
        ),
        verification_method="Read the sentences that state a limit or a condition.",
        expected_keywords=keywords,
    )


def _terminology(keywords: tuple[str, ...]) -> CriterionDraft:
    return CriterionDraft(
        id="terminology",
        weight=1,
        name="Uses the terms of the field",
        description="The answer uses further terms of the field in complete sentences.",
        scoring_guide="1 for all expected terms, in proportion for some.",
        verification_method="Look for the terms in complete sentences.",
        expected_keywords=keywords,
    )


def _structure() -> CriterionDraft:
    return CriterionDraft(
        id="structure",
        weight=1,
        name="Reads well",
        description="The answer is a few complete sentences and does not break off.",
        scoring_guide="1 for length and a complete last sentence; half for each.",
        verification_method="Count the sentences and read the last.",
    )
