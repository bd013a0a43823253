"""A question, a rubric and a reference answer about one API entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rubric_judge.lexical.sentences import read_sentences

from rubric_synth.api_entry import parse_entry
from rubric_synth.extractive.api_facts import ApiFacts, api_facts
from rubric_synth.extractive.api_rubric import api_criteria
from rubric_synth.extractive.wording import choose, listed, purpose_sentence
from rubric_synth.language import lower_first, stems
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import Draft, StageRefusal

if TYPE_CHECKING:
    from rubric_synth.config import ExtractiveConfig
    from rubric_synth.document import Document
    from rubric_synth.extractive.terms import CorpusTerms

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
        f"Using {entry.name} well needs its purpose, the role of each of its {len(entry.parameters)} "
        "parameters, its result and its limits to be related to each other, not only its name."
    )


def _reference(facts: ApiFacts) -> str:
    entry = facts.entry
    parts = [purpose_sentence(entry.name, entry.form, facts.summary)]
    described = [f"`{item.name}` ({item.phrase})" for item in facts.described]
    if described:
        parts.append(f"It takes {listed(described)}.")
    known = {item.name for item in facts.described}
    others = [f"`{name}`" for name in facts.names if name not in known]
    if others and described:
        plural = "s are" if len(others) > 1 else " is"
        parts.append(f"The other parameter{plural} {listed(others)}.")
    elif others:
        parts.append(f"It takes the parameter{'s' if len(others) > 1 else ''} {listed(others)}.")
    if facts.returned:
        parts.append(f"It returns {facts.returned}.")
    if facts.caveat:
        parts.append(f"Note that {lower_first(facts.caveat)}")
    return " ".join(part for part in parts if all(s.well_formed for s in read_sentences(part)))
