"""What a folder holds already: its documents come first, so that no new one displaces them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, cast

from rubric_core.files import open_file, read_file
from rubric_synth.collect.folder import DOCUMENTS_FILE, MANIFEST_FILE
from rubric_synth.errors import OutputError

if TYPE_CHECKING:
    from pathlib import Path

    from rubric_synth.config import CollectConfig


class Place(NamedTuple):
    """Of a document in the older collection."""

    order: int
    source: str


class Older(NamedTuple):
    """An older collection in the same folder."""

    places: dict[bytes, Place]
    """By the hash of each document."""
    same_thresholds: bool
    """Whether its near duplicates were decided as they are now."""


def read_older(out: Path, config: CollectConfig) -> Older:
    """Read the hashes and sources of what a folder holds, if it holds anything.

    Damaged lines are left alone: collecting again is what repairs them.

    Raises:
        OutputError: Files of these names stand there which `collect` did not write.
    """
    documents, manifest = out / DOCUMENTS_FILE, out / MANIFEST_FILE
    settings = _settings(manifest)
    if settings is None and (manifest.exists() or documents.exists()):
        present = manifest if manifest.exists() else documents
        message = (
            f"{str(present)!r} was not written by `rubric-synth collect`, which would replace it; "
            "choose another folder"
        )
        raise OutputError(message, path=present)
    names = ("near_duplicate_jaccard", "near_duplicate_cosine")
    same = all((settings or {}).get(name) == getattr(config, name) for name in names)
    return Older(_places(documents), same)


def _settings(manifest: Path) -> dict[str, object] | None:
    """Return the configuration in a collection's manifest; None for any other file."""
    try:
        content: object = json.loads(read_file(manifest))
    except (OSError, ValueError, RecursionError):
        return None
    fields = cast("dict[str, object]", content) if isinstance(content, dict) else {}
    hashes, settings = fields.get("sha256"), fields.get("config")
    if not isinstance(hashes, dict) or DOCUMENTS_FILE not in hashes:
        return None
    return cast("dict[str, object]", settings) if isinstance(settings, dict) else {}


def _places(documents: Path) -> dict[bytes, Place]:
    places: dict[bytes, Place] = {}
    try:
        with open_file(documents) as lines:
            for order, line in enumerate(lines):
                try:
                    row = cast("dict[str, object]", dict(json.loads(line)))
                    doc_hash = bytes.fromhex(str(row["doc_hash"]))
                except (ValueError, TypeError, KeyError, RecursionError):
                    continue
                places.setdefault(doc_hash, Place(order, str(row.get("source"))))
    except OSError:
        return places
    return places
