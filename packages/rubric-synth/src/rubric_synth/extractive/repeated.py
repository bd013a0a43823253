"""Keys that come several times, among very many that come once, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_EXACT_KEYS: Final = 500_000
"""As long as there are no more than this, each is counted."""
_BITS: Final = 1 << 29
"""Of one Bloom filter: 64 MiB, for tens of millions of keys."""
_PROBES: Final = 4


class RepeatedKeys:
    """The keys that were added at least `times` times.

    Keys are counted until there are many. From then on one Bloom filter holds those that came once,
    one those that came twice, and so on: a key may be taken for one that came before (at 10 million
    keys, one in 30,000), never the other way round.
    """

    def __init__(self, times: int) -> None:
        """Start with none.

        Args:
            times: At least 2.
        """
        self.keys: set[int] = set()
        """Those that were added so often."""
        self._times = times
        self._counts: dict[int, int] | None = {}
        self._filters: list[_BloomFilter] = []

    def add(self, keys: Iterable[int]) -> None:
        """Count each key once more.

        Args:
            keys: Hashes of 64 bits.
        """
        for key in keys:
            if key not in self.keys:
                self._add(key)
        if self._counts is not None and len(self._counts) > _EXACT_KEYS:
            self._stop_counting(self._counts)

    def _add(self, key: int) -> None:
        if self._counts is None:
            if all(not one.add(key) for one in self._filters):
                self.keys.add(key)
            return
        count = self._counts.pop(key, 0) + 1
        if count >= self._times:
            self.keys.add(key)
        else:
            self._counts[key] = count

    def _stop_counting(self, counts: dict[int, int]) -> None:
        self._filters = [_BloomFilter() for _ in range(1, self._times)]
        for key, count in counts.items():
            for one in self._filters[:count]:
                one.add(key)
        self._counts = None


class _BloomFilter:
    def __init__(self) -> None:
        self._bits = bytearray(_BITS // 8)

    def add(self, key: int) -> bool:
        """Add a key; return whether it is new."""
        is_new = False
        # The two halves of a hash give any number of independent ones.
        step = (key >> 32) | 1
        for probe in range(_PROBES):
            place = (key + probe * step) % _BITS
            bit = 1 << (place & 7)
            if not self._bits[place >> 3] & bit:
                self._bits[place >> 3] |= bit
                is_new = True
        return is_new
