"""What is left to clean where HTML was: menus as Markdown, and tags inside a line of a record."""

from __future__ import annotations

import html
import re
from typing import Final

_LINK = re.compile(
    r"!?\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?:[^()\s]|\([^()\s]*\))*(?:\s\"[^\"]*\")?\)"
)
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_TAG = re.compile(r"</?[A-Za-z][\w:-]{0,30}(?:\s[^<>]{0,500})?/?>")
_BREAKING_TAG = re.compile(
    r"</?(?:p|div|br|li|ul|ol|h[1-6]|jats:p|jats:sec)\b[^<>]{0,500}>", re.IGNORECASE
)
_SKIP_LINK = re.compile(r"^skip to (?:main )?(?:content|navigation)$", re.IGNORECASE)
_MENU_LINKS: Final = 3
_MENU_LINK_FRAC: Final = 0.6


def article_text(markdown: str) -> str:
    """Drop the blocks of a converted page that are mostly links, and the addresses of all links."""
    blocks: list[str] = []
    is_code = False
    for block in re.split(r"\n{2,}", markdown):
        marks = sum(_FENCE.match(line) is not None for line in block.split("\n"))
        if is_code or marks:
            blocks.append(block)
            is_code ^= marks % 2 == 1
        elif not _is_menu(block):
            text = _LINK.sub(_shown, block)
            if text.strip() and not _SKIP_LINK.match(text.strip()):
                blocks.append(text)
    return "\n\n".join(blocks)


def without_tags(text: str) -> str:
    """Return a field of a record without HTML tags and entities; other text stays as it is."""
    if _TAG.search(text) is not None:
        text = _TAG.sub("", _BREAKING_TAG.sub("\n\n", text))
    return html.unescape(text)


def _is_menu(block: str) -> bool:
    links = _LINK.findall(block)
    shown = sum(len(link) for link in links)
    rest = len(re.sub(r"[^\w]", "", _LINK.sub("", block)))
    return len(links) >= _MENU_LINKS and shown > _MENU_LINK_FRAC * (shown + rest)


def _shown(link: re.Match[str]) -> str:
    return "" if link[0].startswith("!") else link[1]
