"""Fenced code blocks of a Markdown text."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Possessive: the parts may hold the same characters, and a line of tildes that ends in a backtick
# would be parted in every way there is.
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<language>[^\s`]*+)[^`]*+")


@dataclass(frozen=True, slots=True)
class Block:
    """A code block that is opened and closed."""

    language: str
    """The word after the opening fence, in lower case; empty where there is none."""
    text: str


def fenced_blocks(text: str) -> list[Block]:
    """Read the fenced blocks in order; one that is never closed was cut off, and is none."""
    blocks: list[Block] = []
    opening: re.Match[str] | None = None
    lines: list[str] = []
    for line in text.splitlines():
        found = _FENCE.fullmatch(line)
        if opening is None:
            opening, lines = found, []
        elif found and not found["language"] and found["fence"].startswith(opening["fence"]):
            blocks.append(Block(opening["language"].lower(), "\n".join(lines)))
            opening = None
        else:
            lines.append(line)
    return blocks
