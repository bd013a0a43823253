"""A question, a rubric and a reference answer about one API entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rubric_judge.lexical.sentences import read_sentences
from rubric_judge.lexical.words import stem
from rubric_synth.api_entry import parse_entry
from rubric_synth.extractive.api_facts import ApiFacts, api_facts
from rubric_synth.extractive.cues import CAVEAT_MARKERS
from rubric_synth.extractive.terms import spread_terms
from rubric_synth.extractive.wording import choose, listed, purpose_sentence
from rubric_synth.language import lower_first, stems
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import CriterionDraft, Draft, StageRefusal

if TYPE_CHECKING:
    from rubric_synth.config import ExtractiveConfig
    from rubric_synth.document import Document
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


_QUESTIONS: Final = (
    "Explain {object}: {aspects}.",
    "Describe {object}. Cover {aspects}.",
    "Give a short account of {object}: {aspects}.",
)


def api_draft(document: Document, terms: CorpusTerms, config: ExtractiveConfig) -> Draft:
    """Write the draft of one entry.

    Raises:
        StageRefusal: The document has no entry's layout, or says too little.
    """
    entry = parse_entry(document.text)
    if entry is None:
        raise StageRefusal(RejectionReason.NOT_AN_API_ENTRY)
    facts = api_facts(entry, terms)
    question = _question(facts, document.doc_hash)
    return Draft(
        question=question,
        passage=document.text,
        criteria=api_criteria(facts, terms, limit=config.key_terms, asked=stems(question)),
        question_rationale=_rationale(facts),
        reference_answer=_reference(facts),
    )


def _question(facts: ApiFacts, key: str) -> str:
    entry = facts.entry
    names = ", ".join(f"`{name}`" for name in facts.names)
    link = "of" if entry.form == "method" else "from"
    form = "" if entry.form == "function" else f"the {entry.form} "
    aspects = ["what it is for" if entry.form == "class" else "what it does", "its parameters"]
    if facts.returned:
        aspects.append("what it returns")
    if facts.caveat:
        aspects.append("its caveats")
    described = f"{form}`{entry.name}` {link} {entry.owner} with {names}"
    return choose(_QUESTIONS, key).format(object=described, aspects=listed(aspects))


def _rationale(facts: ApiFacts) -> str:
    entry = facts.entry
    return (
        f"Using {entry.name} well needs its purpose, the role of each of its "
        f"{len(entry.parameters)} parameters, its result and its limits to be related to each "
        "other, not only its name."
    )


def _reference(facts: ApiFacts) -> str:
    entry = facts.entry
    purpose = purpose_sentence(entry.name, entry.form, facts.summary, facts.proper)
    parts = [purpose, *_parameter_sentences(facts)]
    if facts.returned:
        parts.append(f"It returns {facts.returned}.")
    if facts.caveat:
        parts.append(f"Note that {lower_first(facts.caveat, facts.proper)}")
    return " ".join(part for part in parts if _reads_well(part))


def _parameter_sentences(facts: ApiFacts) -> list[str]:
    """Say what the described parameters are, and name the others."""
    names_by_phrase: dict[str, list[str]] = {}
    for item in facts.described:
        names_by_phrase.setdefault(item.phrase, []).append(f"`{item.name}`")
    described = [f"{listed(names)} ({phrase})" for phrase, names in names_by_phrase.items()]
    first = f"It takes {listed(described)}." if described else ""
    known = {item.name for item in facts.described} if _reads_well(first) else set[str]()
    others = [f"`{name}`" for name in facts.names if name not in known]
    plural = len(others) > 1
    if not known:
        return [f"It takes the parameter{'s' if plural else ''} {listed(others)}."]
    if not others:
        return [first]
    return [first, f"The other parameter{'s are' if plural else ' is'} {listed(others)}."]


def _reads_well(text: str) -> bool:
    return bool(text) and all(sentence.well_formed for sentence in read_sentences(text))
