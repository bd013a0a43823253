"""Markdown and plain text: cleaned without losing headings, and cut into sections of prose."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_FRONT_MATTER = re.compile(r"\A---\n.*?\n(?:---|\.\.\.)\n", re.DOTALL)
_HTML_COMMENT = re.compile(r"<!--.{0,5000}?-->", re.DOTALL)
_HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$")
_UNDERLINE = re.compile(r"^(=+|-{3,})\s*$")
_FENCE = re.compile(r"^\s*(```+|~~~+)")
_MAX_PARAGRAPH_CHARS: Final = 20_000
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+")
# Bounded, so that a text full of openings without ends costs no more than its length.
_DISPLAY_MATH = re.compile(
    r"\$\$.{0,3000}?\$\$|\\\[.{0,3000}?\\\]|\\begin\{(\w+\*?)\}.{0,3000}?\\end\{\1\}", re.DOTALL
)
_INLINE: Final = (
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), ""),
    (re.compile(r"\[([^\]]+)\]\([^)\s]*(?:\s\"[^\"]*\")?\)"), r"\1"),
    (re.compile(r"\[([^\]]+)\]\[[^\]]*\]"), r"\1"),
    (re.compile(r"\s*\[(?:ref|\^?\d+(?:[,–-]\s*\d+)*)\]"), ""),
    (re.compile(r"</?[A-Za-z][^>\n]{0,200}>"), ""),
    (re.compile(r"(?<!\w)(\*\*|__)(?=\S)(.+?)(?<=\S)\1(?!\w)"), r"\2"),
    (re.compile(r"(?<![\w*])\*(?=[^\s*])([^*\n]+?)(?<=[^\s*])\*(?![\w*])"), r"\1"),
    (re.compile(r"(?<!\w)_(?=[^\s_])([^_\n]+?)(?<=[^\s_])_(?!\w)"), r"\1"),
)
_SOFT_HYPHENS = str.maketrans({"\u00ad": None, "\u200b": None, "\ufeff": None, "\u00a0": " "})


class Section(NamedTuple):
    """A heading and the prose below it, one paragraph per entry."""

    heading: str
    paragraphs: tuple[str, ...]


def clean_markdown(text: str) -> str:
    """Normalise line ends and drop front matter, comments and invisible characters."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_SOFT_HYPHENS)
    text = _HTML_COMMENT.sub("", _FRONT_MATTER.sub("", text))
    lines = (line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def document_title(text: str) -> str:
    """Return the first heading of a document, or ""."""
    for heading, _ in _blocks(text):
        if heading:
            return heading
    return ""


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
        elif (match := _HEADING.match(line)) is not None:
            yield heading, body
            heading, body = inline_text(match[2]), []
        elif _UNDERLINE.match(line) and len(body) > 0 and body[-1].strip() and _alone(body):
            title = body.pop()
            yield heading, body
            heading, body = inline_text(title), []
        else:
            body.append(line)
    yield heading, body


def _alone(body: list[str]) -> bool:
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
