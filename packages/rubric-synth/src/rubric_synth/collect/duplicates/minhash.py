"""Near duplicates of prose: MinHash signatures of shingles, compared where they share a band."""

import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

Signatures = NDArray[np.uint16]

SHINGLE_WORDS = 5
"""Words of a shingle: so many that two texts share one by copying, not by chance."""
PERMUTATIONS = 256
"""Hash functions of a signature; the standard error of an estimate is at most 0.032."""

_SEED = 1
_WORD = re.compile(r"\w+")
_GAP = re.compile(r"\W")


def signature(text: str) -> bytes:
    """Return the MinHash of a text's shingles, `PERMUTATIONS` numbers of 16 bits; b"" if wordless.

    Two signatures agree at a share of positions that estimates the Jaccard similarity of the
    sets of shingles. Half of each number's bits are dropped: that adds 2^-16 to the estimate, and
    halves what a large collection takes.
    """
    # Loaded at its first use, so that importing this package stays quick.
    rensa: Any = import_module("rensa")
    sketch: Any = None
    for pieces in shingles(text):
        sketch = sketch or rensa.RMinHash(PERMUTATIONS, _SEED)
        sketch.update(pieces)
    if sketch is None:
        return b""
    numbers = np.array(sketch.digest(), dtype=np.uint64)
    return numbers.astype(np.uint16).tobytes()


def shingles(text: str, size: int = SHINGLE_WORDS) -> Iterator[list[str]]:
    """Yield all runs of `size` words, a list at a time; a shorter text is one run."""
    carried: list[str] = []
    is_short = True
    for word in _words(text.casefold()):
        words = carried + word
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
        # So that the words of a huge text are never all in memory.
        gap = _GAP.search(text, start + 65_536)
        end = gap.start() if gap else len(text)
        yield _WORD.findall(text, start, end)
        start = end


_MISSED_FRAC = 0.005
_MOST_KEPT = 128
"""Documents kept in one bucket: else all those made from one template would be compared."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF_BITS = np.uint64(32)


def signature_twins(
    signatures: Sequence[bytes],
    *,
    jaccard: float,
    settled: int = 0,
) -> dict[int, int]:
    """Map each near duplicate to the earliest kept document that it is close to.

    A document is dropped when its estimated similarity with an earlier one that is kept is above
    the threshold.

    Args:
        signatures: Signatures of all documents; the earlier one of a pair is kept.
        jaccard: Threshold of the similarity.
        settled: Number of documents, at the beginning, that are never dropped.
    """
    twins: dict[int, int] = {}
    if not signatures:
        return twins
    numbers = np.frombuffer(b"".join(signatures), dtype=np.uint16)
    rows = numbers.reshape(-1, PERMUTATIONS)
    buckets = _Buckets(rows, rows_per_band(jaccard))
    for later in buckets.sharing.tolist():
        candidates = buckets.candidates(later)
        if later >= settled and candidates:
            earlier = np.array(sorted(candidates))
            agreeing = np.count_nonzero(rows[earlier] == rows[later], axis=1)
            close = earlier[agreeing > jaccard * PERMUTATIONS]
            if close.size:
                twins[later] = int(close[0])
                continue
        buckets.keep(later)
    return twins


def rows_per_band(jaccard: float) -> int:
    """Return the most rows with which a pair at the threshold is still found 199 of 200 times.

    A pair of similarity s shares one of b bands of r rows with probability 1 − (1 − s^r)^b.
    """
    most = 1
    for rows in range(1, PERMUTATIONS + 1):
        bands = PERMUTATIONS // rows
        missed_frac = (1 - jaccard**rows) ** bands
        if missed_frac <= _MISSED_FRAC:
            most = rows
    return most


class _Buckets:
    """Buckets of kept documents that agree in a whole band of their signatures."""

    def __init__(self, rows: Signatures, band_rows: int) -> None:
        self._numbers, count = _bucket_numbers(rows, band_rows)
        # Most buckets never hold a second document.
        self._first = np.full(count, -1, dtype=np.int32)
        self._others: dict[int, list[int]] = {}
        self.sharing = np.flatnonzero((self._numbers >= 0).any(axis=1))
        """Documents that share a bucket with any other, kept or not."""

    def candidates(self, document: int) -> set[int]:
        numbers = self._shared(document)
        firsts = self._first[numbers]
        documents = set(firsts[firsts >= 0].tolist())
        if self._others:
            for number in numbers.tolist():
                documents.update(self._others.get(number, ()))
        return documents

    def keep(self, document: int) -> None:
        numbers = self._shared(document)
        is_empty = self._first[numbers] < 0
        self._first[numbers[is_empty]] = document
        for number in numbers[~is_empty].tolist():
            others = self._others.setdefault(number, [])
            if len(others) < _MOST_KEPT:
                others.append(document)

    def _shared(self, document: int) -> NDArray[np.int32]:
        numbers = self._numbers[document]
        return numbers[numbers >= 0]


def _bucket_numbers(rows: Signatures, band_rows: int) -> tuple[NDArray[np.int32], int]:
    """Number the buckets of two and more documents.

    Returns:
        Numbers [document, band], -1 where a bucket holds one document; and the number of buckets.
    """
    bands = PERMUTATIONS // band_rows
    numbers = np.full((len(rows), bands), -1, dtype=np.int32)
    count = 0
    for band in range(bands):
        start = band * band_rows
        columns = rows[:, start : start + band_rows]
        keys = _mixed(columns)
        _, groups, sizes = np.unique(
            keys,
            return_inverse=True,
            return_counts=True,
        )
        is_shared = sizes > 1
        places = np.cumsum(is_shared) - 1
        group_numbers = np.where(is_shared, places + count, -1)
        numbers[:, band] = group_numbers[groups]
        count += int(is_shared.sum())
    return numbers, count


def _mixed(columns: Signatures) -> NDArray[np.uint64]:
    """Hash the rows of a band into one number each; a collision costs one more comparison."""
    keys = np.zeros(len(columns), dtype=np.uint64)
    for column in columns.T:
        keys = (keys ^ column) * _MIX
        keys ^= keys >> _HALF_BITS
    return keys
