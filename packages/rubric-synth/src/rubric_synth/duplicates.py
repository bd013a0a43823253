"""Exact duplicates, near duplicates and namesakes among documents: the first of each is kept.

Nothing that is kept is close to anything else that is kept, so no split can hold a twin of
a document on another side.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, cast

from rubric_synth.rejection import Rejection, RejectionReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rubric_synth.document import Document

_BLOCK_ROWS: Final = 512
_SMALL_COLLECTION: Final = 50
_COMMON_FRAC: Final = 0.2
_WORDS: Final = r"[A-Za-z_][A-Za-z0-9_]+"


def without_duplicates(
    documents: Iterable[Document], *, cosine: float
) -> tuple[list[Document], list[Rejection]]:
    """Keep the first of every set of equal, nearly equal or equally named documents.

    Documents are taken in the order of their sources, so the order of reading has no effect.

    Args:
        documents: All candidates.
        cosine: TF-IDF cosine above which two documents are near duplicates.

    Returns:
        The kept documents, in the order of their sources, and one rejection for each other.
    """
    ordered = sorted(documents, key=lambda document: (document.source, document.doc_hash))
    rejections: list[Rejection] = []
    distinct: list[Document] = []
    first_by_text: dict[str, Document] = {}
    first_by_name: dict[str, Document] = {}
    for document in ordered:
        text_key = hashlib.sha256(" ".join(document.text.casefold().split()).encode()).hexdigest()
        name_key = document.title.rpartition(".")[2].lower() if document.kind == "api" else ""
        if (twin := first_by_text.setdefault(text_key, document)) is not document:
            rejections.append(_rejected(document, RejectionReason.EXACT_DUPLICATE, twin))
        elif name_key and (twin := first_by_name.setdefault(name_key, document)) is not document:
            rejections.append(_rejected(document, RejectionReason.SAME_NAME, twin))
        else:
            distinct.append(document)
    # Weights of words move when documents go, and with them a pair's cosine: until none is left.
    while twins := _near_twins([document.text for document in distinct], cosine):
        rejections += [
            _rejected(distinct[index], RejectionReason.NEAR_DUPLICATE, distinct[twin])
            for index, twin in twins.items()
        ]
        distinct = [document for index, document in enumerate(distinct) if index not in twins]
    return distinct, rejections


def _near_twins(texts: Sequence[str], cosine: float) -> dict[int, int]:
    """Map each dropped text to the earlier kept text that it is close to."""
    twins: dict[int, int] = {}
    if len(texts) < 2:  # noqa: PLR2004 - a twin needs two
        return twins
    # Loaded at its first use: it takes longer to import than all of this package.
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415

    small = len(texts) < _SMALL_COLLECTION
    vectorizer: Any = TfidfVectorizer(
        max_df=1.0 if small else _COMMON_FRAC,
        min_df=1 if small else 2,
        sublinear_tf=True,
        token_pattern=_WORDS,
    )
    try:
        rows = vectorizer.fit_transform(texts)
    except ValueError:  # no word is left, so nothing can be compared
        return twins
    for start in range(0, len(texts), _BLOCK_ROWS):
        block = (rows[start : start + _BLOCK_ROWS] @ rows[: start + _BLOCK_ROWS].T).tocoo()
        close = (block.data > cosine) & (block.col < block.row + start)
        pairs = zip((block.row[close] + start).tolist(), block.col[close].tolist(), strict=True)
        for later, earlier in sorted(cast("Iterable[tuple[int, int]]", pairs)):
            if earlier not in twins:
                twins.setdefault(later, earlier)
    return twins


def _rejected(document: Document, reason: RejectionReason, twin: Document) -> Rejection:
    return Rejection(
        source=document.source,
        stage="collect",
        reason=reason,
        detail=f"of {twin.source}",
        doc_hash=document.doc_hash,
    )
