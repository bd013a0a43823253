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
