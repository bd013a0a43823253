"""How much of a text another one repeats word for word."""

import re
from collections.abc import Iterable
from typing import Final

# The page counts with the same pattern, in templates/write.js.
_WORD: Final = re.compile(r"[^\W_]+(?:['’._-][^\W_]+)*")


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return [found.lower() for found in _WORD.findall(text)]


def longest_shared_run(text: str, others: Iterable[str]) -> int:
    """Return how many words in a row a text has in common with one of the others, at most."""
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
            most = max(most, *runs.values()) if runs else most
    return most
