"""Which documents are twins of an earlier one: equal, nearly equal by MinHash, or equally named."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

import numpy as np

from rubric_synth.rejection import RejectionReason

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rubric_synth.config import CollectConfig
    from rubric_synth.document import Document

    Signatures = NDArray[np.uint16]

_MOST_BLOCK_ROWS: Final = 512
_BLOCK_PAIRS: Final = 4_000_000  # bounds the memory of one block of cosines
_SMALL_COLLECTION: Final = 50
_COMMON_FRAC: Final = 0.2
_WORDS: Final = r"[A-Za-z_][A-Za-z0-9_]+"


def cosine_twins(
    entries: Sequence[int],
    text_of: Callable[[int], str],
    *,
    cosine: float,
    settled: int = 0,
) -> dict[int, int]:
    """Map each near duplicate to the earlier entry that it is close to.

    Args:
        entries: Numbers of the entries, in the order in which the first is kept.
        text_of: Reads the text of an entry.
        cosine: TF-IDF cosine above which two entries are near duplicates.
        settled: Entries with a number below this are never dropped.
    """
    dropped: dict[int, int] = {}
    left = list(entries)
    # Weights of words move when entries go, and with them a pair's cosine: until none is left.
    while twins := _one_round(left, text_of, cosine, settled):
        dropped |= twins
        left = [entry for entry in left if entry not in twins]
    return dropped


def _one_round(
    entries: Sequence[int], text_of: Callable[[int], str], cosine: float, settled: int
) -> dict[int, int]:
    twins: dict[int, int] = {}
    if len(entries) < 2:  # noqa: PLR2004 - a twin needs two
        return twins
    # Loaded at its first use: it takes longer to import than all of this package.
    from sklearn.feature_extraction.text import TfidfVectorizer

    small = len(entries) < _SMALL_COLLECTION
    vectorizer: Any = TfidfVectorizer(
        max_df=1.0 if small else _COMMON_FRAC,
        min_df=1 if small else 2,
        sublinear_tf=True,
        token_pattern=_WORDS,
    )
    try:
        rows = vectorizer.fit_transform(map(text_of, entries))
    except ValueError:  # no word is left, so nothing can be compared
        return twins
    columns = rows.T.tocsr()
    block_rows = max(1, min(_MOST_BLOCK_ROWS, _BLOCK_PAIRS // len(entries)))
    for start in range(0, len(entries), block_rows):
        block = (rows[start : start + block_rows] @ columns).tocoo()
        close = (block.data > cosine) & (block.col < block.row + start)
        pairs = zip((block.row[close] + start).tolist(), block.col[close].tolist(), strict=True)
        for later, earlier in sorted(cast("Iterable[tuple[int, int]]", pairs)):
            if entries[later] >= settled and entries[earlier] not in twins:
                twins.setdefault(entries[later], entries[earlier])
    return twins


class Fingerprint(NamedTuple):
    """What duplicates are told by, so that no text need be held."""

    text_key: bytes
    """Hash of the text without case and spacing."""
    name_key: str | None
    """Bare name of an API entry; None for prose."""
    signature: bytes
    """MinHash of prose; empty for API entries and for texts without words."""


class Twin(NamedTuple):
    """Why a document is left out, and for which earlier one."""

    reason: RejectionReason
    earlier: int


def fingerprint(document: Document) -> Fingerprint:
    """Return what tells a document from another."""
    from rubric_synth.duplicates.selection import signature  # loads numpy

    normalised = " ".join(document.text.casefold().split())
    is_api = document.kind == "api"
    return Fingerprint(
        text_key=hashlib.sha256(normalised.encode()).digest()[:16],
        name_key=document.title.rpartition(".")[2].lower() if is_api else None,
        signature=b"" if is_api else signature(document.text),
    )


def find_twins(
    fingerprints: Sequence[Fingerprint],
    text_of: Callable[[int], str],
    *,
    config: CollectConfig,
    settled: int = 0,
) -> dict[int, Twin]:
    """Map each document that is left out to its reason and to the earlier twin.

    Nothing that is kept is close to anything else that is kept, as far as an estimate can tell,
    so that no split can hold a twin of a document on another side.

    Args:
        fingerprints: Of all documents, in the order in which the first is kept.
        text_of: Reads the text of a document by its place in that order.
        config: The two thresholds.
        settled: This many documents, at the beginning, were found to be no near duplicates
            before and are not dropped as such: later documents move the weights of words.
    """
    from rubric_synth.duplicates.selection import signature_twins  # loads numpy

    twins = _same(fingerprints)

    def add(close: dict[int, int]) -> None:
        near = RejectionReason.NEAR_DUPLICATE
        twins.update({later: Twin(near, earlier) for later, earlier in close.items()})

    left = [index for index in range(len(fingerprints)) if index not in twins]
    prose = [index for index in left if fingerprints[index].signature]
    close = signature_twins(
        [fingerprints[index].signature for index in prose],
        jaccard=config.near_duplicate_jaccard,
        settled=sum(index < settled for index in prose),
    )
    add({prose[later]: prose[earlier] for later, earlier in close.items()})
    entries = [index for index in left if fingerprints[index].name_key is not None]
    cosine = config.near_duplicate_cosine
    add(cosine_twins(entries, text_of, cosine=cosine, settled=settled))
    return twins


def _same(fingerprints: Iterable[Fingerprint]) -> dict[int, Twin]:
    twins: dict[int, Twin] = {}
    by_text: dict[bytes, int] = {}
    by_name: dict[str, int] = {}
    for index, (text_key, name_key, _) in enumerate(fingerprints):
        if (earlier := by_text.setdefault(text_key, index)) != index:
            twins[index] = Twin(RejectionReason.EXACT_DUPLICATE, earlier)
        elif name_key and (earlier := by_name.setdefault(name_key, index)) != index:
            twins[index] = Twin(RejectionReason.SAME_NAME, earlier)
    return twins


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
    return np.array(sketch.digest(), dtype=np.uint64).astype(np.uint16).tobytes()


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
    if not signatures:
        return twins
    rows = np.frombuffer(b"".join(signatures), dtype=np.uint16).reshape(-1, PERMUTATIONS)
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
