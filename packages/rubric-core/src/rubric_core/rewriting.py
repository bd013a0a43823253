"""Rewriting of texts by patterns that are data."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence


def patterns(table: Mapping[str, str | Sequence[str]]) -> dict[str, re.Pattern[str]]:
    """Compile the patterns of a table, by their names there; a pattern may be in several parts."""
    compiled: dict[str, re.Pattern[str]] = {}
    for name, parts in table.items():
        compiled[name] = re.compile("".join(parts))
    return compiled


def rewriting(rules: Iterable[tuple[str, str]]) -> Callable[[str], str]:
    """Return a function that rewrites a text by every rule, in their order.

    Args:
        rules: pairs of a pattern and its replacement; see `re.sub`.
    """
    compiled = [(re.compile(pattern), replacement) for pattern, replacement in rules]

    def rewrite(text: str) -> str:
        for pattern, replacement in compiled:
            text = pattern.sub(replacement, text)
        return text

    return rewrite
