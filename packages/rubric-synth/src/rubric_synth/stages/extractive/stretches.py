"""Stretches of a long document, such as the chapters of a book."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from rubric_synth.document import Document
from rubric_synth.tables import patterns

LONG = 16_000
"""Words of the longest document that is read as one; others are cut into stretches of as many."""
_SHORTEST = 0.25
"""Share of a stretch that stays with the one before it, at the end of a document."""
_FENCE = patterns("markdown")["fence"]
_HEADING = re.compile(r"#{1,6} +\S")
_CHAPTER = re.compile(
    r"#{1,6} +(?:(?:chapter|part|appendix)\b|\d{1,2}\.? +[^\W\d_])|# +\S", re.IGNORECASE
)
"""A heading of a chapter: "Chapter 2", "2 Installation", no "2.1 On Unix"."""


class _Block(NamedTuple):
    """Lines from a heading, or from a blank line, to the next one."""

    start: int
    words: int
    first_line: str


def stretches(document: Document) -> list[Document]:
    """Cut a long document into stretches; any other is one stretch.

    A stretch ends before a heading, a chapter's where one is near; without any for long, it ends
    between two paragraphs. All have the document's title and source.

    Args:
        document: Prose.
    """
    text = document.text
    if len(text.split()) <= LONG:
        return [document]
    places = [*_starts(text), len(text)]
    return [
        Document(title=document.title, text=text[start:end], source=document.source)
        for start, end in pairwise(places)
    ]


def _starts(text: str) -> list[int]:
    """Return the places where stretches begin."""
    starts = [0]
    count = 0
    for block in _blocks(text):
        enough = 2 * LONG
        if _CHAPTER.match(block.first_line):
            enough = LONG // 2
        elif _HEADING.match(block.first_line):
            enough = LONG
        if count >= enough:
            starts.append(block.start)
            count = 0
        count += block.words
    if count < _SHORTEST * LONG:
        starts.pop()
    return starts


def _blocks(text: str) -> Iterator[_Block]:
    """Yield the blocks of a text; fenced code is never parted."""
    lines: list[str] = []
    start = 0
    place = 0
    fence = ""
    for line in text.splitlines(keepends=True):
        is_start = bool(lines) and not lines[-1].strip()
        if not fence and (is_start or _HEADING.match(line)):
            yield _block(start, lines)
            lines = []
            start = place
        mark = _FENCE.match(line)
        if mark is not None and line.strip().startswith(fence):
            fence = "" if fence else mark[1]
        lines.append(line)
        place += len(line)
    yield _block(start, lines)


def _block(start: int, lines: list[str]) -> _Block:
    words = sum(len(line.split()) for line in lines)
    return _Block(start, words, lines[0] if lines else "")
