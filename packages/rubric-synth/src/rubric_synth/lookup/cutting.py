"""Documents cut into sections of a bounded number of words, at headings, paragraphs, sentences."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from rubric_core import Section
from rubric_synth.document import Document

_HEADING = re.compile(r"#{1,6}[ \t]+(?P<name>.*?)[ \t#]*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9\"'(\[`$])")


class _Piece(NamedTuple):
    """A piece of text that is not cut any further."""

    heading: str
    """Heading that it stands under."""
    text: str
    opens: bool
    """Whether it is the first under its heading."""
    before: str
    """Text that joins it to the piece before, where both are in one section."""


def cut(document: Document, *, most_words: int) -> list[Section]:
    """Cut a document into sections, in its order, none of them twice.

    Args:
        document: Document whose text is Markdown.
        most_words: Largest number of words of a section, its heading left out.

    Returns:
        Sections of at most so many words. At a heading a new section begins if the one before has
        half as many or more; a heading with nothing below it is left out.
    """
    sections: list[Section] = []
    pieces: list[_Piece] = []
    count = 0
    for piece in _pieces(document.text, most_words):
        words = len(f"{piece.before}{piece.text}".split())
        is_full = count + words > most_words or (
            piece.opens and count >= most_words / 2
        )
        if pieces and is_full:
            sections.append(_section(document, pieces))
            pieces = []
            count = 0
        pieces.append(piece)
        count += words
    if pieces:
        sections.append(_section(document, pieces))
    return list(dict.fromkeys(sections))


def _section(document: Document, pieces: list[_Piece]) -> Section:
    """Join pieces into a section, under the document's title and the heading of the first."""
    title = document.title.strip()
    name = pieces[0].heading
    text = pieces[0].text
    for piece in pieces[1:]:
        text += f"{piece.before}{piece.text}"
    heading = title
    if name and name.casefold() != title.casefold():
        heading = f"{title}: {name}"
    return Section(doc_hash=document.doc_hash, heading=heading, text=text)


def _pieces(text: str, most_words: int) -> Iterator[_Piece]:
    """Yield the paragraphs of a text in pieces; a heading is in `before` of the first below it."""
    heading = ""
    opens = False
    is_first = True
    for block in re.split(r"\n\s*\n", text):
        for line_or_block in _blocks(block):
            if match := _HEADING.fullmatch(line_or_block.strip()):
                # At the top it is the document's title, which every section has anyway.
                heading = (
                    "" if is_first else " ".join(match["name"].replace("`", "").split())
                )
                opens = bool(heading)
                is_first = False
                continue
            is_first = False
            for number, part in enumerate(_parts(line_or_block, most_words)):
                if number:
                    before = " "
                elif opens:
                    before = f"\n\n{heading}\n"
                else:
                    before = "\n\n"
                yield _Piece(heading, part, opens and not number, before)
                opens = opens and bool(number)
            opens = False


def _blocks(block: str) -> Iterator[str]:
    """Yield a block, or the headings at its top and what is below them."""
    lines = block.strip("\n").split("\n")
    while lines and _HEADING.fullmatch(lines[0].strip()):
        yield lines.pop(0)
    if rest := "\n".join(lines).strip():
        yield rest


def _parts(text: str, most_words: int) -> Iterator[str]:
    """Yield a paragraph whole, or else by lines, by sentences, and at last by words."""
    if len(text.split()) <= most_words:
        yield text
        return
    for parts in (text.split("\n"), _SENTENCE_END.split(text)):
        if len(parts) > 1:
            for part in parts:
                yield from _parts(part, most_words)
            return
    words = text.split()
    for start in range(0, len(words), most_words):
        yield " ".join(words[start : start + most_words])
