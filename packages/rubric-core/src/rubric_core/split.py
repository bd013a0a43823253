"""Which side of the split a document is on: by its hash, so that no document is on two."""

from __future__ import annotations

import hashlib
from typing import Literal, TypeAlias

from rubric_core.errors import ConfigError, SchemaError

Split: TypeAlias = Literal["train", "validation", "test"]

_HASH_BITS = 64


def split_of(doc_hash: str, *, train: float = 0.70, validation: float = 0.15) -> Split:
    """Return the side of a document: the same for all its tasks, in every run and order.

    Args:
        doc_hash: identifies the document.
        train: share of documents for training.
        validation: share for validation; the rest is for the test.

    Raises:
        SchemaError: no text, or one that UTF-8 cannot hold.
        ConfigError: shares that are negative or add up to more than 1.

    Source: paper, §4, Dataset.
    """
    if not (train >= 0 and validation >= 0 and train + validation <= 1):
        raise ConfigError(
            f"shares must be ≥ 0 and add up to at most 1, not {train!r} and {validation!r}",
            location="train" if not 0 <= train <= 1 else "validation",
        )
    try:
        digest = hashlib.sha256(doc_hash.encode()).digest()
    except (AttributeError, UnicodeEncodeError):
        raise SchemaError(
            f"doc_hash must be a text that UTF-8 can hold, not {doc_hash!r}", field="doc_hash"
        ) from None
    position = int.from_bytes(digest[: _HASH_BITS // 8]) / 2**_HASH_BITS
    if position < train:
        return "train"
    return "validation" if position < train + validation else "test"
