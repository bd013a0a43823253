"""A question, a rubric and a reference answer about one API entry.

All are built from the same facts, so that they agree: purpose, parameters, result, details, caveat.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from rubric_core.rewriting import patterns
from rubric_judge.lexical.words import FUNCTION_WORDS, read_sentences
from rubric_synth import language, stages, tables
from rubric_synth.config import ExtractiveConfig
from rubric_synth.document import ApiEntry, ApiItem, Document, RejectionReason, parse_entry
from rubric_synth.extractive import phrases
from rubric_synth.extractive.claims import Passage, is_close, passage_claims
from rubric_synth.extractive.criteria import AND, TAKES, Fact, ask_for
from rubric_synth.extractive.phrases import CorpusTerms

_PARAMETER_WORDS: Final = 14
_RETURN_WORDS: Final = 14
_WORDING: Final = tables.read_table("wording")["api"]
_DETAILS: Final = frozenset({"central_idea", "supporting_point"})
_MOST_DETAILS: Final = 3
_MOST_FACTS: Final = 6
_FEW_WORDS: Final = 3
_MANY_CHOICES: Final = 7
_CAVEAT_WORDS: Final = range(7, 33)
_MIN_TERMS: Final = 2
_PATTERNS: Final = patterns(tables.read_table("patterns")["api"])
_POINTERS: Final = frozenset({"return", "follow", "above", "below"})


def api_facts(entry: ApiEntry, terms: CorpusTerms, details: Sequence[str]) -> list[Fact]:
    """Read the facts of an entry, in the order of a good answer.

    Args:
        entry: The entry.
        terms: Weights of words in the collection.
        details: Paragraphs with more that is worth asking about.

    Raises:
        StageRefusal: There is no summary sentence or no parameter to ask about.
    """
    first = next(iter(language.sentences("".join(entry.summary[:1]))), "")
    summary = language.clip_words(first, 20)
    unwanted = FUNCTION_WORDS | {entry.name.lower()}
    by_name = {i.name: i for i in entry.parameters if i.name.lower() not in unwanted}
    stages.refuse(RejectionReason.NO_SUMMARY, when=not summary)
    documented = f"of {len(entry.parameters)} documented"
    stages.refuse(RejectionReason.NO_PARAMETERS, documented, when=not by_name)
    proper = language.proper_names(". ".join(entry.texts()))
    purpose = purpose_sentence(entry.name, entry.form, summary, proper)
    facts = [Fact("purpose", purpose, own=summary)]
    named: defaultdict[str, list[str]] = defaultdict(list)
    for name, item in by_name.items():
        named[_parameter_phrase(item, proper)].append(name)
    for phrase, names in named.items():
        if phrase:
            shown = language.listed([f"`{name}`" for name in names])
            told = f"{TAKES}{shown} ({phrase})."
            facts.append(Fact("parameter", told, AND.join(names), phrase))
    for verb, returned in zip(("returns", "also returns"), _returned(entry, proper), strict=False):
        facts.append(Fact("returns", f"It {verb} {returned}.", own=returned))
    caveats = _caveats(entry, terms)
    passage = Passage(entry.name, entry.owner, tuple(details))
    more = [
        fact._replace(kind="supporting_point")
        for fact in passage_claims(passage, entry.qualified_name, terms)
        if fact.kind in _DETAILS
        and not any(is_close(fact.sentence, caveat) for caveat in caveats)
        and _is_prose(fact.sentence)
        and len(language.words(fact.sentence)) in _CAVEAT_WORDS
    ]
    facts += more[:_MOST_DETAILS]
    for caveat in caveats:
        told = f"Note that {language.lower_first(caveat, proper)}"
        facts.append(Fact("caveat", told, own=caveat))
    return [fact for fact in facts if _reads_well(fact.sentence)]


def _parameter_phrase(item: ApiItem, proper: frozenset[str]) -> str:
    """Say what a parameter is, in two clauses where the first is short, and its choices."""
    said = [
        _phrase(text, _PARAMETER_WORDS, proper) for text in language.sentences(item.description)[:2]
    ]
    first, *others = said or [""]
    if first.lower().startswith("deprecated") or not _says_more_than_a_type(first):
        first = _phrase(_kind(item), _PARAMETER_WORDS, proper)
    if not _says_more_than_a_type(first):
        return ""
    is_short = len(language.content_words(first)) < _FEW_WORDS
    second = [
        text
        for text in others
        if is_short and _says_more_than_a_type(text) and not phrases.API_DEPENDENT.match(text)
    ]
    choices = _PATTERNS["quoted"].findall(item.kind)
    one_of = [f"one of {language.listed(choices)}"] * (1 < len(choices) < _MANY_CHOICES)
    return "; ".join((first, *second, *one_of))


def _says_more_than_a_type(phrase: str) -> bool:
    return not phrases.BARE_TYPES.issuperset(map(str.lower, language.content_words(phrase)))


def _kind(item: ApiItem) -> str:
    """Return a documented type without shape, default and the word "optional"."""
    return _PATTERNS["shape"].sub("", item.kind.split(", optional")[0].split(", default")[0])


def _returned(entry: ApiEntry, proper: frozenset[str]) -> list[str]:
    """Return what the first results are, two at most."""
    told = (_return_phrase(item, proper) for item in entry.returns[:2])
    return list(dict.fromkeys(filter(None, told)))


def _return_phrase(item: ApiItem, proper: frozenset[str]) -> str:
    for sentence in language.sentences(item.description)[:1]:
        plain = re.sub(r"^(?:returns?|returned)\s+", "", sentence, flags=re.IGNORECASE)
        phrase = _phrase(plain, _RETURN_WORDS, proper)
        if phrase and not phrase.lower().startswith(("if ", "when ", "this ", "see ", "contains ")):
            return phrase
    kind = _phrase(_kind(item) or item.name, _RETURN_WORDS, proper)
    says_something = kind.lower() != "none" and _says_more_than_a_type(kind)
    return f"a result of type {kind}" if says_something else ""


def _phrase(text: str, limit: int, proper: frozenset[str]) -> str:
    """Return the first clause as a phrase, or "" where it is code, a formula or says nothing."""
    clause = _PATTERNS["first_clause"].match(_PATTERNS["inserted"].sub("", " ".join(text.split())))
    plain = (clause[1] if clause else "").strip(" .,'\"")
    if plain.lower().startswith(("if ", "when ")) and ", " not in plain:
        return ""  # a condition without what follows from it
    unusable = _PATTERNS["not_prose"].search(plain) or plain.count('"') % 2
    if not plain or unusable or not language.stems(plain).isdisjoint(_POINTERS):
        return ""
    phrase = language.clip_words(plain, limit)
    return language.lower_first(phrase, proper) if language.content_words(phrase) else ""


def _caveats(entry: ApiEntry, terms: CorpusTerms) -> list[str]:
    """Return the most telling sentences that state a limit and stand on their own."""
    candidates = (
        sentence
        for raw, sentence in _caveat_candidates(entry)
        if not terms.is_boilerplate(raw, entry.qualified_name)
    )
    chosen: list[str] = []
    for sentence in sorted(candidates, key=terms.weight, reverse=True):
        if not any(is_close(sentence, other) for other in chosen):
            chosen.append(sentence)
    return chosen[:_MOST_DETAILS]


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


def _is_prose(sentence: str) -> bool:
    return (
        not _PATTERNS["not_prose"].search(sentence.rstrip("."))
        and sentence[0].isalnum()
        and not phrases.API_DEPENDENT.match(sentence)
        and not phrases.LOST_REFERENCE.search(sentence)
        and "array api" not in sentence.lower()
    )


def _is_caveat(sentence: str, *, marked: bool) -> bool:
    plain = language.words(sentence)
    lowered = {word.lower() for word in plain}
    return (
        len(plain) in _CAVEAT_WORDS
        and (marked or not lowered.isdisjoint(phrases.CAVEAT_MARKERS))
        and _is_prose(sentence)
        and len(language.content_words(sentence)) > _MIN_TERMS
        and len(parts := read_sentences(sentence)) == 1
        and parts[0].well_formed
    )


def api_draft(
    document: Document, terms: CorpusTerms, config: ExtractiveConfig, *, notes_apart: bool = False
) -> stages.Draft:
    """Write the draft of one entry.

    Args:
        document: The entry.
        terms: Weights of words in the collection.
        config: How many keywords a criterion may have.
        notes_apart: Whether another question asks about the notes.

    Raises:
        StageRefusal: The document has no entry's layout, or says too little.
    """
    entry = parse_entry(document.text)
    if entry is None:
        raise stages.StageRefusal(RejectionReason.NOT_AN_API_ENTRY)
    details = (*entry.summary[1:], *(() if notes_apart else entry.notes))
    facts = api_facts(entry, terms, details)
    asked = ask_for(
        facts,
        lambda facts: _question(entry, facts, document.doc_hash),
        terms,
        limit=config.key_terms,
        most=_MOST_FACTS,
    )
    told = [fact for fact in facts if fact.kind == "purpose"]  # asked for or not
    told += [fact for fact in asked.facts if fact.kind != "purpose"]
    frames = iter((TAKES, *_WORDING["further_parameters"]))
    answer = (
        fact.sentence.replace(TAKES, next(frames)) if fact.kind == "parameter" else fact.sentence
        for fact in told
    )
    return stages.Draft(
        question=asked.question,
        passage=document.text,
        criteria=asked.criteria,
        question_rationale=_WORDING["rationale"].format(
            entry=entry, parameters=len(entry.parameters)
        ),
        reference_answer=" ".join(answer),
    )


def _question(entry: ApiEntry, facts: Sequence[Fact], key: str) -> str:
    kinds = {fact.kind for fact in facts}
    anchors = AND.join(fact.anchor for fact in facts if fact.kind == "parameter")
    names = ", ".join(f"`{name}`" for name in anchors.split(AND)) if anchors else ""
    points = [fact.anchor for fact in facts if fact.kind == "supporting_point"]
    link = "of" if entry.form == "method" else "from"
    form = "" if entry.form == "function" else f"the {entry.form} "
    purpose = "what it is for" if entry.form == "class" else "what it does"
    aspects = [purpose] * ("purpose" in kinds)
    aspects += ["its parameters"] * bool(names)
    aspects += ["what it returns"] * ("returns" in kinds)
    aspects += [f"the role of {language.listed(points)}"] * bool(points)
    aspects += ["its caveats"] * ("caveat" in kinds)
    described = f"{form}`{entry.name}` {link} {entry.owner}{' with ' * bool(names)}{names}"
    question = language.choose(_WORDING["questions"], key)
    return question.format(object=described, aspects=language.listed(aspects))


def _reads_well(text: str) -> bool:
    return bool(text) and all(sentence.well_formed for sentence in read_sentences(text))


_RETURN_VERBS: Final = frozenset({"return", "returns", "give", "gives", "yield", "yields"})
_NOUNS: Final = ("function", "routine", "class", "method", "object", "module")
_FRAMES: Final = tables.word_set("frames")


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
