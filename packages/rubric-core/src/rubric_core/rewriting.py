"""Patterns that are data: what stands in for what they find in a text."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence


def patterns(table: Mapping[str, str | Sequence[str]]) -> dict[str, re.Pattern[str]]:
    """Compile the patterns of a table, each under its name there; one may be in several parts."""
    return {name: re.compile("".join(pattern)) for name, pattern in table.items()}


def rewriting(rules: Iterable[tuple[str, str]]) -> Callable[[str], str]:
    """Return a function that rewrites a text by every rule, in their order.

    Args:
        rules: a pattern and what replaces it; see `re.sub`.
    """
    compiled = tuple(
        (re.compile(pattern), replacement) for pattern, replacement in rules
    )

    def rewrite(text: str) -> str:
        for pattern, replacement in compiled:
            text = pattern.sub(replacement, text)
        return text

    return rewrite
