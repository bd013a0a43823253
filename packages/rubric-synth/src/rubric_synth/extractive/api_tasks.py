"""A question, a rubric and a reference answer about one API entry."""

from __future__ import annotations

from typing import Final

from rubric_judge.lexical.words import read_sentences, stem
from rubric_synth.config import ExtractiveConfig
from rubric_synth.document import Document, parse_entry
from rubric_synth.extractive.api_facts import ApiFacts, api_facts
from rubric_synth.extractive.criteria import new_criterion
from rubric_synth.extractive.phrases import CAVEAT_MARKERS, VERBS, base_form
from rubric_synth.extractive.terms import CorpusTerms, spread_terms
from rubric_synth.language import choose, listed, lower_first, stems
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import CriterionDraft, Draft, StageRefusal

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
    name, names = facts.entry.name, facts.names[:_MAX_REQUIRED_NAMES]
    criteria = [
        new_criterion("purpose_named", name=name),
        new_criterion("purpose_terms", purpose),
        new_criterion(
            "parameters_named",
            required=names,
            weight=1 + (len(names) > 1) + (len(names) >= _MANY_NAMES),
        ),
    ]
    phrases = list(facts.described.values())
    if keywords := spread_terms(terms, phrases, limit=limit, without=own):
        shown = ", ".join(facts.described)
        criteria.append(new_criterion("parameters_described", keywords, names=shown))
    if returned := terms.key_terms(facts.returned, limit=limit - 1, without=own):
        criteria.append(new_criterion("returns", returned))
    markers = stems(" ".join(CAVEAT_MARKERS))
    caveat = terms.key_terms(facts.caveat, limit=_CAVEAT_TERMS, without=own | markers)
    if len(caveat) >= _MIN_TERMS:
        criteria.append(new_criterion("caveat", caveat))
    last = "result" if returned else "parameters"
    return (*criteria, new_criterion("api_structure", name=name, last=last))


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
        question_rationale=(
            f"Using {entry.name} well needs its purpose, the role of each of its "
            f"{len(entry.parameters)} parameters, its result and its limits to be related to each "
            "other, not only its name."
        ),
        reference_answer=_reference(facts),
    )


def _question(facts: ApiFacts, key: str) -> str:
    entry = facts.entry
    names = ", ".join(f"`{name}`" for name in facts.names)
    link = "of" if entry.form == "method" else "from"
    form = "" if entry.form == "function" else f"the {entry.form} "
    aspects = ["what it is for" if entry.form == "class" else "what it does", "its parameters"]
    aspects += ["what it returns"] * bool(facts.returned) + ["its caveats"] * bool(facts.caveat)
    described = f"{form}`{entry.name}` {link} {entry.owner} with {names}"
    return choose(_QUESTIONS, key).format(object=described, aspects=listed(aspects))


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
    for name, phrase in facts.described.items():
        names_by_phrase.setdefault(phrase, []).append(f"`{name}`")
    described = [f"{listed(names)} ({phrase})" for phrase, names in names_by_phrase.items()]
    first = f"It takes {listed(described)}." if described else ""
    known = facts.described if _reads_well(first) else {}
    others = [f"`{name}`" for name in facts.names if name not in known]
    plural = len(others) > 1
    if not known:
        return [f"It takes the parameter{'s' if plural else ''} {listed(others)}."]
    rest = [f"The other parameter{'s are' if plural else ' is'} {listed(others)}."]
    return [first, *(rest if others else [])]


def _reads_well(text: str) -> bool:
    return bool(text) and all(sentence.well_formed for sentence in read_sentences(text))


_RETURN_VERBS: Final = frozenset({"return", "returns", "give", "gives", "yield", "yields"})
_NOUNS: Final = ("function", "routine", "class", "method", "object", "module")
_FRAMES: Final = frozenset(
    {"for", "if", "given", "when", "is", "are", "does", "as", "in", "like", "similar", "it"}
)


def purpose_sentence(name: str, form: str, summary: str, proper: frozenset[str]) -> str:
    """Say what an object is for, from the first sentence of its documentation.

    Args:
        name: Bare name of the object.
        form: Function, class or method.
        summary: The sentence, without its period.
        proper: Words that keep their capital.
    """
    plain = lower_first(summary, proper)
    head, _, rest = summary.partition(" ")
    first = head.lower()
    has_article = first in {"a", "an", "the"}
    if first in _RETURN_VERBS and rest:
        told = f"gives {rest}"
    elif verb := base_form(first.rstrip(","), VERBS):
        told = f"is used to {verb}{',' if head.endswith(',') else ''} {rest}"
    elif first == "this":
        noun, _, said = rest.partition(" ")
        told = said if said and noun.lower() in {form, *_NOUNS} else rest
    elif first in _FRAMES:
        told = f"does the following: {plain}"
    elif form == "class":
        told = f"is {'' if has_article else 'used as '}{plain}"
    else:
        told = f"gives {'' if has_article else 'the '}{plain}"
    return f"The {form} `{name}` {told}."
