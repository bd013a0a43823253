"""The criteria of a question about an API entry: five to seven, each checkable by program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rubric_judge.lexical.words import stem
from rubric_synth.extractive.cues import CAVEAT_MARKERS
from rubric_synth.extractive.terms import spread_terms
from rubric_synth.language import stems
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import CriterionDraft, StageRefusal

if TYPE_CHECKING:
    from rubric_synth.extractive.api_facts import ApiFacts
    from rubric_synth.extractive.terms import CorpusTerms

_MAX_REQUIRED_NAMES: Final = 5
_MIN_TERMS: Final = 2
_CAVEAT_TERMS: Final = 4
_MANY_NAMES: Final = 4


def api_criteria(
    facts: ApiFacts, terms: CorpusTerms, *, limit: int, asked: frozenset[str]
) -> tuple[CriterionDraft, ...]:
    """Return the criteria that the entry supports; what it does not say is not asked for.

    Args:
        facts: What the entry says.
        terms: Weights of words in the collection.
        limit: Most expected keywords of a criterion.
        asked: Stems of the question: repeating it earns no keyword.

    Raises:
        StageRefusal: The summary has too few terms of its own to ask for.
    """
    own = asked | {stem(facts.entry.name)} | {stem(item.name) for item in facts.entry.parameters}
    purpose = terms.key_terms(facts.summary, limit=limit, without=own)
    if len(purpose) < _MIN_TERMS:
        raise StageRefusal(RejectionReason.NO_SUMMARY, f"{len(purpose)} key terms")
    criteria = [_purpose_named(facts), _purpose_terms(purpose), _parameters_named(facts)]
    phrases = [item.phrase for item in facts.described]
    described = spread_terms(terms, phrases, limit=limit, without=own)
    if described:
        criteria.append(_parameters_described(facts, described))
    returned = terms.key_terms(facts.returned, limit=limit - 1, without=own)
    if returned:
        criteria.append(_returns(returned))
    caveat = terms.key_terms(
        facts.caveat, limit=_CAVEAT_TERMS, without=own | stems(" ".join(CAVEAT_MARKERS))
    )
    if len(caveat) >= _MIN_TERMS:
        criteria.append(_caveat(caveat))
    return (*criteria, _structure(facts, has_result=bool(returned)))


def _purpose_named(facts: ApiFacts) -> CriterionDraft:
    return CriterionDraft(
        id="purpose_named",
        weight=2,
        name="Names the subject",
        description="The answer opens by saying which object it is about.",
        required_elements=(facts.entry.name,),
        scoring_guide="2 if the first sentence names the object; 0 otherwise.",
        verification_method="Look for the name in the opening sentence.",
    )


def _purpose_terms(keywords: tuple[str, ...]) -> CriterionDraft:
    return CriterionDraft(
        id="purpose_terms",
        weight=3,
        name="States the purpose",
        description="The opening says what the object is for, in the terms of its field.",
        scoring_guide="3 for all expected terms in the first two sentences; in proportion.",
        verification_method="Compare the opening with the documented purpose.",
        expected_keywords=keywords,
    )


def _parameters_named(facts: ApiFacts) -> CriterionDraft:
    names = facts.names[:_MAX_REQUIRED_NAMES]
    weight = 1 + (len(names) > 1) + (len(names) >= _MANY_NAMES)
    return CriterionDraft(
        id="parameters_named",
        weight=weight,
        name="Names the parameters",
        description="The answer mentions the main parameters by name.",
        required_elements=names,
        scoring_guide=f"{weight} for every required name in proper sentences; in proportion.",
        verification_method="Look for each name in a complete sentence.",
    )


def _parameters_described(facts: ApiFacts, keywords: tuple[str, ...]) -> CriterionDraft:
    names = [item.name for item in facts.described]
    return CriterionDraft(
        id="parameters_described",
        weight=2,
        name="Explains the parameters",
        description="Sentences about parameters say what they hold or control.",
        scoring_guide="2 for all expected terms beside a parameter, in proportion for some.",
        verification_method=f"Read the sentences that mention {', '.join(names)}.",
        expected_keywords=keywords,
    )


def _returns(keywords: tuple[str, ...]) -> CriterionDraft:
    return CriterionDraft(
        id="returns",
        weight=3,
        name="Explains the result",
        description="One sentence says what comes back.",
        scoring_guide=(
            "3 for a sentence about the result with all expected terms, in proportion for some; "
            "saying only that something is returned earns nothing."
        ),
        verification_method="Read the sentence about the result.",
        expected_keywords=keywords,
    )


def _caveat(keywords: tuple[str, ...]) -> CriterionDraft:
    return CriterionDraft(
        id="caveat",
        weight=2,
        name="States a limit",
        description="The answer warns of a documented limit, condition or exception.",
        scoring_guide=(
            "2 for a warning with all expected terms, in proportion for some; "
            "a warning word alone earns nothing."
        ),
        verification_method="Read the sentences that state a limit or a condition.",
        expected_keywords=keywords,
    )


def _structure(facts: ApiFacts, *, has_result: bool) -> CriterionDraft:
    last = "result" if has_result else "parameters"
    return CriterionDraft(
        id="structure",
        weight=1,
        name="Reads well",
        description=f"A few complete sentences lead from the subject to its {last}.",
        scoring_guide="1 for order, length and a complete last sentence; a third for each.",
        verification_method=f"Follow the order from {facts.entry.name} to its {last}.",
    )
