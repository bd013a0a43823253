"""Likeness of two texts: the longest run of words that one repeats of the other."""

import re
from collections.abc import Iterable

# The page counts with the same pattern, in templates/write.js.
_WORD = re.compile(r"[^\W_]+(?:['’._-][^\W_]+)*")


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return [match.lower() for match in _WORD.findall(text)]


def longest_shared_run(text: str, others: Iterable[str]) -> int:
    """Return the most words in a row that a text has in common with one of the others."""
    own = words(text)
    most = 0
    places: dict[str, list[int]] = {}
    for i, word in enumerate(own):
        places.setdefault(word, []).append(i)
    for other in others:
        runs: dict[int, int] = {}
        """Length of the run that ends at each place of the text and at the last word read."""
        for word in words(other):
            runs = {i: runs.get(i - 1, 0) + 1 for i in places.get(word, ())}
            if runs:
                most = max(most, *runs.values())
    return most
