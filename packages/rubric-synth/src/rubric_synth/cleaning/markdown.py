"""Markdown and plain text: cleaned without losing headings, and cut into sections of prose."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from rubric_synth.cleaning.characters import normal_characters

if TYPE_CHECKING:
    from collections.abc import Iterator

_FRONT_MATTER = re.compile(r"\A---\n.*?\n(?:---|\.\.\.)\n", re.DOTALL)
_MAX_COMMENT_CHARS: Final = 5_000
_HEADING_MARK = re.compile(r"^#{1,6}(?=\s)")
_MAX_HEADING_CHARS: Final = 1_000
_MAX_TITLE_CHARS: Final = 300
_UNDERLINE = re.compile(r"^(=+|-{3,})\s*$")
_FENCE = re.compile(r"^\s*(```+|~~~+)")
_MAX_PARAGRAPH_CHARS: Final = 20_000
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+")
# Bounded, so that a text full of openings without ends costs no more than its length.
_DISPLAY_MATH = re.compile(
    r"\$\$.{0,3000}?\$\$|\\\[.{0,3000}?\\\]|\\begin\{(\w+\*?)\}.{0,3000}?\\end\{\1\}", re.DOTALL
)
_INLINE: Final = (
    (re.compile(r"!\[[^\]]{0,2000}\]\([^)]*\)"), ""),
    (re.compile(r"\[([^\]]{1,2000})\]\([^)\s]{0,2000}(?:\s\"[^\"]{0,2000}\")?\)"), r"\1"),
    (re.compile(r"\[([^\]]{1,2000})\]\[[^\]]{0,2000}\]"), r"\1"),
    (re.compile(r"(?:(?<!\s)\s+)?\[(?:ref|\^?\d+(?:[,–-]\s*\d+)*)\]"), ""),
    (re.compile(r"</?[A-Za-z][^>\n]{0,200}>"), ""),
    (re.compile(r"(?<!\w)(\*\*|__)(?=\S)(.+?)(?<=\S)\1(?!\w)"), r"\2"),
    (re.compile(r"(?<![\w*])\*(?=[^\s*])([^*\n]+?)(?<=[^\s*])\*(?![\w*])"), r"\1"),
    (re.compile(r"(?<!\w)_(?=[^\s_])([^_\n]+?)(?<=[^\s_])_(?!\w)"), r"\1"),
)


class Section(NamedTuple):
    """A heading and the prose below it, one paragraph per entry."""

    heading: str
    paragraphs: tuple[str, ...]


def clean_markdown(text: str) -> str:
    """Normalise characters and drop front matter and comments."""
    text = _without_comments(_FRONT_MATTER.sub("", normal_characters(text)))
    lines = (line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def document_title(text: str) -> str:
    """Return the first heading of a document, cut like any title, or ""."""
    for heading, _ in _blocks(text):
        if heading:
            return short_title(heading)
    return ""


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
    result: list[Section] = []
    for heading, lines in _blocks(_DISPLAY_MATH.sub(" ", text)):
        paragraphs = tuple(_paragraphs(lines))
        if paragraphs:
            result.append(Section(heading, paragraphs))
    return tuple(result)


def inline_text(text: str) -> str:
    """Remove links, images, emphasis and lost references from one run of text."""
    for pattern, replacement in _INLINE:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each heading with the lines below it, fenced code removed."""
    heading = ""
    body: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark is not None and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else mark[1]
            body.append("")
        elif fence:
            continue
        elif (marked := _marked_heading(line)) is not None:
            yield heading, body
            heading, body = inline_text(marked), []
        elif _UNDERLINE.match(line) and _underlined(body):
            title = body.pop()
            yield heading, body
            heading, body = inline_text(title), []
        else:
            body.append(_HEADING_MARK.sub("", line))
    yield heading, body


def _without_comments(text: str) -> str:
    """Drop the comments of HTML that end soon, each opening looked at once."""
    kept: list[str] = []
    copied = end = 0
    start = text.find("<!--")
    while start >= 0:
        if end < start + 4:
            end = text.find("-->", start + 4)
        if end < 0:
            break
        if end - start - 4 <= _MAX_COMMENT_CHARS:
            kept.append(text[copied:start])
            copied = start = end + 3
        else:
            start = end - _MAX_COMMENT_CHARS - 4
        start = text.find("<!--", start)
    return "".join([*kept, text[copied:]])


def _marked_heading(line: str) -> str | None:
    """Return what stands behind the marks of a heading; None for any other line, or prose."""
    mark = _HEADING_MARK.match(line)
    if mark is None:
        return None
    found = line[mark.end() :].strip()
    if found.endswith("#"):
        found = found.rstrip("#").rstrip()
    return found if len(found) <= _MAX_HEADING_CHARS else None


def _underlined(body: list[str]) -> bool:
    """Say whether an underline makes the last line a heading."""
    if not body or not body[-1].strip() or len(body[-1]) > _MAX_HEADING_CHARS:
        return False
    return len(body) == 1 or not body[-2].strip()


def _paragraphs(lines: list[str]) -> Iterator[str]:
    """Yield paragraphs of running text; tables, lists and indented code are left out."""
    current: list[str] = []
    in_list = False
    for line in [*lines, ""]:
        bare = line.strip()
        code = not current and line.startswith(("    ", "\t"))
        if bare and not code and not in_list and not _is_table(bare) and not _BULLET.match(line):
            current.append(bare.removeprefix("> "))
            continue
        in_list = bool(bare) and (in_list or bool(_BULLET.match(line)))
        if current:
            paragraph = " ".join(current)
            current = []
            if len(paragraph) <= _MAX_PARAGRAPH_CHARS:
                yield inline_text(paragraph)


def _is_table(line: str) -> bool:
    return line.startswith(("|", "+--")) or line.count(" | ") > 1
