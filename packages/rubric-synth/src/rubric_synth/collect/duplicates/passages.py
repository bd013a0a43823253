"""Texts that hold much of one another: a page beside the handbook that it is part of.

The similarity of Jaccard is low where one text is long, so the share of the shorter text counts.
It is estimated by a sample of shingles that is the same for all: those whose hash is low.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b

_SAMPLED = 8
"""One shingle in so many is sampled."""
_LIMIT = 2**64 // _SAMPLED
_FEWEST = 3
"""Sampled shingles that two passages of thirty words must share: fewer are chance."""
_MOST_HOLDERS = 64
"""Texts that may share a shingle: what more texts share is boilerplate."""
_PROBED = 0.6
"""Share of the threshold above which texts are compared whole."""


def sample(text: str) -> bytes:
    """Return the sampled shingles of a text, 8 bytes each."""
    sampled = sorted(number for number in _hashes(text) if number < _LIMIT)
    return array("Q", sampled).tobytes()


def _hashes(text: str) -> set[int]:
    from rubric_synth.collect.duplicates.minhash import shingles  # loads numpy

    return {
        int.from_bytes(blake2b(piece.encode(errors="replace"), digest_size=8).digest())
        for pieces in shingles(text)
        for piece in pieces
    }


def _numbers(sampled: bytes) -> array[int]:
    numbers = array("Q")
    numbers.frombytes(sampled)
    return numbers


def contained_twins(
    samples: Sequence[bytes],
    text_of: Callable[[int], str],
    *,
    containment: float,
    settled: int = 0,
) -> dict[int, int]:
    """Map each text that is largely contained in another to that one; the shorter of two goes.

    Args:
        samples: Samples of all texts, as `sample` returns them; an empty one is not compared.
        text_of: Reads a text by its place.
        containment: Share of the shingles of the shorter text above which one of the two goes.
        settled: Number of texts, at the beginning, that never go; a longer one goes in their place.
    """
    twins: dict[int, int] = {}
    sizes = [len(sampled) for sampled in samples]

    def rank(place: int) -> tuple[bool, int, int]:
        return place >= settled, -sizes[place], place

    ranked = sorted(range(len(samples)), key=rank)
    holders: dict[int, list[int]] = {}
    for place in ranked:
        own = _numbers(samples[place])
        shared = _shared(holders, own)
        twin: int | None = None
        for other, count in sorted(
            shared.items(), key=lambda item: (-item[1], item[0])
        ):
            shorter = min(len(own), sizes[other] // own.itemsize)
            if count <= _PROBED * containment * shorter:
                continue
            if _share(text_of(place), text_of(other)) > containment:
                twin = other
                break
        if twin is not None and place >= settled:
            twins[place] = twin
            continue
        for number in own:
            places = holders.setdefault(number, [])
            if len(places) < _MOST_HOLDERS:
                places.append(place)
    return twins


def _shared(holders: dict[int, list[int]], own: Iterable[int]) -> Counter[int]:
    """Return how many shingles a text shares with each earlier text, boilerplate left out."""
    shared: Counter[int] = Counter()
    for number in own:
        places = holders.get(number, ())
        if len(places) < _MOST_HOLDERS:
            shared.update(places)
    return shared


def _share(first: str, second: str) -> float:
    """Return the share of the shingles of the shorter text that the other holds."""
    first_hashes = _hashes(first)
    second_hashes = _hashes(second)
    shorter = min(len(first_hashes), len(second_hashes))
    return len(first_hashes & second_hashes) / max(1, shorter)


class PassageIndex:
    """Index of the passages of tasks, which finds those that another split largely holds."""

    def __init__(self, containment: float) -> None:
        """Begin without passages.

        Args:
            containment: Above this share of common shingles of the shorter two passages are one.
        """
        self._containment = containment
        self._tasks: list[tuple[str, str, int]] = []
        self._holders: dict[int, array[int]] = {}

    def find_or_add(
        self,
        passage: str,
        split: str,
        task_id: str,
    ) -> str | None:
        """Return the task of another split with such a passage; None if there is none.

        Args:
            passage: Passage, compared by its runs of five words, without case and punctuation.
            split: Split of the task.
            task_id: Id to return for later twins of this passage, which is added where it is new.
        """
        own = _numbers(sample(passage))
        return self.find_or_add_sample(own, len(own), split, task_id)

    def find_or_add_sample(
        self,
        own: array[int],
        size: int,
        split: str,
        task_id: str,
    ) -> str | None:
        """Do the same with the sampled shingles of a passage.

        Args:
            own: Shingles to compare.
            size: Number of all sampled shingles, those not compared included.
            split: Split of the task.
            task_id: Id to return for later twins.
        """
        shared: Counter[int] = Counter()
        for value in own:
            shared.update(self._holders.get(value, ()))
        for task, count in shared.items():
            other_id, other_split, other_size = self._tasks[task]
            least = max(_FEWEST, self._containment * min(size, other_size))
            if other_split != split and count > least:
                return other_id
        number = len(self._tasks)
        self._tasks.append((task_id, split, size))
        for value in own:
            tasks = self._holders.setdefault(value, array("i"))
            if len(tasks) < _MOST_HOLDERS:
                tasks.append(number)
        return None


class PassageSet:
    """Passages of finished tasks, compared once all are there: the result is the same in any order.

    Shingles that 64 passages and more share are boilerplate here. `PassageIndex`, which meets
    passages one by one, still compares such shingles of the first 64, so it leaves nothing that is
    found here.
    """

    def __init__(self, containment: float) -> None:
        """Begin without passages.

        Args:
            containment: Above this share of common shingles of the shorter two passages are one.
        """
        self._containment = containment
        self._tasks: list[tuple[str, str, array[int]]] = []

    def add(
        self,
        passage: str,
        split: str,
        task_id: str,
    ) -> None:
        """Add the passage of a task."""
        numbers = _numbers(sample(passage))
        self._tasks.append((task_id, split, numbers))

    def twins(self) -> Iterator[tuple[str, str]]:
        """Yield pairs of tasks of two splits that share a passage, the later one once."""
        holders = Counter(value for _, _, own in self._tasks for value in own)
        index = PassageIndex(self._containment)
        for task_id, split, own in self._tasks:
            rare = array(
                "Q", (value for value in own if holders[value] < _MOST_HOLDERS)
            )
            twin = index.find_or_add_sample(rare, len(own), split, task_id)
            if twin:
                yield twin, task_id


__all__ = ["PassageIndex", "PassageSet", "contained_twins", "sample"]
