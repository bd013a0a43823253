"""The files of a dataset folder."""

from __future__ import annotations

from typing import Final

SPLITS: Final = ("train", "validation", "test")
REJECTED_FILE: Final = "rejected.jsonl"
MANIFEST_FILE: Final = "manifest.json"
CARD_FILE: Final = "README.md"
WORK_FOLDER: Final = "work"
"""What a run keeps in the folder so that the next one can go on with it."""
