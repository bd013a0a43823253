"""Collecting: sources to one folder of distinct, cleaned documents, and reading it back."""

from __future__ import annotations

from rubric_synth.collect.collection import CollectProgress, CollectReport, collect
from rubric_synth.collect.folder import (
    DOCUMENTS_FILE,
    MANIFEST_FILE,
    REJECTED_FILE,
    collected_hashes,
    read_collected,
    read_document,
)

__all__ = [
    "DOCUMENTS_FILE",
    "MANIFEST_FILE",
    "REJECTED_FILE",
    "CollectProgress",
    "CollectReport",
    "collect",
    "collected_hashes",
    "read_collected",
    "read_document",
]
