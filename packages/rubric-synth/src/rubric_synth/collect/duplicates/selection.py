"""Twins among documents: equal, nearly equal, contained in one another, or equally named."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast

from rubric_synth.config import CollectConfig
from rubric_synth.document import Document, RejectionReason

_SMALL_COLLECTION = 50
_WORDS = r"[A-Za-z_][A-Za-z0-9_]+"


def cosine_twins(
    entries: Sequence[int],
    text_of: Callable[[int], str],
    *,
    cosine: float,
    settled: int = 0,
) -> dict[int, int]:
    """Map each near duplicate to the earlier entry that it is close to.

    Args:
        entries: Numbers of the entries; the earlier one of a pair is kept.
        text_of: Reads the text of an entry.
        cosine: TF-IDF cosine above which two entries are near duplicates.
        settled: Entries with a number below this are never dropped.
    """
    dropped: dict[int, int] = {}
    left = list(entries)
    # Weights of words move when entries go, and with them the cosines: until no twin is left.
    while twins := _twins_among(left, text_of, cosine, settled):
        dropped |= twins
        left = [entry for entry in left if entry not in twins]
    return dropped


def _twins_among(
    entries: Sequence[int],
    text_of: Callable[[int], str],
    cosine: float,
    settled: int,
) -> dict[int, int]:
    twins: dict[int, int] = {}
    if len(entries) < 2:  # noqa: PLR2004 - a twin needs two
        return twins
    # Loaded at its first use: it takes longer to import than all of this package.
    from sklearn.feature_extraction.text import TfidfVectorizer

    is_small = len(entries) < _SMALL_COLLECTION
    most_documents = 1.0 if is_small else 0.2
    fewest_documents = 1 if is_small else 2
    vectorizer: Any = TfidfVectorizer(
        max_df=most_documents,
        min_df=fewest_documents,
        sublinear_tf=True,
        token_pattern=_WORDS,
    )
    try:
        rows = vectorizer.fit_transform(map(text_of, entries))
    except ValueError:  # no word is left, so nothing can be compared
        return twins
    columns = rows.T.tocsr()
    # Bounds the memory of one block of cosines.
    block_rows = max(1, min(512, 4_000_000 // len(entries)))
    for start in range(0, len(entries), block_rows):
        block = (rows[start : start + block_rows] @ columns).tocoo()
        close = (block.data > cosine) & (block.col < block.row + start)
        later_rows = cast("list[int]", (block.row[close] + start).tolist())
        earlier_rows = cast("list[int]", block.col[close].tolist())
        pairs = zip(later_rows, earlier_rows, strict=True)
        for later_row, earlier_row in sorted(pairs):
            later = entries[later_row]
            earlier = entries[earlier_row]
            if later >= settled and earlier not in twins:
                twins.setdefault(later, earlier)
    return twins


class Fingerprint(NamedTuple):
    """Hashes that tell duplicates, so that no text need be held."""

    text_key: bytes
    """Hash of the text without case and spacing."""
    name_key: str | None
    """Bare name of an API entry; None for prose."""
    signature: bytes
    """MinHash of prose; empty for API entries and for texts without words."""
    sample: bytes = b""
    """Some of the shingles of prose, which tell a part of another text."""


class Twin(NamedTuple):
    """The reason why a document is left out, and the document that is kept in its place."""

    reason: RejectionReason
    earlier: int


def fingerprint(document: Document) -> Fingerprint:
    """Return the hashes that tell a document from others."""
    from rubric_synth.collect.duplicates.minhash import signature  # loads numpy
    from rubric_synth.collect.duplicates.passages import sample

    normalised = " ".join(document.text.casefold().split())
    text_key = hashlib.sha256(normalised.encode()).digest()[:16]
    if document.kind == "api":
        name = document.title.rpartition(".")[2]
        return Fingerprint(text_key, name_key=name.lower(), signature=b"")
    return Fingerprint(
        text_key,
        name_key=None,
        signature=signature(document.text),
        sample=sample(document.text),
    )


def find_twins(
    fingerprints: Sequence[Fingerprint],
    text_of: Callable[[int], str],
    *,
    config: CollectConfig,
    settled: int = 0,
) -> dict[int, Twin]:
    """Map each document that is left out to its reason and to the twin that is kept.

    Where one document is part of another, the shorter of the two is left out.

    No two documents that are kept are close to each other, as far as an estimate can tell, so that
    no split can hold a twin of a document of another split.

    Args:
        fingerprints: Fingerprints of all documents; the earlier one of a pair is kept.
        text_of: Reads the text of a document by its place in that order.
        config: The thresholds.
        settled: Number of documents, at the beginning, that were found to be no near duplicates
            before and are not dropped as such: later documents move the weights of words.
    """
    from rubric_synth.collect.duplicates.minhash import signature_twins  # loads numpy
    from rubric_synth.collect.duplicates.passages import contained_twins

    twins = _same(fingerprints)
    numbers = range(len(fingerprints))
    left = [index for index in numbers if index not in twins]
    prose = [index for index in left if fingerprints[index].signature]
    close = signature_twins(
        [fingerprints[index].signature for index in prose],
        jaccard=config.near_duplicate_jaccard,
        settled=sum(index < settled for index in prose),
    )
    near = {prose[later]: prose[earlier] for later, earlier in close.items()}
    whole = [index for index in prose if index not in near]
    parts = contained_twins(
        [fingerprints[index].sample for index in whole],
        lambda place: text_of(whole[place]),
        containment=config.near_duplicate_containment,
        settled=sum(index < settled for index in whole),
    )
    near |= {whole[part]: whole[other] for part, other in parts.items()}
    entries = [index for index in left if fingerprints[index].name_key is not None]
    cosine = config.near_duplicate_cosine
    near |= cosine_twins(entries, text_of, cosine=cosine, settled=settled)
    for later, earlier in near.items():
        twins[later] = Twin(RejectionReason.NEAR_DUPLICATE, earlier)
    return twins


def _same(fingerprints: Iterable[Fingerprint]) -> dict[int, Twin]:
    """Map each document with the text or the name of an earlier one to that one."""
    twins: dict[int, Twin] = {}
    by_text: dict[bytes, int] = {}
    by_name: dict[str, int] = {}
    for index, (text_key, name_key, *_) in enumerate(fingerprints):
        earlier = by_text.setdefault(text_key, index)
        if earlier != index:
            twins[index] = Twin(RejectionReason.EXACT_DUPLICATE, earlier)
        elif name_key:
            earlier = by_name.setdefault(name_key, index)
            if earlier != index:
                twins[index] = Twin(RejectionReason.SAME_NAME, earlier)
    return twins
