"""Near duplicates by MinHash: locality-sensitive hashing for candidates, then the estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rubric_synth.duplicates.shingles import PERMUTATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Signatures = NDArray[np.uint16]

_MISSED_FRAC: Final = 0.005
_MOST_KEPT: Final = 128  # of one bucket: documents made from one template would all be compared
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)


def signature_twins(
    signatures: Sequence[bytes], *, jaccard: float, settled: int = 0
) -> dict[int, int]:
    """Map each near duplicate to the earliest kept document that it is close to.

    A document is dropped when its estimated similarity with an earlier one that is kept is above
    the threshold.

    Args:
        signatures: Of all documents, in the order in which the first is kept.
        jaccard: Threshold.
        settled: This many documents, at the beginning, are never dropped.
    """
    twins: dict[int, int] = {}
    if len(signatures) < 2:  # noqa: PLR2004 - a twin needs two
        return twins
    rows = np.empty((len(signatures), PERMUTATIONS), dtype=np.uint16)
    for index, signature in enumerate(signatures):
        rows[index] = np.frombuffer(signature, dtype=np.uint16)
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
    """Return the most rows with which a pair at the threshold is still found: 199 of 200 times.

    A pair of similarity s shares one of b bands of r rows with probability 1 − (1 − s^r)^b.
    """
    fitting = [
        rows
        for rows in range(1, PERMUTATIONS + 1)
        if (1 - jaccard**rows) ** (PERMUTATIONS // rows) <= _MISSED_FRAC
    ]
    return max(fitting, default=1)


class _Buckets:
    """Which kept documents agree with another one in a whole band of their signatures."""

    def __init__(self, rows: Signatures, band_rows: int) -> None:
        self._numbers, count = _bucket_numbers(rows, band_rows)
        self._first = np.full(count, -1, dtype=np.int32)  # most buckets never hold a second
        self._others: dict[int, list[int]] = {}
        self.sharing = np.flatnonzero((self._numbers >= 0).any(axis=1))
        """Documents that share a bucket with any other, kept or not."""

    def candidates(self, document: int) -> set[int]:
        numbers = self._shared(document)
        firsts = self._first[numbers]
        found = set(firsts[firsts >= 0].tolist())
        if self._others:
            for number in numbers.tolist():
                found.update(self._others.get(number, ()))
        return found

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
    """Number the buckets of two and more documents: [document, band], -1 where there is one."""
    bands = PERMUTATIONS // band_rows
    numbers = np.full((len(rows), bands), -1, dtype=np.int32)
    count = 0
    for band in range(bands):
        keys = _mixed(rows[:, band * band_rows : (band + 1) * band_rows])
        order = np.argsort(keys, kind="stable")
        is_new = np.concatenate(([True], np.diff(keys[order]) != 0))
        groups = np.cumsum(is_new) - 1
        is_shared = np.bincount(groups) > 1
        named = np.where(is_shared, np.cumsum(is_shared) - 1 + count, -1)
        numbers[order, band] = named[groups]
        count += int(is_shared.sum())
    return numbers, count


def _mixed(columns: Signatures) -> NDArray[np.uint64]:
    """Hash the rows of a band into one number each; a collision costs one more comparison."""
    keys = np.zeros(len(columns), dtype=np.uint64)
    for column in columns.T:
        keys = (keys ^ column) * _MIX
        keys ^= keys >> _HALF
    return keys
