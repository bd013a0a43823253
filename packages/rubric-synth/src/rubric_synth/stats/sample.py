"""A few of many, chosen by a hash: the same ones at every run, whatever the order."""

from __future__ import annotations

import hashlib
import heapq
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")


class Sample(Generic[_T]):
    """At most so many items, each as likely as any other; no more than these in memory."""

    def __init__(self, limit: int, *, seed: str) -> None:
        """Begin without one; another seed chooses others."""
        self._limit = limit
        self._seed = seed
        self._kept: list[tuple[int, int, _T]] = []
        self._offered = 0

    @property
    def offered(self) -> int:
        """How many items there were to choose from."""
        return self._offered

    def offer(self, key: str, make: Callable[[], _T]) -> None:
        """Offer one item; `make` is called only if it is kept for now.

        Args:
            key: Tells it from the others.
            make: Returns the item.
        """
        self._offered += 1
        digest = hashlib.blake2b(f"{self._seed} {key}".encode("utf-8", "replace"), digest_size=8)
        rank = -int.from_bytes(digest.digest())
        if len(self._kept) < self._limit:
            heapq.heappush(self._kept, (rank, self._offered, make()))
        elif rank > self._kept[0][0]:
            heapq.heapreplace(self._kept, (rank, self._offered, make()))

    def items(self) -> list[_T]:
        """Return the chosen ones in the order in which they were offered."""
        return [item for _, _, item in sorted(self._kept, key=lambda kept: kept[1])]
