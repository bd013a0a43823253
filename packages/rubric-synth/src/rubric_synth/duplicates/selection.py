"""Which documents are twins of another one: equal, nearly equal, part of it, or equally named."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, cast

from rubric_synth.config import CollectConfig
from rubric_synth.document import Document, RejectionReason

_SMALL_COLLECTION: Final = 50
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
        max_df=1.0 if small else 0.2,
        min_df=1 if small else 2,
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
        pairs = zip(
            (block.row[close] + start).tolist(), block.col[close].tolist(), strict=True
        )
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
    sample: bytes = b""
    """Some of the shingles of prose, by which a part of another text is told."""


class Twin(NamedTuple):
    """Why a document is left out, and for which one that is kept."""

    reason: RejectionReason
    earlier: int


def fingerprint(document: Document) -> Fingerprint:
    """Return what tells a document from another."""
    from rubric_synth.duplicates.minhash import signature  # loads numpy
    from rubric_synth.duplicates.passages import sample

    normalised = " ".join(document.text.casefold().split())
    is_api = document.kind == "api"
    return Fingerprint(
        text_key=hashlib.sha256(normalised.encode()).digest()[:16],
        name_key=document.title.rpartition(".")[2].lower() if is_api else None,
        signature=b"" if is_api else signature(document.text),
        sample=b"" if is_api else sample(document.text),
    )


def find_twins(
    fingerprints: Sequence[Fingerprint],
    text_of: Callable[[int], str],
    *,
    config: CollectConfig,
    settled: int = 0,
) -> dict[int, Twin]:
    """Map each document that is left out to its reason and to the twin that is kept.

    Of two of which one is part of the other, the shorter is left out.

    Nothing that is kept is close to anything else that is kept, as far as an estimate can tell,
    so that no split can hold a twin of a document on another side.

    Args:
        fingerprints: Of all documents, in the order in which the first is kept.
        text_of: Reads the text of a document by its place in that order.
        config: The thresholds.
        settled: This many documents, at the beginning, were found to be no near duplicates
            before and are not dropped as such: later documents move the weights of words.
    """
    from rubric_synth.duplicates.minhash import signature_twins  # loads numpy
    from rubric_synth.duplicates.passages import contained_twins

    twins = _same(fingerprints)
    left = [index for index in range(len(fingerprints)) if index not in twins]
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
    reason = RejectionReason.NEAR_DUPLICATE
    return twins | {later: Twin(reason, earlier) for later, earlier in near.items()}


def _same(fingerprints: Iterable[Fingerprint]) -> dict[int, Twin]:
    twins: dict[int, Twin] = {}
    by_text: dict[bytes, int] = {}
    by_name: dict[str, int] = {}
    for index, (text_key, name_key, *_) in enumerate(fingerprints):
        if (earlier := by_text.setdefault(text_key, index)) != index:
            twins[index] = Twin(RejectionReason.EXACT_DUPLICATE, earlier)
        elif name_key and (earlier := by_name.setdefault(name_key, index)) != index:
            twins[index] = Twin(RejectionReason.SAME_NAME, earlier)
    return twins
