"""Words of English that mean the same, the opposite, or little: tables beside this module.

Words come from WordNet (`wordnet/`), from a grammar's closed classes (`grammar.toml`) and from
counts over technical text (`frequency.txt`, and `order.txt` of neighbours); `tools/claim_tables.py`
makes all but the grammar.
"""

import hashlib
import math
from collections import defaultdict
from functools import cache, lru_cache
from pathlib import Path

from rubric_core.files import read_file, toml_beside
from rubric_judge.judges.lexical.words import FUNCTION_WORDS, stem

_HERE = Path(__file__).parent
GRAMMAR = toml_beside(__file__, "grammar.toml")
_SCALES = [(scale["up"], scale["down"]) for scale in GRAMMAR["scales"]]
_TABLES = (
    "grammar.toml",
    "frequency.txt",
    "order.txt",
    *(f"wordnet/{name}.txt" for name in ("synonyms", "opposites", "derived")),
)
_COMMON_PREFIX = 5
_PREFIX_SHARE = 0.6
_NEAR = 0.8
"""Likeness of two words of the same meaning."""


def _lines(name: str) -> list[str]:
    return read_file(_HERE / name).decode().splitlines()


@cache
def fingerprint() -> str:
    """Return a hash of all tables: another table is another judge."""
    digest = hashlib.sha256()
    for name in _TABLES:
        digest.update(read_file(_HERE / name))
    return digest.hexdigest()


@cache
def _synonyms() -> dict[str, frozenset[int]]:
    groups = defaultdict[str, set[int]](set)
    lines = (*_lines("wordnet/synonyms.txt"), *_lines("wordnet/derived.txt"))
    for number, line in enumerate(lines):
        for word in line.split():
            groups[stem(word)].add(number)
    return {word: frozenset(numbers) for word, numbers in groups.items()}


@cache
def _opposites() -> dict[str, frozenset[str]]:
    opposites = defaultdict[str, set[str]](set)
    for line in _lines("wordnet/opposites.txt"):
        first, second = (stem(word) for word in line.split())
        opposites[first].add(second)
        opposites[second].add(first)
    for up, down in _SCALES:
        up_stems = {stem(word) for word in up.split()}
        down_stems = {stem(word) for word in down.split()}
        for word in up_stems:
            opposites[word] |= down_stems
        for word in down_stems:
            opposites[word] |= up_stems
    return {word: frozenset(words - {word}) for word, words in opposites.items()}


@cache
def _sides() -> dict[str, frozenset[tuple[int, int]]]:
    sides_by_word = defaultdict[str, set[tuple[int, int]]](set)
    for number, sides in enumerate(_SCALES):
        for side, words in enumerate(sides):
            for word in words.split():
                sides_by_word[stem(word)].add((number, side))
    return {word: frozenset(sides) for word, sides in sides_by_word.items()}


@cache
def _frequencies() -> tuple[int, dict[str, int]]:
    documents, *rows = _lines("frequency.txt")
    pairs = (row.split() for row in rows)
    return int(documents), {word: int(count) for word, count in pairs}


@lru_cache(maxsize=65_536)
def weight(root: str) -> float:
    """Return how much a stem tells, in [0, 1]: 0 for a function word, 1 for a rare one.

    Args:
        root: a stem.
    """
    if root in _FRAME:
        return 0.0
    documents, counts = _frequencies()
    count = counts.get(root, 0)
    commonness = math.log(1 + count) / math.log(1 + documents)
    return max(0.1, 1 - commonness)


_FRAME = frozenset(map(stem, FUNCTION_WORDS))


@lru_cache(maxsize=262_144)
def likeness(first: str, second: str) -> float:
    """Return how alike two stems are in meaning, in [0, 1]: 1 if the same, .8 for a synonym.

    Args:
        first: a stem.
        second: a stem.
    """
    if first == second:
        return 1.0
    if opposite(first, second):
        return 0.0
    groups = _synonyms()
    if not groups.get(first, frozenset()).isdisjoint(groups.get(second, ())):
        return _NEAR
    if not sides(first).isdisjoint(sides(second)):
        return _NEAR
    shared = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        shared += 1
    longest = max(len(first), len(second))
    is_long_enough = shared >= _COMMON_PREFIX and shared >= _PREFIX_SHARE * longest
    return _NEAR if is_long_enough else 0.0


@lru_cache(maxsize=262_144)
def opposite(first: str, second: str) -> bool:
    """Tell whether two stems are opposite in meaning.

    Args:
        first: a stem.
        second: a stem.
    """
    if second in _opposites().get(first, ()):
        return True
    return first in (f"non{second}", f"not{second}") or second in (
        f"non{first}",
        f"not{first}",
    )


def is_cue(root: str) -> bool:
    """Tell whether a stem says a direction."""
    return root in _sides()


def sides(root: str) -> frozenset[tuple[int, int]]:
    """Return the directions that a stem says, each with its side."""
    return _sides().get(root, frozenset())


@lru_cache(maxsize=65_536)
def keys(root: str) -> frozenset[str | int | tuple[int, int]]:
    """Return look-up keys of a stem; two stems that are alike share at least one key.

    Args:
        root: a stem.
    """
    shared: set[str | int | tuple[int, int]] = {root, root[:_COMMON_PREFIX]}
    shared |= _synonyms().get(root, frozenset())
    shared |= sides(root)
    return frozenset(shared)
