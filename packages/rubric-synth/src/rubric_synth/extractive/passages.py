"""Passages of a prose document that are worth a question, and what each is about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from rubric_synth.cleaning import sections
from rubric_synth.extractive.cues import GENERIC_HEADINGS, SKIPPED_HEADING
from rubric_synth.language import stems, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rubric_synth.cleaning import Section
    from rubric_synth.config import ExtractiveConfig
    from rubric_synth.document import Document

_NUMBERING = re.compile(
    r"^(?:(?:chapter|section|part|appendix|lesson|unit|lab|step)\s+[\dA-Z]+\b[.:]?"
    r"|[\dA-Z]?\d*(?:\.\d+)*[.)]?)\s+",
    re.IGNORECASE,
)
_PART: Final = re.compile(r"\s*\((?:part\s*)?\d+(?:\s*(?:of|/)\s*\d+)?\)$", re.IGNORECASE)
_MAX_SUBJECT_WORDS: Final = 9
_MAX_CONTEXT_WORDS: Final = 14


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


def passages(document: Document, config: ExtractiveConfig) -> list[Passage]:
    """Cut a document into passages of a usable length, in order.

    A section that is too short is joined with those that follow it; one that is too long is
    cut after the last paragraph that fits.
    """
    found: list[Passage] = []
    usable = [s for s in sections(document.text) if not SKIPPED_HEADING.search(s.heading)]
    for group in _groups(usable, config.min_passage_words):
        paragraphs = _fitting([p for s in group for p in s.paragraphs], config.max_passage_words)
        if _count(paragraphs) >= config.min_passage_words:
            known = words("\n".join(paragraphs))
            proper = frozenset(known) - {word.capitalize() for word in known if word.islower()}
            title = _phrase(document.title, proper, _MAX_CONTEXT_WORDS)
            subject = _phrase(group[0].heading, proper, _MAX_SUBJECT_WORDS) or title
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


def _fitting(paragraphs: Sequence[str], most: int) -> list[str]:
    fitting: list[str] = []
    for paragraph in paragraphs:
        if fitting and _count([*fitting, paragraph]) > most:
            break
        fitting.append(paragraph)
    return fitting


def _count(paragraphs: Sequence[str]) -> int:
    return sum(len(words(paragraph)) for paragraph in paragraphs)


def _phrase(heading: str, proper: frozenset[str], most: int) -> str:
    """Return a heading as it would stand in a sentence, or "" where it names nothing."""
    plain = _PART.sub("", _NUMBERING.sub("", heading.strip())).strip(" .:*#`\"'")
    plain = re.sub(r"[`$\\]", "", plain)
    found = words(plain)
    if not found or all(word.lower() in GENERIC_HEADINGS or len(word) < 2 for word in found):  # noqa: PLR2004 - a letter names nothing
        return ""
    shown = [_in_sentence(word, proper) for word in plain.split()]
    return " ".join(shown) if len(shown) <= most else ""


def _in_sentence(word: str, proper: frozenset[str]) -> str:
    bare = word.strip(",;:()'\"’")
    keeps = bare in proper or bare.removesuffix("'s").removesuffix("’s") in proper
    return word if keeps or not bare[1:].replace("-", "").islower() else word[0].lower() + word[1:]
