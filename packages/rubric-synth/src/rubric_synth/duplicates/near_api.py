"""Near duplicates of API entries by TF-IDF: their common layout says nothing, rare words do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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
