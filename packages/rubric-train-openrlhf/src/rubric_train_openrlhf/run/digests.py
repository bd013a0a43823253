"""Digests that tell one model folder from another without reading all of its weights.

Meant for mistakes, such as a tokenizer that was replaced or a folder that was written over: another
training of the same model differs in nearly every byte. Against intent nothing here helps.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from rubric_core.files import open_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_BLOCK_BYTES: Final = 1 << 20
_BLOCKS: Final = 16
"""Of a file with more, as many are read, spread evenly, the first and the last among them."""
_COUNTED: Final = frozenset(
    {".bin", ".jinja", ".json", ".model", ".safetensors", ".tiktoken", ".txt"}
)


def model_digests(folder: Path) -> dict[str, str]:
    """Digest each file of a model folder: weights, configuration, tokenizer, templates.

    Returns:
        Digests by name, in hexadecimal. Files in folders below it are not looked at.

    Raises:
        OSError: a file cannot be read.
    """
    return {
        path.name: _digest(path)
        for path in sorted(folder.iterdir())
        if path.suffix in _COUNTED and not path.name.startswith(".") and path.is_file()
    }


def first_changed(folder: Path, before: Mapping[str, str]) -> str | None:
    """Name the first file of those that were digested that is missing or another.

    Raises:
        OSError: a file cannot be read.
    """
    now = model_digests(folder)
    return next((name for name, digest in sorted(before.items()) if now.get(name) != digest), None)


def _digest(path: Path) -> str:
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with open_file(path) as file:
        if size <= _BLOCKS * _BLOCK_BYTES:
            digest.update(file.read())
        else:
            for block in range(_BLOCKS):
                file.seek((size - _BLOCK_BYTES) * block // (_BLOCKS - 1))
                digest.update(file.read(_BLOCK_BYTES))
    return digest.hexdigest()
