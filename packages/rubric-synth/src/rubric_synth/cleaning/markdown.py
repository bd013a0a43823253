"""Markdown and plain text: cleaned without losing headings, and cut into sections of prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from rubric_core.judgement.evidence import composed
from rubric_core.rewriting import patterns, rewriting
from rubric_synth.tables import read_table

_PATTERNS: Final = patterns(read_table("patterns")["markdown"])
_LETTERS: Final = ("ff", "fi", "fl", "ffi", "ffl", "st", "st")


def normal_characters(text: str) -> str:
    """Return a text in NFC, with one kind of line end, without control characters.

    Soft hyphens, marks of byte order and of direction go too; a no-break space becomes a space.
    Of the marks on one letter, 30 are kept.
    """
    if "\x1b" in text:
        text = _PATTERNS["escape_sequence"].sub("", text)
    text = _PATTERNS["line_ends"].sub("\n", text)
    text = _PATTERNS["invisible"].sub("", text).replace("\u00a0", " ")
    return composed(text)


def without_ligatures(text: str) -> str:
    """Write the letters that a ligature of print stands for."""
    return _PATTERNS["ligature"].sub(lambda found: _LETTERS[ord(found[0]) - 0xFB00], text)


_MAX_COMMENT_CHARS: Final = 5_000
_MAX_HEADING_CHARS: Final = 1_000
_MAX_TITLE_CHARS: Final = 300
_MAX_PARAGRAPH_CHARS: Final = 20_000
_WITHOUT_MARKUP: Final = rewriting(read_table("markup")["markdown"])


class Section(NamedTuple):
    """A heading and the prose below it, one paragraph per entry."""

    heading: str
    paragraphs: tuple[str, ...]


def clean_markdown(text: str) -> str:
    """Normalise characters and drop front matter and comments."""
    text = _without_comments(_PATTERNS["front_matter"].sub("", normal_characters(text)))
    lines = (line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def document_title(text: str) -> str:
    """Return the first heading of a document, cut like any title, or ""."""
    return short_title(next((heading for heading, _ in _blocks(text) if heading), ""))


def short_title(title: str) -> str:
    """Return a title of a few hundred characters at most, cut at a word where there is one."""
    if len(title) <= _MAX_TITLE_CHARS:
        return title
    cut = title[: _MAX_TITLE_CHARS + 1]
    return (cut.rpartition(" ")[0] or cut[:-1]).rstrip()


@lru_cache(maxsize=64)
def sections(text: str) -> tuple[Section, ...]:
    """Cut a document at its headings; formulas on display, code, tables and lists are dropped.

    The text before the first heading is a section with an empty heading.
    """
    # Every stage looks at the sections of the documents in work: cut each document once.
    return tuple(
        Section(heading, paragraphs)
        for heading, lines in _blocks(_PATTERNS["display_math"].sub(" ", text))
        if (paragraphs := tuple(_paragraphs(lines)))
    )


def inline_text(text: str) -> str:
    """Remove links, images, emphasis and lost references from one run of text."""
    return " ".join(_WITHOUT_MARKUP(text).split())


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each heading with the lines below it, fenced code removed."""
    heading = fence = ""
    body: list[str] = []
    for line in text.split("\n"):
        mark = _PATTERNS["fence"].match(line)
        if mark is not None and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else mark[1]
            body.append("")
            continue
        if fence:
            continue
        title = _marked_heading(line)
        if title is None and _PATTERNS["underline"].match(line) and _underlined(body):
            title = body.pop()
        if title is None:
            body.append(_PATTERNS["heading_mark"].sub("", line))
        else:
            yield heading, body
            heading, body = inline_text(title), []
    yield heading, body


def _without_comments(text: str) -> str:
    """Drop the comments of HTML that end soon, each opening looked at once."""
    parts: list[str] = []
    copied = end = 0
    start = text.find("<!--")
    while start >= 0:
        if end < start + 4:
            end = text.find("-->", start + 4)
        if end < 0:
            break
        if end - start - 4 <= _MAX_COMMENT_CHARS:
            parts.append(text[copied:start])
            copied = start = end + 3
        else:
            start = end - _MAX_COMMENT_CHARS - 4
        start = text.find("<!--", start)
    return "".join([*parts, text[copied:]])


def _marked_heading(line: str) -> str | None:
    """Return what stands behind the marks of a heading; None for any other line, or prose."""
    if _PATTERNS["heading_mark"].match(line) is None:
        return None
    found = line.lstrip("#").strip().rstrip("#").rstrip()
    return found if len(found) <= _MAX_HEADING_CHARS else None


def _underlined(body: list[str]) -> bool:
    """Say whether an underline makes the last line a heading."""
    *before, last = body[-2:] or [""]
    is_alone = not "".join(before).strip()
    return bool(last.strip()) and len(last) <= _MAX_HEADING_CHARS and is_alone


def _paragraphs(lines: list[str]) -> Iterator[str]:
    """Yield paragraphs of running text; tables, lists and indented code are left out."""
    current: list[str] = []
    in_list = False
    for line in [*lines, ""]:
        bare = line.strip()
        is_bullet = _PATTERNS["bullet"].match(line) is not None
        is_code = not current and line.startswith(("    ", "\t"))
        is_table = bare.startswith(("|", "+--")) or bare.count(" | ") > 1
        if bare and not (is_code or in_list or is_table or is_bullet):
            current.append(bare.removeprefix("> "))
            continue
        in_list = bool(bare) and (in_list or is_bullet)
        paragraph = " ".join(current)
        if len(paragraph) <= _MAX_PARAGRAPH_CHARS and (text := inline_text(paragraph)):
            yield text
        current = []
