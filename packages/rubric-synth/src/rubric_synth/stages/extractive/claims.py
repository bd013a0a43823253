"""Passages of prose that are worth a question."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from rubric_synth.config import ExtractiveConfig
from rubric_synth.document import Document
from rubric_synth.language import stems, words
from rubric_synth.sources.cleaning.markup import Section, sections
from rubric_synth.stages.extractive import phrases
from rubric_synth.tables import patterns

_PATTERNS = patterns("claims")


class Passage(NamedTuple):
    """Part of a document under one heading."""

    subject: str
    """Its topic as a phrase; "" where neither heading nor title names one."""
    context: str
    """The document's title, where it adds to the subject; "" otherwise."""
    paragraphs: tuple[str, ...]
    """Paragraphs of its prose."""
    homes: tuple[str, ...] = ()
    """The subject of the section of each paragraph; empty where all have the passage's own."""

    @property
    def text(self) -> str:
        """The prose, blank lines between paragraphs."""
        return "\n\n".join(self.paragraphs)


def passages(
    document: Document,
    config: ExtractiveConfig,
    *,
    times: int = 1,
) -> list[Passage]:
    """Cut a document into passages of a usable length, in order.

    A section that is too short is joined with those that follow it; one that is too long is
    cut after the last paragraph that fits.

    Args:
        document: Prose.
        config: The shortest and longest passage, in words.
        times: Join sections up to so many times the shortest passage.
    """
    usable = [
        section
        for section in sections(document.text)
        if not phrases.SKIPPED_HEADING.search(section.heading)
    ]
    cut: list[Passage] = []
    for group in _groups(usable, times * config.min_passage_words):
        paragraphs = _fitting_paragraphs(group, config.max_passage_words)
        if _count(paragraphs) >= config.min_passage_words:
            cut.append(_passage(document.title, group, paragraphs))
    return cut


def _fitting_paragraphs(group: Sequence[Section], most_words: int) -> list[str]:
    """Return the first paragraphs of sections that fit a passage, at least one."""
    paragraphs = [paragraph for section in group for paragraph in section.paragraphs]
    totals = accumulate(len(_words_of(paragraph)) for paragraph in paragraphs)
    fitting = sum(total <= most_words for total in totals)
    return paragraphs[: max(1, fitting)]


def _passage(
    title: str,
    group: Sequence[Section],
    paragraphs: list[str],
) -> Passage:
    known = {word for paragraph in paragraphs for word in _words_of(paragraph)}
    small = {word.capitalize() for word in known if word.islower()}
    proper = frozenset(known - small)
    title = _phrase(_PATTERNS["book"].sub("", title), proper, 14)
    subject = _phrase(group[0].heading, proper, 9) or title
    subject_stems = stems(subject)
    title_stems = stems(title)
    is_shared = subject_stems <= title_stems or title_stems <= subject_stems
    context = "" if is_shared else title
    homes: list[str] = []
    for section in group:
        home = _phrase(section.heading, proper, 9)
        homes += [home] * len(section.paragraphs)
    homes = homes[: len(paragraphs)]
    return Passage(subject, context, tuple(paragraphs), tuple(homes))


def _groups(usable: Sequence[Section], fewest: int) -> Iterator[list[Section]]:
    group: list[Section] = []
    count = 0
    for section in usable:
        group.append(section)
        count += _count(section.paragraphs)
        if count >= fewest:
            yield group
            group = []
            count = 0
    if group:
        yield group


def _count(paragraphs: Sequence[str]) -> int:
    return sum(len(_words_of(paragraph)) for paragraph in paragraphs)


@lru_cache(maxsize=1024)
def _words_of(paragraph: str) -> tuple[str, ...]:
    """Return the words of a paragraph, which are counted for each cut of its document."""
    return tuple(words(paragraph))


def _phrase(heading: str, proper: frozenset[str], most: int) -> str:
    """Return a heading as it would stand in a sentence, or "" where it names nothing."""
    heading = _PATTERNS["of_a_manual"].sub("", heading)
    plain = heading.strip()
    if _PATTERNS["letter_name"].match(plain) is None or plain[0] not in proper:
        plain = _PATTERNS["numbering"].sub("", plain)
    plain = _PATTERNS["part"].sub("", plain)
    plain = plain.strip(" .:*#`\"'")
    plain = re.sub(r"[`$\\]", "", plain)
    if not any(map(_tells_something, words(plain))):
        return ""
    if not phrases.is_phrase(plain):
        return ""
    phrase_words = [_in_sentence(word, proper) for word in plain.split()]
    if len(phrase_words) > most:
        return ""
    return " ".join(phrase_words)


def _tells_something(word: str) -> bool:
    """Tell whether a word of a heading names anything; a letter does not."""
    return len(word) > 1 and word.lower() not in phrases.GENERIC_HEADINGS


def _in_sentence(word: str, proper: frozenset[str]) -> str:
    bare = word.strip(",;:()'\"’")
    singular = bare.removesuffix("'s").removesuffix("’s")
    if bare in proper or singular in proper:
        return word
    rest = bare[1:].replace("-", "")
    if not rest.islower():
        return word
    return word[0].lower() + word[1:]
