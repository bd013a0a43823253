"""Passages of prose that are worth a question, and which of their sentences to ask about."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from rubric_core.rewriting import patterns
from rubric_judge.lexical.words import read_sentences
from rubric_synth.cleaning.markup import Section, sections
from rubric_synth.config import ExtractiveConfig
from rubric_synth.document import Document
from rubric_synth.extractive import phrases
from rubric_synth.extractive.criteria import Fact
from rubric_synth.extractive.figures import quantity
from rubric_synth.extractive.phrases import CorpusTerms
from rubric_synth.language import capital_first, content_words, sentences, stems, words
from rubric_synth.tables import read_table

_PATTERNS: Final = patterns(read_table("patterns")["claims"])
_CLAIM_WORDS: Final = range(9, 39)
_MIN_TERMS: Final = 4
_MOST_POINTS: Final = 4


class Passage(NamedTuple):
    """Part of a document under one heading."""

    subject: str
    """What it is about, as a phrase; "" where neither heading nor title says so."""
    context: str
    """The document's title, where it adds to the subject; "" otherwise."""
    paragraphs: tuple[str, ...]
    """Its prose."""

    @property
    def text(self) -> str:
        """The prose, blank lines between paragraphs."""
        return "\n\n".join(self.paragraphs)


def passages(document: Document, config: ExtractiveConfig, *, times: int = 1) -> list[Passage]:
    """Cut a document into passages of a usable length, in order.

    A section that is too short is joined with those that follow it; one that is too long is
    cut after the last paragraph that fits.

    Args:
        document: Prose.
        config: The shortest and longest passage, in words.
        times: Join sections up to so many times the shortest passage.
    """
    found: list[Passage] = []
    usable = [s for s in sections(document.text) if not phrases.SKIPPED_HEADING.search(s.heading)]
    for group in _groups(usable, times * config.min_passage_words):
        paragraphs = [p for s in group for p in s.paragraphs]
        totals = accumulate(len(words(paragraph)) for paragraph in paragraphs)
        paragraphs = paragraphs[: max(1, sum(t <= config.max_passage_words for t in totals))]
        if _count(paragraphs) >= config.min_passage_words:
            known = words("\n".join(paragraphs))
            proper = frozenset(known) - {word.capitalize() for word in known if word.islower()}
            title = _phrase(document.title, proper, 14)
            subject = _phrase(group[0].heading, proper, 9) or title
            shared = stems(subject) <= stems(title) or stems(title) <= stems(subject)
            context = "" if shared else title
            found.append(Passage(subject, context, tuple(paragraphs)))
    return found


def _groups(found: Sequence[Section], fewest: int) -> Iterator[list[Section]]:
    group: list[Section] = []
    for section in found:
        group.append(section)
        if sum(_count(s.paragraphs) for s in group) >= fewest:
            yield group
            group = []
    if group:
        yield group


def _count(paragraphs: Sequence[str]) -> int:
    return sum(len(words(paragraph)) for paragraph in paragraphs)


def _phrase(heading: str, proper: frozenset[str], most: int) -> str:
    """Return a heading as it would stand in a sentence, or "" where it names nothing."""
    plain = (
        _PATTERNS["part"]
        .sub("", _PATTERNS["numbering"].sub("", heading.strip()))
        .strip(" .:*#`\"'")
    )
    plain = re.sub(r"[`$\\]", "", plain)
    named = (word for word in words(plain) if word.lower() not in phrases.GENERIC_HEADINGS)
    if all(len(word) < 2 for word in named) or not phrases.is_phrase(plain):  # noqa: PLR2004 - a letter names nothing
        return ""
    shown = [_in_sentence(word, proper) for word in plain.split()]
    return " ".join(shown) if len(shown) <= most else ""


def _in_sentence(word: str, proper: frozenset[str]) -> str:
    bare = word.strip(",;:()'\"’")
    keeps = bare in proper or bare.removesuffix("'s").removesuffix("’s") in proper
    return word if keeps or not bare[1:].replace("-", "").islower() else word[0].lower() + word[1:]


def passage_claims(passage: Passage, title: str, terms: CorpusTerms) -> tuple[Fact, ...]:
    """Choose a central claim, up to four points that support it, evidence and a caveat.

    Args:
        passage: Where the claims stand.
        title: Title of the document, to recognise boilerplate.
        terms: Weights of words in the collection.

    Returns:
        The central one, then the others in the order of the text; none close to another.
    """
    taken = stems(passage.subject) | stems(passage.context)
    kinds = Counter[str]()
    found: list[tuple[int, Fact]] = []
    for sentence, place in _ranked(passage, title, terms):
        kind = _kind(sentence, kinds, has_figure=bool(quantity(sentence, terms)))
        if not kind or any(is_close(sentence, fact.sentence) for _, fact in found):
            continue
        if anchor := phrases.best_phrase(sentence, terms, without=taken):
            figure = quantity(sentence, terms) if kind == "evidence" else ""
            found.append((place, Fact(kind, sentence, anchor, figure=figure)))
            kinds[kind] += 1
            taken |= stems(anchor)
    return tuple(fact for _, fact in (*found[:1], *sorted(found[1:])))


def _kind(sentence: str, kinds: Mapping[str, int], *, has_figure: bool) -> str:
    """Return what a sentence would add: the central idea, a point, a caveat, a figure, or ""."""
    marked = not {word.lower() for word in words(sentence)}.isdisjoint(phrases.CAVEAT_MARKERS)
    if not kinds:
        return "" if marked else "central_idea"
    if marked and "limitation" not in kinds:
        return "limitation"
    if not marked and "evidence" not in kinds and has_figure:
        return "evidence"
    return "supporting_point" if kinds.get("supporting_point", 0) < _MOST_POINTS else ""


def _ranked(passage: Passage, title: str, terms: CorpusTerms) -> list[tuple[str, int]]:
    """Return claims with their places, those first that hold most of the passage's key terms."""
    claims = [
        sentence
        for paragraph in passage.paragraphs
        for raw in sentences(paragraph)
        if is_claim(
            sentence := capital_first(phrases.without_opening(phrases.CITATION.sub("", raw)))
        )
        and not terms.is_boilerplate(raw, title)
    ]
    key = stems(" ".join(terms.key_terms(passage.text, limit=25)))
    subject = stems(passage.subject)

    def score(place: int) -> float:
        own = stems(claims[place])
        central = len(own & key) / len(words(claims[place])) ** 0.5
        lead = 1.15 if place < 3 else 1.0  # noqa: PLR2004 - an opening is a few sentences
        return central * lead * (1.4 if own & subject else 1.0)

    return [(claims[place], place) for place in sorted(range(len(claims)), key=lambda p: -score(p))]


def is_claim(sentence: str) -> bool:
    """Tell whether a sentence claims something on its own."""
    return (
        len(words(sentence)) in _CLAIM_WORDS
        and sentence.endswith(".")
        and sentence[0].isupper()
        and not phrases.DEPENDENT.match(sentence)
        and not _lacks_subject(sentence)
        and not phrases.NOT_A_CLAIM.search(sentence)
        and not phrases.GLUED_HEADING.match(sentence)
        and len(content_words(sentence)) >= _MIN_TERMS
        and len(parts := read_sentences(sentence)) == 1
        and parts[0].well_formed
    )


def _lacks_subject(sentence: str) -> bool:
    """Tell whether a sentence begins with a verb, as after a formula that was removed."""
    first = sentence.partition(" ")[0].lower()
    return first.endswith("s") and bool(phrases.base_form(first, phrases.VERBS))


def is_close(one: str, other: str) -> bool:
    """Tell whether two sentences share more than half of the words of the shorter."""
    a, b = stems(one), stems(other)
    return 2 * len(a & b) > min(len(a), len(b))
