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
    compiled: list[tuple[re.Pattern[str], str]] = []
    for pattern, replacement in rules:
        compiled.append((re.compile(pattern), replacement))

    def rewrite(text: str) -> str:
        for pattern, replacement in compiled:
            text = pattern.sub(replacement, text)
        return text

    return rewrite
