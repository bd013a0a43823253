"""Texts with markup: Markdown and reStructuredText, and remains of HTML in pages and records.

Markdown is cleaned without losing headings, and cut into sections of prose. In reStructuredText,
as docstrings use it, formulas, code, tables, doctests, footnotes, version notes and figures are
dropped whole; notes, warnings and every other paragraph are kept, without inline markup.
"""

import html
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from rubric_core.judgement.evidence import composed
from rubric_core.rewriting import rewriting
from rubric_synth.sources.cleaning.scripts import plain_scripts
from rubric_synth.tables import patterns, read_table, word_set

_MARKDOWN = patterns("markdown")
_ASIDE = 0xF0000
"""First of the private characters that stand for code and formulas: a paragraph has fewer."""
_FIRST_LIGATURE = 0xFB00
_LETTERS = ("ff", "fi", "fl", "ffi", "ffl", "st", "st")
"""Letters of the ligatures, in the order of their characters."""


def normal_characters(text: str) -> str:
    """Return a text in NFC, with one kind of line end, without control characters.

    Soft hyphens, marks of byte order and of direction go too; a no-break space becomes a space, and
    a control character within a word U+FFFD: there was a letter, or a gap. So does a soft hyphen
    between digits: there was a hyphen, or nothing. Ligatures become letters. At most 30 marks on
    one letter are kept.
    """
    if "\x1b" in text:
        text = _MARKDOWN["escape_sequence"].sub("", text)
    text = _MARKDOWN["line_ends"].sub("\n", text)
    text = _MARKDOWN["lost_letter"].sub("\ufffd", text)
    text = _MARKDOWN["invisible"].sub("", text)
    text = text.replace("\u00a0", " ")
    text = without_ligatures(text)
    return composed(text)


def without_ligatures(text: str) -> str:
    """Write the letters that a ligature of print stands for, without a gap that print put after it.

    No word ends in fi, fl, ffi or ffl, but for wifi and its like.
    """
    text = _MARKDOWN["gap_of_ligature"].sub(r"\1", text)
    return _MARKDOWN["ligature"].sub(_letters_of, text)


def _letters_of(ligature: re.Match[str]) -> str:
    place = ord(ligature[0]) - _FIRST_LIGATURE
    return _LETTERS[place]


_MAX_COMMENT_CHARS = 5_000
_MAX_HEADING_CHARS = 1_000
_MAX_TITLE_CHARS = 300
_MAX_PARAGRAPH_CHARS = 20_000
_MAX_BEFORE_CHARS = 20
_MARKS = re.compile(read_table("markup")["marks"])
_WITHOUT_MARKUP = rewriting(read_table("markup")["markdown"])


class Section(NamedTuple):
    """A heading and the prose below it, one paragraph per entry."""

    heading: str
    paragraphs: tuple[str, ...]


def clean_markdown(text: str) -> str:
    """Normalise characters, drop front matter and comments, and write exponents as characters."""
    text = normal_characters(text)
    text = _MARKDOWN["front_matter"].sub("", text)
    text = _without_comments(text)
    written_out = _MARKDOWN["entity"].sub(lambda entity: html.unescape(entity[0]), text)
    if written_out != text:
        text = normal_characters(written_out)
    text = plain_scripts(text)
    lines = (line.rstrip() for line in text.split("\n"))
    text = "\n".join(lines)
    text = re.sub(r"\n{3,}", "\n\n", text)
    return text.strip()


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
    start = title[: _MAX_TITLE_CHARS + 1]
    whole_words = start.rpartition(" ")[0]
    if not whole_words:
        return start[:-1].rstrip()
    return whole_words.rstrip()


@lru_cache(maxsize=64)
def sections(text: str) -> tuple[Section, ...]:
    """Cut a document at its headings; formulas on display, code, tables and lists are dropped.

    The text before the first heading is a section with an empty heading.
    """
    # Every stage looks at the sections of the documents in work: cut each document once.
    prose_sections: list[Section] = []
    text = _MARKDOWN["display_math"].sub(" ", text)
    for heading, lines in _blocks(text):
        paragraphs = tuple(_paragraphs(lines))
        if paragraphs:
            prose_sections.append(Section(heading, paragraphs))
    return tuple(prose_sections)


def inline_text(text: str) -> str:
    """Remove links, images, tags, emphasis, struck text and lost references from one run of text.

    Code and formulas stay as they are: `x[1]` cites nothing, and `<div>` is a word of its page.
    """
    set_aside: dict[str, str] = {}

    def put_aside(match: re.Match[str]) -> str:
        mark = chr(_ASIDE + len(set_aside))
        set_aside[mark] = match[0]
        return mark

    bare = text
    if "`" in text or "$" in text:
        bare = _MARKDOWN["as_written"].sub(put_aside, text)
    bare = _MARKUP["tag"].sub("", bare)
    if _MARKS.search(bare) is not None:
        bare = _WITHOUT_MARKUP(bare)
        bare = _without_citations(bare)
    if set_aside:
        bare = bare.translate(str.maketrans(set_aside))
    words = html.unescape(bare).split()
    return " ".join(words)


def _without_citations(text: str) -> str:
    """Drop numbers in brackets that cite, with the space before them, but no interval or list."""
    pieces: list[str] = []
    place = 0
    for match in _MARKDOWN["citation"].finditer(text):
        end = match.start()
        start = max(place, end - _MAX_BEFORE_CHARS)
        if _MARKDOWN["before_value"].search(text[start:end]):
            continue
        numbers = re.findall(r"\d+", match[0])
        if any(int(number) == 0 for number in numbers):
            continue
        pieces.append(text[place:end].rstrip())
        place = match.end()
    pieces.append(text[place:])
    return "".join(pieces)


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each heading with the lines below it, fenced code removed."""
    heading = ""
    fence = ""
    body: list[str] = []
    for line in text.split("\n"):
        mark = _MARKDOWN["fence"].match(line)
        if mark is not None and line.strip().startswith(fence):
            fence = "" if fence else mark[1]
            body.append("")
            continue
        if fence:
            continue
        title = _marked_heading(line)
        if title is None:
            is_underline = _MARKDOWN["underline"].match(line) is not None
            if is_underline and _underlined(body):
                title = body.pop()
        if title is None:
            body.append(_MARKDOWN["heading_mark"].sub("", line))
        else:
            yield heading, body
            heading = inline_text(title)
            body = []
    yield heading, body


def _without_comments(text: str) -> str:
    """Drop the comments of HTML that end soon; each opening is looked at once."""
    parts: list[str] = []
    copied = 0
    end = 0
    start = text.find("<!--")
    while start >= 0:
        if end < start + 4:
            end = text.find("-->", start + 4)
        if end < 0:
            break
        if end - start - 4 <= _MAX_COMMENT_CHARS:
            parts.append(text[copied:start])
            start = end + 3
            copied = start
        else:
            start = end - _MAX_COMMENT_CHARS - 4
        start = text.find("<!--", start)
    parts.append(text[copied:])
    return "".join(parts)


def _marked_heading(line: str) -> str | None:
    """Return the text after the marks of a heading; None for any other line, or prose."""
    if _MARKDOWN["heading_mark"].match(line) is None:
        return None
    heading = line.lstrip("#").strip()
    heading = heading.rstrip("#").rstrip()
    if len(heading) > _MAX_HEADING_CHARS:
        return None
    return heading


def _underlined(body: list[str]) -> bool:
    """Tell whether an underline makes the last line a heading: one that stands alone."""
    if not body or not body[-1].strip():
        return False
    if len(body[-1]) > _MAX_HEADING_CHARS:
        return False
    return len(body) == 1 or not body[-2].strip()


def _paragraphs(lines: list[str]) -> Iterator[str]:
    """Yield paragraphs of running text, but for those with an unknown character.

    Tables, lists and indented code are left out.
    """
    current: list[str] = []
    in_list = False
    for line in [*lines, ""]:
        if ">" in line:
            line = _MARKDOWN["quote_mark"].sub("", line)  # noqa: PLW2901
        bare = line.strip()
        bullet = "new_bullet" if current else "bullet"
        is_note = _MARKDOWN["footnote"].match(line) is not None
        is_bullet = is_note or _MARKDOWN[bullet].match(line) is not None
        is_code = not current and line.startswith(("    ", "\t"))
        is_table = bare.startswith(("|", "+--")) or bare.count(" | ") > 1
        if bare and not (is_code or in_list or is_table or is_bullet):
            current.append(bare)
            continue
        in_list = bool(bare) and (in_list or is_bullet)
        paragraph = " ".join(current)
        current = []
        if len(paragraph) > _MAX_PARAGRAPH_CHARS or "\ufffd" in paragraph:
            continue
        text = inline_text(paragraph)
        if text:
            yield text


_KEPT_DIRECTIVES = word_set("kept_directives")
_MARKUP = patterns("markup")
_WITHOUT_REST = rewriting(read_table("markup")["rest"])


def rest_to_prose(text: str) -> str:
    """Return the paragraphs of a reStructuredText fragment, one per line, blank lines between."""
    lines = text.expandtabs().splitlines()
    prose_lines = _prose_lines(lines)
    return "\n\n".join(_joined(prose_lines))


def inline_to_prose(text: str) -> str:
    """Remove inline markup (roles, literals, emphasis, footnote marks) from one run of text."""
    text = _WITHOUT_REST(text)
    text = plain_scripts(text)
    return " ".join(text.split())


def with_titles_of_labels(text: str) -> str:
    """Write the titles of headings for references to their labels in the same file."""
    titles = {
        match[1].strip().lower(): inline_to_prose(match["title"])
        for match in _MARKUP["labelled_heading"].finditer(text)
    }
    if not titles:
        return text

    def title(reference: re.Match[str]) -> str:
        label = reference[1].strip().lower()
        return titles.get(label) or reference[0]

    return _MARKUP["label_reference"].sub(title, text)


def _prose_lines(lines: list[str]) -> Iterator[str]:
    """Drop the blocks that are not prose; all but a comment leave a blank line."""
    dropped: int | None = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            yield ""
            continue
        if dropped is not None and indent > dropped:
            continue
        dropped = None
        directive = _MARKUP["directive"].match(line)
        if directive is not None:
            yield ""
            if directive[2].lower() in _KEPT_DIRECTIVES:
                yield directive[3]
            else:
                dropped = indent
        elif _MARKUP["comment"].match(line):
            dropped = indent
        elif line.lstrip().startswith((">>>", "... ")) or _MARKUP["rule"].match(line):
            yield ""
        else:
            yield line
            if line.rstrip().endswith("::"):
                dropped = indent


def _joined(lines: Iterable[str]) -> Iterator[str]:
    """Join lines into paragraphs; a bullet begins a new one."""
    current: list[str] = []
    for line in (*lines, ""):
        bare = line.strip()
        bullet = _MARKUP["bullet"].match(bare)
        if current and (not bare or bullet is not None):
            paragraph = inline_to_prose(" ".join(current))
            if paragraph:
                yield paragraph
            current = []
        if bullet is not None:
            current.append(bullet[2])
        elif bare:
            current.append(bare)


_MENU_LINKS = 3
_MENU_LINK_FRAC = 0.6


def article_text(markdown: str) -> str:
    """Drop the blocks of a converted page that are mostly links, and the addresses of all links."""
    blocks: list[str] = []
    is_code = False
    for block in re.split(r"\n{2,}", markdown):
        lines = block.split("\n")
        fences = sum(_MARKUP["fence"].match(line) is not None for line in lines)
        if is_code or fences:
            blocks.append(block)
            is_code ^= fences % 2 == 1
        elif not _is_menu(block):
            text = _MARKUP["link"].sub(_link_text, block)
            bare = text.strip()
            if bare and not _MARKUP["skip_link"].match(bare):
                blocks.append(text)
    return "\n\n".join(blocks)


def _link_text(link: re.Match[str]) -> str:
    """Return the text of a link; "" for an image."""
    if link[0].startswith("!"):
        return ""
    return link[1]


def without_tags(text: str) -> str:
    """Return a field of a record without HTML tags and entities; other text stays as it is."""
    text = _MARKUP["cited"].sub("", text)
    text = plain_scripts(text)
    if _MARKUP["tag"].search(text) is not None:
        text = _MARKUP["breaking_tag"].sub("\n\n", text)
        text = _MARKUP["tag"].sub("", text)
    return html.unescape(text)


def paragraphs_of_tags(text: str) -> str:
    """Return the text of a record, without tags where it has paragraphs of HTML or of JATS."""
    if _MARKUP["paragraph_end"].search(text) is None:
        return text
    return without_tags(text)


def _is_menu(block: str) -> bool:
    """Tell whether a block is mostly links."""
    links = _MARKUP["link"].findall(block)
    if len(links) < _MENU_LINKS:
        return False
    link_chars = sum(len(link) for link in links)
    without_links = _MARKUP["link"].sub("", block)
    rest_chars = len(re.sub(r"[^\w]", "", without_links))
    return link_chars > _MENU_LINK_FRAC * (link_chars + rest_chars)
