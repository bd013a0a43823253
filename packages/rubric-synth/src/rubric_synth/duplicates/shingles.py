"""Texts as runs of consecutive words, and MinHash signatures of them.

The only module that imports rensa.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING, Final, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHINGLE_WORDS: Final = 5
"""Words of a shingle: long enough that two texts share one by copying, not by chance."""
PERMUTATIONS: Final = 256
"""Hash functions of a signature; the standard error of an estimate is at most 0.032."""

_SEED: Final = 1
_WORD: Final = re.compile(r"\w+")
_GAP: Final = re.compile(r"\W")
_CHUNK_CHARS: Final = 65_536  # the words of a huge text are never all in memory


class _Sketch(Protocol):
    def update(self, pieces: list[str]) -> None: ...
    def digest(self) -> list[int]: ...


def signature(text: str) -> bytes:
    """Return the MinHash of a text's shingles, `PERMUTATIONS` numbers of 16 bits; b"" if wordless.

    Two signatures agree at a share of positions that estimates the Jaccard similarity of the
    sets of shingles. Half of each number's bits are dropped: that adds 2^-16 to the estimate, and
    halves what a large collection takes.
    """
    # Loaded at its first use, so that importing this package stays quick.
    import rensa

    new_sketch = cast("Callable[[int, int], _Sketch]", rensa.RMinHash)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue] - no stubs
    sketch: _Sketch | None = None
    for pieces in shingles(text):
        sketch = sketch or new_sketch(PERMUTATIONS, _SEED)
        sketch.update(pieces)
    if sketch is None:
        return b""
    return array("H", [number & 0xFFFF for number in sketch.digest()]).tobytes()


def shingles(text: str, size: int = SHINGLE_WORDS) -> Iterator[list[str]]:
    """Yield all runs of `size` words, a list at a time; a shorter text is one run."""
    carried: list[str] = []
    is_short = True
    for found in _words(text.casefold()):
        words = carried + found
        if len(words) >= size:
            is_short = False
            columns = (words[start:] for start in range(size))
            yield list(map(" ".join, zip(*columns, strict=False)))
        carried = words[max(0, len(words) - size + 1) :]
    if is_short and carried:
        yield [" ".join(carried)]


def _words(text: str) -> Iterator[list[str]]:
    start = 0
    while start < len(text):
        gap = _GAP.search(text, start + _CHUNK_CHARS)
        end = gap.start() if gap else len(text)
        yield _WORD.findall(text, start, end)
        start = end
