"""reStructuredText, as docstrings use it, and what is left of HTML, to plain paragraphs.

Dropped whole: formulas, code, tables, doctests, footnotes, version notes and figures.
Kept as prose: notes, warnings and every other paragraph, without inline markup.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from typing import Final

from rubric_core.rewriting import patterns, rewriting
from rubric_synth.tables import read_table, word_set

_KEPT_DIRECTIVES: Final = word_set("kept_directives")
_PATTERNS: Final = patterns(read_table("patterns")["markup"])
_WITHOUT_MARKUP: Final = rewriting(read_table("markup")["rest"])


def rest_to_prose(text: str) -> str:
    """Return the paragraphs of a reStructuredText fragment, one per line, blank lines between."""
    return "\n\n".join(_paragraphs(_prose_lines(text.expandtabs().splitlines())))


def inline_to_prose(text: str) -> str:
    """Remove inline markup (roles, literals, emphasis, footnote marks) from one run of text."""
    return " ".join(_WITHOUT_MARKUP(text).split())


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
        directive = _PATTERNS["directive"].match(line)
        if directive is not None and directive[2].lower() in _KEPT_DIRECTIVES:
            yield ""
            yield directive[3]
        elif directive is not None or _PATTERNS["comment"].match(line):
            dropped = indent
            if directive is not None:
                yield ""
        elif line.lstrip().startswith((">>>", "... ")) or _PATTERNS["rule"].match(line):
            yield ""
        else:
            yield line
            dropped = indent if line.rstrip().endswith("::") else None


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Join lines into paragraphs; a bullet begins a new one."""
    current: list[str] = []
    for line in (*lines, ""):
        bare = line.strip()
        bullet = _PATTERNS["bullet"].match(bare)
        if (not bare or bullet) and current:
            if paragraph := inline_to_prose(" ".join(current)):
                yield paragraph
            current = []
        if bare:
            current.append(bullet[2] if bullet else bare)


_MENU_LINKS: Final = 3
_MENU_LINK_FRAC: Final = 0.6


def article_text(markdown: str) -> str:
    """Drop the blocks of a converted page that are mostly links, and the addresses of all links."""
    blocks: list[str] = []
    is_code = False
    for block in re.split(r"\n{2,}", markdown):
        marks = sum(_PATTERNS["fence"].match(line) is not None for line in block.split("\n"))
        if is_code or marks:
            blocks.append(block)
            is_code ^= marks % 2 == 1
        elif not _is_menu(block):
            text = _PATTERNS["link"].sub(lambda link: "" if link[0][0] == "!" else link[1], block)
            if text.strip() and not _PATTERNS["skip_link"].match(text.strip()):
                blocks.append(text)
    return "\n\n".join(blocks)


def without_tags(text: str) -> str:
    """Return a field of a record without HTML tags and entities; other text stays as it is."""
    if _PATTERNS["tag"].search(text) is not None:
        text = _PATTERNS["tag"].sub("", _PATTERNS["breaking_tag"].sub("\n\n", text))
    return html.unescape(text)


def _is_menu(block: str) -> bool:
    links = _PATTERNS["link"].findall(block)
    shown = sum(len(link) for link in links)
    rest = len(re.sub(r"[^\w]", "", _PATTERNS["link"].sub("", block)))
    return len(links) >= _MENU_LINKS and shown > _MENU_LINK_FRAC * (shown + rest)
