"""Sentences of a passage that say something on their own, and which of them to ask about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from rubric_judge.lexical.sentences import read_sentences
from rubric_synth.extractive.cues import (
    CAVEAT_MARKERS,
    CITATION,
    CONNECTIVE,
    DEPENDENT,
    GLUED_HEADING,
    NOT_A_CLAIM,
    NOT_UNITS,
    VERBS,
)
from rubric_synth.extractive.phrases import best_phrase
from rubric_synth.extractive.wording import base_form
from rubric_synth.language import capital_first, content_words, sentences, stems, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_synth.extractive.passages import Passage
    from rubric_synth.extractive.terms import CorpusTerms

_MIN_WORDS: Final = 9
_MAX_WORDS: Final = 38
_MIN_TERMS: Final = 4
_SUPPORTS: Final = 3
_MIN_SUPPORTS: Final = 2
_LEAD_BONUS: Final = 1.15
_SUBJECT_BONUS: Final = 1.4
_OVERLAP: Final = 0.5
_QUANTITY = re.compile(
    r"(?<![\w.,-])(\d+(?:,\d{3})*(?:\.\d+)?)(?:\s?(%|°C|°F|[A-Za-zµμΩ]{1,3}|[a-z]{4,12}))?(?![\w/-])"
)


class Claim(NamedTuple):
    """A sentence with the phrase that asks for it."""

    sentence: str
    anchor: str
    """A phrase of the sentence that a question can name."""
    position: int
    """Where it stands in the passage."""


class Claims(NamedTuple):
    """What a passage says."""

    central: Claim
    supports: tuple[Claim, ...]
    evidence: Claim | None
    """A claim with a quantity; may be one of the supports."""
    quantity: str
    """The quantity, as written."""
    caveat: Claim | None
    """A claim that states a limit or a condition."""


def passage_claims(passage: Passage, title: str, terms: CorpusTerms) -> Claims | None:
    """Choose a central claim, two or three that support it, evidence and a caveat.

    Args:
        passage: Where the claims stand.
        title: Title of the document, to recognise boilerplate.
        terms: Weights of words in the collection.

    Returns:
        The claims, none close to another; None where there are fewer than three.
    """
    candidates = _candidates(passage, title, terms)
    subject = stems(passage.subject)
    scored = _scored(candidates, passage, subject, terms)
    chosen: list[Claim] = []
    taken = subject | stems(passage.context)
    caveat: Claim | None = None
    evidence: Claim | None = None
    for sentence, position in scored:
        if any(_close(sentence, claim.sentence) for claim in chosen):
            continue
        role = _role(
            sentence, len(chosen), has_caveat=caveat is not None, has_evidence=evidence is not None
        )
        anchor = best_phrase(sentence, terms, without=taken) if role else ""
        if not role or not anchor:
            continue
        claim = Claim(sentence, anchor, position)
        caveat = claim if role == "caveat" else caveat
        evidence = claim if role == "evidence" else evidence
        if role == "point":
            chosen.append(claim)
            taken |= stems(anchor)
    if len(chosen) <= _MIN_SUPPORTS:
        return None
    central, *supports = chosen
    return Claims(
        central=central,
        supports=tuple(sorted(supports, key=lambda claim: claim.position)),
        evidence=evidence,
        quantity=_quantity(evidence.sentence) if evidence else "",
        caveat=caveat,
    )


def _role(sentence: str, chosen: int, *, has_caveat: bool, has_evidence: bool) -> str:
    """Return what a sentence would add: a point, the one caveat, the one quantity, or ""."""
    marked = not {word.lower() for word in words(sentence)}.isdisjoint(CAVEAT_MARKERS)
    if chosen > 0 and marked and not has_caveat:
        return "caveat"
    if chosen > 0 and not marked and not has_evidence and _quantity(sentence):
        return "evidence"
    return "point" if chosen <= _SUPPORTS and not (chosen == 0 and marked) else ""


def _candidates(passage: Passage, title: str, terms: CorpusTerms) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for paragraph in passage.paragraphs:
        for raw in sentences(paragraph):
            sentence = capital_first(CONNECTIVE.sub("", CITATION.sub("", raw)))
            if _is_claim(sentence) and not terms.is_boilerplate(raw, title):
                found.append((sentence, len(found)))
    return found


def _is_claim(sentence: str) -> bool:
    return (
        _MIN_WORDS <= len(words(sentence)) <= _MAX_WORDS
        and sentence.endswith(".")
        and sentence[0].isupper()
        and not DEPENDENT.match(sentence)
        and not _lacks_subject(sentence)
        and not NOT_A_CLAIM.search(sentence)
        and not GLUED_HEADING.match(sentence)
        and len(content_words(sentence)) >= _MIN_TERMS
        and len(parts := read_sentences(sentence)) == 1
        and parts[0].well_formed
    )


def _lacks_subject(sentence: str) -> bool:
    """Tell whether a sentence begins with a verb, as after a formula that was removed."""
    first = sentence.partition(" ")[0].lower()
    return first.endswith("s") and bool(base_form(first, VERBS))


def _scored(
    candidates: Sequence[tuple[str, int]],
    passage: Passage,
    subject: frozenset[str],
    terms: CorpusTerms,
) -> list[tuple[str, int]]:
    """Order candidates by how many of the passage's key terms they hold, the best first."""
    key = stems(" ".join(terms.key_terms(passage.text, limit=25)))

    def score(item: tuple[str, int]) -> float:
        sentence, position = item
        own = stems(sentence)
        central = len(own & key) / len(words(sentence)) ** 0.5
        lead = _LEAD_BONUS if position < 3 else 1.0  # noqa: PLR2004 - an opening is a few sentences
        return central * lead * (_SUBJECT_BONUS if own & subject else 1.0)

    return sorted(candidates, key=lambda item: (-score(item), item[1]))


def _close(one: str, other: str) -> bool:
    a, b = stems(one), stems(other)
    return len(a & b) > _OVERLAP * min(len(a), len(b))


def _quantity(sentence: str) -> str:
    """Return the first number with a unit, or with decimals or thousands, as written; or ""."""
    for match in _QUANTITY.finditer(sentence):
        number, unit = match[1], match[2] or ""
        if unit and unit.lower() not in NOT_UNITS:
            return match[0].strip()
        if "." in number or "," in number:
            return number
    return ""
