"""What an API entry says, as short phrases: purpose, parameters, result and caveat.

Rubric and reference answer are both built from these facts, so that they agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from rubric_judge.lexical.words import FUNCTION_WORDS, read_sentences
from rubric_synth.document import ApiEntry, ApiItem
from rubric_synth.extractive.phrases import (
    API_DEPENDENT,
    BARE_TYPES,
    CAVEAT_MARKERS,
    LEAD_IN,
    LOST_REFERENCE,
)
from rubric_synth.extractive.terms import CorpusTerms
from rubric_synth.language import (
    capital_first,
    clip_words,
    content_words,
    lower_first,
    proper_names,
    sentences,
    stems,
    words,
)
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import refuse

_MAX_NAMES: Final = 6
_MAX_DESCRIBED: Final = 3
_PURPOSE_WORDS: Final = 24
_PARAMETER_WORDS: Final = 12
_RETURN_WORDS: Final = 20
_MIN_CAVEAT_WORDS: Final = 7
_MAX_CAVEAT_WORDS: Final = 32
_MIN_CAVEAT_TERMS: Final = 3
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
    summary = _summary(entry)
    names = _names(entry)
    refuse(RejectionReason.NO_SUMMARY, when=not summary)
    documented = f"of {len(entry.parameters)} documented"
    refuse(RejectionReason.NO_PARAMETERS, documented, when=not names)
    by_name = {item.name: item for item in reversed(entry.parameters)}
    proper = proper_names(". ".join(entry.texts()))
    phrases = ((name, _parameter_phrase(by_name[name], proper)) for name in names)
    return ApiFacts(
        entry=entry,
        summary=summary,
        names=names,
        described=dict(islice((item for item in phrases if item[1]), _MAX_DESCRIBED)),
        returned=_returned(entry, proper),
        proper=proper,
        caveat=_caveat(entry, terms),
    )


def _summary(entry: ApiEntry) -> str:
    first = next(iter(sentences("".join(entry.summary[:1]))), "")
    return clip_words(first, _PURPOSE_WORDS)


def _names(entry: ApiEntry) -> tuple[str, ...]:
    """Return the parameters worth asking for: no stop words, not the object's own name."""
    unwanted = FUNCTION_WORDS | {entry.name.lower()}
    names = [item.name for item in entry.parameters if item.name.lower() not in unwanted]
    return tuple(names[:_MAX_NAMES])


def _parameter_phrase(item: ApiItem, proper: frozenset[str]) -> str:
    phrase = _phrase("".join(sentences(item.description)[:1]), _PARAMETER_WORDS, proper)
    if phrase.lower().startswith("deprecated") or not _says_more_than_a_type(phrase):
        phrase = _phrase(_kind(item), _PARAMETER_WORDS, proper)
    return phrase if _says_more_than_a_type(phrase) else ""


def _says_more_than_a_type(phrase: str) -> bool:
    return not BARE_TYPES.issuperset(map(str.lower, content_words(phrase)))


def _kind(item: ApiItem) -> str:
    """Return a documented type without shape, default and the word "optional"."""
    return _SHAPE.sub("", item.kind.split(", optional")[0].split(", default")[0])


def _returned(entry: ApiEntry, proper: frozenset[str]) -> str:
    """Return what the first result is, and the second too if both are short."""
    phrases = [_return_phrase(item, proper) for item in entry.returns[:2]]
    found = list(dict.fromkeys(phrase for phrase in phrases if phrase))
    if len(found) > 1 and len(" ".join(found).split()) <= _RETURN_WORDS:
        return " and ".join(found)
    return found[0] if found else ""


def _return_phrase(item: ApiItem, proper: frozenset[str]) -> str:
    for sentence in sentences(item.description)[:1]:
        plain = re.sub(r"^(?:returns?|returned)\s+", "", sentence, flags=re.IGNORECASE)
        phrase = _phrase(plain, _RETURN_WORDS, proper)
        if phrase and not phrase.lower().startswith(("if ", "when ", "this ", "see ", "contains ")):
            return phrase
    kind = _phrase(_kind(item) or item.name, _RETURN_WORDS, proper)
    return f"a result of type {kind}" if content_words(kind) and kind.lower() != "none" else ""


def _phrase(text: str, limit: int, proper: frozenset[str]) -> str:
    """Return the first clause as a phrase, or "" where it is code, a formula or says nothing."""
    clause = _FIRST_CLAUSE.match(" ".join(text.split()))
    plain = (clause[1] if clause else "").strip(" .,'\"")
    if plain.lower().startswith(("if ", "when ")) and ", " not in plain:
        return ""  # a condition without what follows from it
    unusable = _NOT_PROSE.search(plain) or plain.count('"') % 2
    if not plain or unusable or not stems(plain).isdisjoint(_POINTERS):
        return ""
    phrase = clip_words(plain, limit)
    return lower_first(phrase, proper) if content_words(phrase) else ""


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
        for raw in sentences(paragraph):
            sentence = LEAD_IN.sub("", re.sub(r"\s\([Ss]ee [^)]*\)", "", raw))
            if _is_caveat(sentence, marked=LEAD_IN.match(raw) is not None):
                yield raw, capital_first(sentence)
    for item in entry.raises:
        condition = item.description.split(". ")[0].rstrip(".")
        sentence = f"{item.name} is raised {lower_first(condition)}." if condition else ""
        if condition.lower().startswith(("if ", "when ")) and _is_caveat(sentence, marked=True):
            yield sentence, sentence


def _is_caveat(sentence: str, *, marked: bool) -> bool:
    plain = words(sentence)
    lowered = {word.lower() for word in plain}
    return (
        _MIN_CAVEAT_WORDS <= len(plain) <= _MAX_CAVEAT_WORDS
        and (marked or not lowered.isdisjoint(CAVEAT_MARKERS))
        and not _NOT_PROSE.search(sentence.rstrip("."))
        and sentence[0].isalnum()
        and not API_DEPENDENT.match(sentence)
        and not LOST_REFERENCE.search(sentence)
        and "array api" not in sentence.lower()
        and len(content_words(sentence)) >= _MIN_CAVEAT_TERMS
        and len(parts := read_sentences(sentence)) == 1
        and parts[0].well_formed
    )
