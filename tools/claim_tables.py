"""Make the claim judge's tables of words, from WordNet 3.0 and from docstrings of libraries.

    apt-get download wordnet-base && dpkg-deb --extract wordnet-base_*.deb unpacked
    uv run python tools/claim_tables.py unpacked/usr/share/wordnet

Nobody picks a word: what means the same, the opposite, or is derived from another is what WordNet
says of the common senses of common words. How often a word stands in technical text is counted over
the docstrings of the standard library, numpy and scipy; which words stand side by side, over these
and WordNet's glosses.
"""

import importlib
import inspect
import math
import pkgutil
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from rubric_judge.judges.claims.order import (
    FIRST_WORD,
    SIGN,
    TABLE,
    UNIT,
    classes_of,
    tells,
)
from rubric_judge.judges.claims.reading import sentences
from rubric_judge.judges.lexical.words import FUNCTION_WORDS, stem

CLAIMS = (
    Path(__file__).resolve().parents[1]
    / "packages/rubric-judge/src/rubric_judge/judges/claims"
)
Test = Callable[[str], bool]
PARTS = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}
COMMON_SENSES = 3
"""A word is a synonym by its first senses; by a rare one nearly any two words are."""
FEWEST_DOCSTRINGS = 6
SHORTEST = 3
FEWEST_LETTERS = 0.8
"""Share of a docstring's sentence, below which it is code."""
FEWEST_FUNCTION_WORDS = 0.2
PRIOR = 5
"""Number of times by which a pair counts as met in chance order, beside what was counted."""
LEAST_UNITS = 3
MOST_UNITS = 30
PREFIXES = ("un", "in", "im", "ir", "il", "non", "dis")


@dataclass
class Synset:
    """One sense: its words, and where each points to."""

    words: list[str]
    pointers: list[tuple[str, str, str, str]] = field(
        default_factory=list[tuple[str, str, str, str]]
    )
    """Symbol, offset, part of speech, and which word of which synset, in hexadecimal."""


@dataclass
class WordNet:
    """What the database files say."""

    synsets: dict[tuple[str, str], Synset]
    rank: dict[tuple[str, str, str], int]
    """Which sense of a word a synset is, from 0, by part of speech, offset and word."""
    counts: dict[tuple[str, str], int]
    """How often the authors met a word in running text, by part of speech and word."""

    def is_met(self, word: str) -> bool:
        """Whether they met it at all."""
        return any((part, word) in self.counts for part in set(PARTS.values()))

    def is_adjective(self, word: str) -> bool:
        """Whether they met it as an adjective more often than as anything else."""
        met = {part: self.counts.get((part, word), 0) for part in PARTS.values()}
        return met["adj"] > 1 and met["adj"] == max(met.values())


def read(folder: Path) -> WordNet:
    """Read WordNet's database files."""
    found = WordNet({}, {}, {})
    for line in _rows(folder / "cntlist.rev"):
        key, _, times = line.split()
        word, _, sense = key.partition("%")
        part = ("noun", "verb", "adj", "adv", "adj")[int(sense[0]) - 1]
        found.counts[part, word] = found.counts.get((part, word), 0) + int(times)
    for part in ("noun", "verb", "adj", "adv"):
        for line in _rows(folder / f"index.{part}"):
            word, _, senses, n_pointers, *rest = line.split()
            rest = rest[int(n_pointers) :]
            for place, offset in enumerate(rest[2 : 2 + int(senses)]):
                found.rank[part, offset, word] = place
        for line in _rows(folder / f"data.{part}"):
            offset, _, _, n_words, *rest = line.partition(" | ")[0].split()
            end = 2 * int(n_words, 16)
            words = [re.sub(r"\(\w+\)", "", word).lower() for word in rest[:end:2]]
            flat = rest[end + 1 : end + 1 + 4 * int(rest[end])]
            pointers = list(zip(*(flat[i::4] for i in range(4)), strict=True))
            found.synsets[part, offset] = Synset(words, pointers)
    return found


def _place(hexadecimal: str) -> int:
    return int(hexadecimal, base=16) - 1


def _rows(path: Path) -> Iterator[str]:
    return (
        row
        for row in path.read_text(encoding="ascii").splitlines()
        if not row.startswith(" ")
    )


def related(net: WordNet, known: set[str]) -> tuple[set[tuple[str, ...]], ...]:
    """Return groups of synonyms, pairs of opposites, and pairs of a word and one derived of it."""

    def is_plain(word: str) -> bool:
        return (
            word.isalpha()
            and len(word) >= SHORTEST
            and (net.is_met(word) or stem(word) in known)
        )

    synonyms, opposites, derived = (
        set[tuple[str, ...]](),
        set[tuple[str, ...]](),
        set[tuple[str, ...]](),
    )
    for (part, offset), synset in net.synsets.items():
        group = {
            word
            for word in synset.words
            if is_plain(word)
            and net.rank.get((part, offset, word), COMMON_SENSES) < COMMON_SENSES
        }
        if len(group) > 1:
            synonyms.add(tuple(sorted(group)))
        for symbol, to, kind, places in synset.pointers:
            other = net.synsets[PARTS[kind], to]
            if symbol == "&":
                synonyms |= _near(net, synset, other, is_plain)
            pairs = {"!": opposites, "+": derived, "\\": derived}.get(symbol)
            if pairs is None or places == "0000":
                continue
            pair = synset.words[_place(places[:2])], other.words[_place(places[2:])]
            if all(map(is_plain, pair)) and len(set(map(stem, pair))) > 1:
                pairs.add(tuple(sorted(pair)))
    return (
        synonyms,
        opposites | _of_satellites(net, is_plain) | _by_prefix(net, is_plain),
        derived,
    )


def _near(
    net: WordNet, one: Synset, other: Synset, is_plain: Test
) -> set[tuple[str, ...]]:
    """Return pairs of adjectives of similar meaning, one of each synset."""
    return {
        tuple(sorted((word, like)))
        for word in one.words
        for like in other.words
        if word != like and is_plain(word) and is_plain(like)
        if net.is_adjective(word) and net.is_adjective(like)
    }


def _of_satellites(net: WordNet, is_plain: Test) -> set[tuple[str, ...]]:
    """Return an adjective's near relatives, each with the opposites of its head: huge, small."""
    found = set[tuple[str, ...]]()
    for (part, offset), synset in net.synsets.items():
        if part != "adj":
            continue
        firsts = [
            word for word in synset.words if net.rank.get((part, offset, word)) == 0
        ]
        heads = [
            net.synsets["adj", to]
            for symbol, to, _, _ in synset.pointers
            if symbol == "&"
        ]
        if any(symbol == "!" for symbol, *_ in synset.pointers):
            continue
        for head in heads:
            for symbol, to, _, places in head.pointers:
                if symbol == "!":
                    against = net.synsets["adj", to].words[_place(places[2:])]
                    found |= {
                        tuple(sorted((word, against)))
                        for word in firsts
                        if net.is_adjective(word) and net.is_adjective(against)
                        if is_plain(word) and is_plain(against)
                    }
    return found


def _by_prefix(net: WordNet, is_plain: Test) -> set[tuple[str, ...]]:
    """Return adjectives and adverbs that deny another by their first letters."""
    kinds = {
        part: {word for kind, _, word in net.rank if kind == part}
        for part in ("adj", "adv")
    }
    return {
        tuple(sorted((word, base)))
        for words in kinds.values()
        for word in words
        for prefix in PREFIXES
        if word.startswith(prefix) and (base := word.removeprefix(prefix)) in words
        if is_plain(word) and is_plain(base)
    }


def docstrings() -> Iterator[str]:
    """Yield the docstrings of public functions and classes, each once."""
    seen = set[str]()
    names = [name for name in sys.stdlib_module_names if not name.startswith("_")]
    for library in ("numpy", "scipy"):
        package = importlib.import_module(library)
        names += [
            library,
            *(
                f"{library}.{module.name}"
                for module in pkgutil.iter_modules(package.__path__)
            ),
        ]
    for name in sorted(names):
        if name in {"antigravity", "this", "idlelib", "turtledemo"} or name.split(".")[
            -1
        ].startswith("_"):
            continue
        try:
            module = importlib.import_module(name)
        except (ImportError, OSError):
            continue
        for one in vars(module).values():
            if callable(one) and (text := inspect.getdoc(one)) and text not in seen:
                seen.add(text)
                yield text


def prose(texts: list[str], folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield the classes of sentences of docstrings, and of the parts of WordNet's glosses."""
    for text in texts:
        lines = [
            line
            for line in text.splitlines()
            if not line.lstrip().startswith((">>>", "..."))
        ]
        for sentence in sentences("\n".join(lines)):
            letters = sum(sign.isalpha() or sign == " " for sign in sentence)
            if letters >= FEWEST_LETTERS * len(sentence):
                yield classes_of(sentence)
    for part in ("noun", "verb", "adj", "adv"):
        for line in _rows(folder / f"data.{part}"):
            gloss = line.partition(" | ")[2].strip()
            for phrase in re.split(r";\s+", gloss):
                yield classes_of(phrase.strip('"'))[1:]


def neighbours(texts: Iterator[tuple[str, ...]]) -> list[str]:
    """Return for each class how much likelier others are after it than anywhere."""
    pairs = Counter[tuple[str, str]]()
    for words in texts:
        n_function = sum(word in FUNCTION_WORDS for word in words)
        if n_function >= FEWEST_FUNCTION_WORDS * len(words):
            pairs.update(pairwise(words))
    firsts = Counter[str]()
    seconds = Counter[str]()
    for (one, other), n in pairs.items():
        firsts[one] += n
        seconds[other] += n
    total = firsts.total()
    rows: list[str] = []
    for one in sorted(firsts):
        row = [one]
        for other in sorted(seconds):
            if not {one, other}.isdisjoint((FIRST_WORD, SIGN)):
                continue  # the figure of the former is a constant, and the latter has none
            chance = firsts[one] * seconds[other] / total
            gain = math.log((pairs[one, other] + PRIOR) / (chance + PRIOR))
            units = max(-MOST_UNITS, min(MOST_UNITS, round(gain / UNIT)))
            if abs(units) >= LEAST_UNITS and (units > 0 or tells(one, other)):
                row += [other, str(units)]
        if len(row) > 1:
            rows.append(" ".join(row))
    return rows


def write(name: str, lines: list[str]) -> None:
    """Write a table."""
    (CLAIMS / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{name}: {len(lines)} lines")


def main(folder: Path) -> None:
    """Write the tables."""
    warnings.simplefilter("ignore")
    counts = Counter[str]()
    texts = [*docstrings()]
    for text in texts:
        counts.update({stem(word) for word in re.findall(r"[A-Za-z]{2,}", text)})
    kept = {word: n for word, n in counts.items() if n >= FEWEST_DOCSTRINGS}
    write(
        "frequency.txt",
        [str(len(texts)), *(f"{word} {n}" for word, n in sorted(kept.items()))],
    )
    synonyms, opposites, derived = related(read(folder), set(kept))
    for name, groups in (
        ("synonyms", synonyms),
        ("opposites", opposites),
        ("derived", derived),
    ):
        write(f"wordnet/{name}.txt", [" ".join(group) for group in sorted(groups)])
    write(TABLE, neighbours(prose(texts, folder)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
