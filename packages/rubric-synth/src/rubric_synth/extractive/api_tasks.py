"""A question, a rubric and a reference answer about one API entry.

All are built from the same facts, so that they agree: purpose, parameters, result and caveat.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from rubric_judge.lexical.words import FUNCTION_WORDS, read_sentences, stem
from rubric_synth import language
from rubric_synth.config import ExtractiveConfig
from rubric_synth.document import ApiEntry, ApiItem, Document, parse_entry
from rubric_synth.extractive import phrases
from rubric_synth.extractive.criteria import new_criterion
from rubric_synth.extractive.terms import CorpusTerms, spread_terms
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import CriterionDraft, Draft, StageRefusal, refuse

_PARAMETER_WORDS: Final = 12
_RETURN_WORDS: Final = 20
_CAVEAT_WORDS: Final = range(7, 33)
_MIN_TERMS: Final = 2
_NOT_PROSE = re.compile(r"[={}<>\\_^|$\[\]/]|\w\(|\.\w|\d\.\d|:\s*$")
_FIRST_CLAUSE = re.compile(
    r"^(.*?)(?:;|[:.]\s|\s\(|\s-{1,2}\s|,\s(?=(?:if|which|where|or|default|optional|see)\b)|$)"
)
_POINTERS: Final = frozenset({"return", "follow", "above", "below"})
_SHAPE = re.compile(r"^\([^)]*\)\s*")


class ApiFacts(NamedTuple):
    """The facts of one entry."""

    entry: ApiEntry
    summary: str
    """First sentence of the summary."""
    names: tuple[str, ...]
    """Up to six parameters, in order."""
    described: dict[str, str]
    """Up to three of them, and of each a phrase that says what it is."""
    returned: str
    """What comes back, as a noun phrase; "" where the entry has no result."""
    proper: frozenset[str]
    """Words that keep their capital."""
    caveat: str
    """One sentence with a real limit or warning; "" where there is none."""


def api_facts(entry: ApiEntry, terms: CorpusTerms) -> ApiFacts:
    """Read the facts of an entry.

    Raises:
        StageRefusal: There is no summary sentence or no parameter to ask about.
    """
    first = next(iter(language.sentences("".join(entry.summary[:1]))), "")
    summary = language.clip_words(first, 24)
    unwanted = FUNCTION_WORDS | {entry.name.lower()}
    names = [item.name for item in entry.parameters if item.name.lower() not in unwanted][:6]
    refuse(RejectionReason.NO_SUMMARY, when=not summary)
    documented = f"of {len(entry.parameters)} documented"
    refuse(RejectionReason.NO_PARAMETERS, documented, when=not names)
    by_name = {item.name: item for item in reversed(entry.parameters)}
    proper = language.proper_names(". ".join(entry.texts()))
    told = ((name, _parameter_phrase(by_name[name], proper)) for name in names)
    return ApiFacts(
        entry=entry,
        summary=summary,
        names=tuple(names),
        described=dict(islice((item for item in told if item[1]), 3)),
        returned=_returned(entry, proper),
        proper=proper,
        caveat=_caveat(entry, terms),
    )


def _parameter_phrase(item: ApiItem, proper: frozenset[str]) -> str:
    phrase = _phrase("".join(language.sentences(item.description)[:1]), _PARAMETER_WORDS, proper)
    if phrase.lower().startswith("deprecated") or not _says_more_than_a_type(phrase):
        phrase = _phrase(_kind(item), _PARAMETER_WORDS, proper)
    return phrase if _says_more_than_a_type(phrase) else ""


def _says_more_than_a_type(phrase: str) -> bool:
    return not phrases.BARE_TYPES.issuperset(map(str.lower, language.content_words(phrase)))


def _kind(item: ApiItem) -> str:
    """Return a documented type without shape, default and the word "optional"."""
    return _SHAPE.sub("", item.kind.split(", optional")[0].split(", default")[0])


def _returned(entry: ApiEntry, proper: frozenset[str]) -> str:
    """Return what the first result is, and the second too if both are short."""
    told = (_return_phrase(item, proper) for item in entry.returns[:2])
    found = list(dict.fromkeys(filter(None, told)))
    if len(found) > 1 and len(" ".join(found).split()) <= _RETURN_WORDS:
        return " and ".join(found)
    return found[0] if found else ""


def _return_phrase(item: ApiItem, proper: frozenset[str]) -> str:
    for sentence in language.sentences(item.description)[:1]:
        plain = re.sub(r"^(?:returns?|returned)\s+", "", sentence, flags=re.IGNORECASE)
        phrase = _phrase(plain, _RETURN_WORDS, proper)
        if phrase and not phrase.lower().startswith(("if ", "when ", "this ", "see ", "contains ")):
            return phrase
    kind = _phrase(_kind(item) or item.name, _RETURN_WORDS, proper)
    says_something = language.content_words(kind) and kind.lower() != "none"
    return f"a result of type {kind}" if says_something else ""


def _phrase(text: str, limit: int, proper: frozenset[str]) -> str:
    """Return the first clause as a phrase, or "" where it is code, a formula or says nothing."""
    clause = _FIRST_CLAUSE.match(" ".join(text.split()))
    plain = (clause[1] if clause else "").strip(" .,'\"")
    if plain.lower().startswith(("if ", "when ")) and ", " not in plain:
        return ""  # a condition without what follows from it
    unusable = _NOT_PROSE.search(plain) or plain.count('"') % 2
    if not plain or unusable or not language.stems(plain).isdisjoint(_POINTERS):
        return ""
    phrase = language.clip_words(plain, limit)
    return language.lower_first(phrase, proper) if language.content_words(phrase) else ""


def _caveat(entry: ApiEntry, terms: CorpusTerms) -> str:
    """Return the most telling sentence that states a limit and stands on its own."""
    telling = (
        sentence
        for raw, sentence in _caveat_candidates(entry)
        if not terms.is_boilerplate(raw, entry.qualified_name)
    )
    return max(telling, key=terms.weight, default="")


def _caveat_candidates(entry: ApiEntry) -> Iterator[tuple[str, str]]:
    """Yield sentences as they stand and as a caveat would say them."""
    for paragraph in (*entry.notes, *entry.summary[1:]):
        for raw in language.sentences(paragraph):
            sentence = phrases.LEAD_IN.sub("", re.sub(r"\s\([Ss]ee [^)]*\)", "", raw))
            if _is_caveat(sentence, marked=phrases.LEAD_IN.match(raw) is not None):
                yield raw, language.capital_first(sentence)
    for item in entry.raises:
        condition = item.description.split(". ")[0].rstrip(".")
        sentence = f"{item.name} is raised {language.lower_first(condition)}." if condition else ""
        if condition.lower().startswith(("if ", "when ")) and _is_caveat(sentence, marked=True):
            yield sentence, sentence


def _is_caveat(sentence: str, *, marked: bool) -> bool:
    plain = language.words(sentence)
    lowered = {word.lower() for word in plain}
    return (
        len(plain) in _CAVEAT_WORDS
        and (marked or not lowered.isdisjoint(phrases.CAVEAT_MARKERS))
        and not _NOT_PROSE.search(sentence.rstrip("."))
        and sentence[0].isalnum()
        and not phrases.API_DEPENDENT.match(sentence)
        and not phrases.LOST_REFERENCE.search(sentence)
        and "array api" not in sentence.lower()
        and len(language.content_words(sentence)) > _MIN_TERMS
        and len(parts := read_sentences(sentence)) == 1
        and parts[0].well_formed
    )


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
    name, names = facts.entry.name, facts.names[:5]
    weight = (1, 1, 2, 2, 3, 3)[len(names)]
    criteria = [
        new_criterion("purpose_named", name=name),
        new_criterion("purpose_terms", purpose),
        new_criterion("parameters_named", required=names, weight=weight),
    ]
    told = list(facts.described.values())
    if keywords := spread_terms(terms, told, limit=limit, without=own):
        shown = ", ".join(facts.described)
        criteria.append(new_criterion("parameters_described", keywords, names=shown))
    if returned := terms.key_terms(facts.returned, limit=limit - 1, without=own):
        criteria.append(new_criterion("returns", returned))
    markers = language.stems(" ".join(phrases.CAVEAT_MARKERS))
    caveat = terms.key_terms(facts.caveat, limit=4, without=own | markers)
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
        criteria=api_criteria(facts, terms, limit=config.key_terms, asked=language.stems(question)),
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
    return language.choose(_QUESTIONS, key).format(
        object=described, aspects=language.listed(aspects)
    )


def _reference(facts: ApiFacts) -> str:
    entry = facts.entry
    purpose = purpose_sentence(entry.name, entry.form, facts.summary, facts.proper)
    parts = [purpose, *_parameter_sentences(facts)]
    if facts.returned:
        parts.append(f"It returns {facts.returned}.")
    if facts.caveat:
        parts.append(f"Note that {language.lower_first(facts.caveat, facts.proper)}")
    return " ".join(part for part in parts if _reads_well(part))


def _parameter_sentences(facts: ApiFacts) -> list[str]:
    """Say what the described parameters are, and name the others."""
    names_by_phrase: dict[str, list[str]] = {}
    for name, phrase in facts.described.items():
        names_by_phrase.setdefault(phrase, []).append(f"`{name}`")
    described = [
        f"{language.listed(names)} ({phrase})" for phrase, names in names_by_phrase.items()
    ]
    first = f"It takes {language.listed(described)}." if described else ""
    known = facts.described if _reads_well(first) else {}
    others = [f"`{name}`" for name in facts.names if name not in known]
    plural = len(others) > 1
    if not known:
        return [f"It takes the parameter{'s' if plural else ''} {language.listed(others)}."]
    rest = [f"The other parameter{'s are' if plural else ' is'} {language.listed(others)}."]
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
    plain = language.lower_first(summary, proper)
    head, _, rest = summary.partition(" ")
    first = head.lower()
    has_article = first in {"a", "an", "the"}
    if first in _RETURN_VERBS and rest:
        told = f"gives {rest}"
    elif verb := phrases.base_form(first.rstrip(","), phrases.VERBS):
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
