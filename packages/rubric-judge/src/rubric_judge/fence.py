"""Untrusted text in a prompt: between lines that it cannot close, and without control tokens."""

from __future__ import annotations

import hashlib
import re
from itertools import count
from typing import Final

_MARK_CHARS: Final = 16
_WORD_JOINER: Final = "\u2060"
CONTROL_TOKENS: Final = re.compile(
    r"<(?=[|｜][^\s<>]{1,60}[|｜]>|/?(?:s|bos|eos|pad|unk|start_of_turn|end_of_turn|think)>|<SYS>>|</SYS>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])"
)
"""First character of what chat templates of open models use as control tokens."""


def fenced(text: str, *, label: str, seed: str) -> str:
    """Put a text between a BEGIN and an END line.

    A server that applies a chat template reads `<|im_end|>` in a message as the token that ends
    it, wherever it stands. Such spellings get a word joiner, which nobody sees, after their first
    character.

    Args:
        text: anything.
        label: what the text is, in capitals.
        seed: the same text with the same seed gets the same mark, so that prompts share a prefix.

    Returns:
        The lines; their mark stands nowhere in the text, in any case of its letters.
    """
    inert = text
    if "<" in text or "[" in text:
        inert = CONTROL_TOKENS.sub(lambda found: found[0] + _WORD_JOINER, text)
    mark = _mark(inert.casefold(), seed=f"{label} {seed}")
    return f"----- BEGIN {label} {mark} -----\n{inert}\n----- END {label} {mark} -----"


def _mark(folded: str, *, seed: str) -> str:
    for attempt in count():
        mark = hashlib.sha256(f"{seed}\x1f{attempt}".encode()).hexdigest()[:_MARK_CHARS]
        if mark not in folded:
            return mark
    raise AssertionError  # pragma: no cover - a finite text does not hold every mark
