"""Texts that hold much of one another: a page beside the handbook that it is part of.

The similarity of Jaccard is low where one text is long, so what counts is the share of the shorter
one. It is estimated by a sample of shingles that is the same for all: those whose hash is low.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Final

_SAMPLED: Final = 8
"""One shingle of so many is looked at."""
_LIMIT: Final = 2**64 // _SAMPLED
_FEWEST: Final = 3  # of a passage of thirty words: fewer in common are chance
_MOST_HOLDERS: Final = 64  # of a shingle: what more texts share is boilerplate
_PROBED: Final = 0.6  # of the threshold, above which texts are compared whole


def sample(text: str) -> bytes:
    """Return the sampled shingles of a text, 8 bytes each."""
    return array("Q", sorted(h for h in _hashes(text) if h < _LIMIT)).tobytes()


def _hashes(text: str) -> set[int]:
    from rubric_synth.duplicates.minhash import shingles  # loads numpy

    return {
        int.from_bytes(blake2b(piece.encode(errors="replace"), digest_size=8).digest())
        for pieces in shingles(text)
        for piece in pieces
    }


def _numbers(sampled: bytes) -> array[int]:
    found = array("Q")
    found.frombytes(sampled)
    return found


def contained_twins(
    samples: Sequence[bytes],
    text_of: Callable[[int], str],
    *,
    containment: float,
    settled: int = 0,
) -> dict[int, int]:
    """Map each text of which another holds much to that one; the shorter of two goes.

    Args:
        samples: Of all texts, as `sample` gives them; an empty one is not compared.
        text_of: Reads a text by its place.
        containment: Share of the shingles of the shorter text above which one of the two goes.
        settled: This many texts, at the beginning, never go; a longer one goes in their place.
    """
    twins: dict[int, int] = {}
    sizes = [len(sampled) for sampled in samples]
    ranked = sorted(
        range(len(samples)), key=lambda place: (place >= settled, -sizes[place], place)
    )
    holders: dict[int, list[int]] = {}
    for place in ranked:
        own = _numbers(samples[place])
        shared = _shared(holders, own)
        probed = (
            other
            for other, count in sorted(
                shared.items(), key=lambda item: (-item[1], item[0])
            )
            if count
            > _PROBED * containment * min(len(own), sizes[other] // own.itemsize)
        )
        twin = next(
            (o for o in probed if _share(text_of(place), text_of(o)) > containment),
            None,
        )
        if twin is not None and place >= settled:
            twins[place] = twin
            continue
        for number in own:
            known = holders.setdefault(number, [])
            if len(known) < _MOST_HOLDERS:
                known.append(place)
    return twins


def _shared(holders: dict[int, list[int]], own: Iterable[int]) -> Counter[int]:
    lists = (holders[number] for number in own if number in holders)
    return Counter(
        place for known in lists if len(known) < _MOST_HOLDERS for place in known
    )


def _share(one: str, other: str) -> float:
    """Return the share of the shingles of the shorter text that the other holds."""
    mine = _hashes(one)
    theirs = _hashes(other)
    return len(mine & theirs) / max(1, min(len(mine), len(theirs)))


class PassageIndex:
    """Passages of tasks, to find one of which another split holds much."""

    def __init__(self, containment: float) -> None:
        """Begin without passages.

        Args:
            containment: Above this share of common shingles of the shorter two passages are one.
        """
        self._containment = containment
        self._tasks: list[tuple[str, str, int]] = []
        self._holders: dict[int, array[int]] = {}

    def find_or_add(self, passage: str, split: str, task_id: str) -> str | None:
        """Return the task of another split with such a passage; None if there is none.

        Args:
            passage: Compared by its runs of five words, without case and punctuation.
            split: Of the task.
            task_id: Given back for later twins of this passage, which is added where it is new.
        """
        own = _numbers(sample(passage))
        return self.find_or_add_sample(own, len(own), split, task_id)

    def find_or_add_sample(
        self, own: array[int], size: int, split: str, task_id: str
    ) -> str | None:
        """Do the same with the sampled shingles of a passage.

        Args:
            own: Those that count.
            size: How many there are with those that do not.
            split: Of the task.
            task_id: Given back for later twins.
        """
        lists = (self._holders[number] for number in own if number in self._holders)
        shared = Counter(task for known in lists for task in known)
        for task, count in shared.items():
            name, theirs, of_other = self._tasks[task]
            least = max(_FEWEST, self._containment * min(size, of_other))
            if theirs != split and count > least:
                return name
        number = len(self._tasks)
        self._tasks.append((task_id, split, size))
        for value in own:
            known = self._holders.setdefault(value, array("i"))
            if len(known) < _MOST_HOLDERS:
                known.append(number)
        return None


class PassageSet:
    """Passages of finished tasks, compared once all are there: in whatever order, with one result.

    What 64 passages and more share is boilerplate here. `PassageIndex`, which meets them one by
    one, takes the first 64 for more than that, so it leaves nothing that is found here.
    """

    def __init__(self, containment: float) -> None:
        """Begin without passages.

        Args:
            containment: Above this share of common shingles of the shorter two passages are one.
        """
        self._containment = containment
        self._tasks: list[tuple[str, str, array[int]]] = []

    def add(self, passage: str, split: str, task_id: str) -> None:
        """Add the passage of a task."""
        self._tasks.append((task_id, split, _numbers(sample(passage))))

    def twins(self) -> Iterator[tuple[str, str]]:
        """Yield pairs of tasks of two splits that share a passage, the later one once."""
        holders = Counter(value for _, _, own in self._tasks for value in own)
        index = PassageIndex(self._containment)
        for name, split, own in self._tasks:
            rare = array(
                "Q", (value for value in own if holders[value] < _MOST_HOLDERS)
            )
            if twin := index.find_or_add_sample(rare, len(own), split, name):
                yield twin, name


__all__ = ["PassageIndex", "PassageSet", "contained_twins", "sample"]
