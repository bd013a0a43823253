"""A document: the one thing that sources give and that synthesis reads."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

DocumentKind = Literal["prose", "api"]


class Document(BaseModel):
    """Cleaned text with its origin; printing one shows its title and hash, not its text."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    title: str = Field(min_length=1, repr=False)
    """Heading, file name or dotted name of an object."""
    text: str = Field(min_length=1, repr=False)
    """The whole cleaned text; the API layout of `api_entry` when kind is "api"."""
    source: str = Field(min_length=1)
    """Where it came from: `folder/file.md`, `file.jsonl#id`, `python:numpy.linalg.svd`."""
    kind: DocumentKind = "prose"
    """Prose, or the reference entry of one programming object."""

    @cached_property
    def doc_hash(self) -> str:
        """SHA-256 of the text; it alone decides the split."""
        return hashlib.sha256(self.text.encode()).hexdigest()
