"""Passages of prose that are worth a question."""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from rubric_core.rewriting import patterns
from rubric_synth.cleaning.markup import Section, sections
from rubric_synth.config import ExtractiveConfig
from rubric_synth.document import Document
from rubric_synth.extractive import phrases
from rubric_synth.language import stems, words
from rubric_synth.tables import read_table

_PATTERNS: Final = patterns(read_table("patterns")["claims"])


class Passage(NamedTuple):
    """Part of a document under one heading."""

    subject: str
    """What it is about, as a phrase; "" where neither heading nor title says so."""
    context: str
    """The document's title, where it adds to the subject; "" otherwise."""
    paragraphs: tuple[str, ...]
    """Its prose."""
    homes: tuple[str, ...] = ()
    """The subject of the section of each paragraph; empty where all have the passage's own."""

    @property
    def text(self) -> str:
        """The prose, blank lines between paragraphs."""
        return "\n\n".join(self.paragraphs)


def passages(
    document: Document, config: ExtractiveConfig, *, times: int = 1
) -> list[Passage]:
    """Cut a document into passages of a usable length, in order.

    A section that is too short is joined with those that follow it; one that is too long is
    cut after the last paragraph that fits.

    Args:
        document: Prose.
        config: The shortest and longest passage, in words.
        times: Join sections up to so many times the shortest passage.
    """
    found: list[Passage] = []
    usable = [
        s
        for s in sections(document.text)
        if not phrases.SKIPPED_HEADING.search(s.heading)
    ]
    for group in _groups(usable, times * config.min_passage_words):
        headings = [s.heading for s in group for _ in s.paragraphs]
        paragraphs = [p for s in group for p in s.paragraphs]
        totals = accumulate(len(words(paragraph)) for paragraph in paragraphs)
        paragraphs = paragraphs[
            : max(1, sum(t <= config.max_passage_words for t in totals))
        ]
        if _count(paragraphs) >= config.min_passage_words:
            known = words("\n".join(paragraphs))
            proper = frozenset(known) - {
                word.capitalize() for word in known if word.islower()
            }
            title = _phrase(document.title, proper, 14)
            subject = _phrase(group[0].heading, proper, 9) or title
            shared = stems(subject) <= stems(title) or stems(title) <= stems(subject)
            context = "" if shared else title
            named = {
                heading: _phrase(heading, proper, 9)
                for heading in dict.fromkeys(headings)
            }
            homes = tuple(named[heading] for heading in headings[: len(paragraphs)])
            found.append(Passage(subject, context, tuple(paragraphs), homes))
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
    heading = _PATTERNS["of_a_manual"].sub("", heading)
    plain = (
        _PATTERNS["part"]
        .sub("", _PATTERNS["numbering"].sub("", heading.strip()))
        .strip(" .:*#`\"'")
    )
    plain = re.sub(r"[`$\\]", "", plain)
    named = (
        word for word in words(plain) if word.lower() not in phrases.GENERIC_HEADINGS
    )
    if all(len(word) < 2 for word in named) or not phrases.is_phrase(plain):  # noqa: PLR2004 - a letter names nothing
        return ""
    shown = [_in_sentence(word, proper) for word in plain.split()]
    return " ".join(shown) if len(shown) <= most else ""


def _in_sentence(word: str, proper: frozenset[str]) -> str:
    bare = word.strip(",;:()'\"’")
    keeps = bare in proper or bare.removesuffix("'s").removesuffix("’s") in proper
    return (
        word
        if keeps or not bare[1:].replace("-", "").islower()
        else word[0].lower() + word[1:]
    )
