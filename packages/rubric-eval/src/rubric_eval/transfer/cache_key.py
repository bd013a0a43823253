"""Whose answers a cache of lm-eval's holds: model, arguments, and the files that they name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CHUNK_BYTES: Final = 2**20


def cache_key(model: str, model_args: Mapping[str, Any] | Sequence[str] | str | None) -> str:
    """Return 16 hex digits that two models never share.

    A local folder or file among the arguments counts by its content: a checkpoint that is trained
    on and saved again under its old name is another model. A name on the Hub counts by itself, with
    its `revision`.

    Args:
        model: lm-eval's kind of model, such as "hf".
        model_args: as they were given, or as a file of arguments has them.
    """
    pairs = sorted(_pairs(model_args))
    content = [[key, value, _content(value)] for key, value in pairs]
    canonical = json.dumps([model, content], separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _pairs(given: Mapping[str, Any] | Sequence[str] | str | None) -> Iterator[tuple[str, str]]:
    if given is None:
        return
    if isinstance(given, Mapping):
        for key, value in given.items():
            yield str(key), value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        return
    texts = [given] if isinstance(given, str) else list(given)
    for text in texts:
        for part in text.split(","):
            key, _, value = part.partition("=")
            yield key.strip(), value.strip()


def _content(value: str) -> str | None:
    path = Path(value).expanduser()
    try:
        if not value or not path.exists():
            return None
        files = (
            [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
        )
    except OSError:  # longer than a name may be
        return None
    digest = hashlib.sha256()
    for file in files:
        name = file.relative_to(path).as_posix() if path.is_dir() else ""
        digest.update(json.dumps([name, file.stat().st_size]).encode())
        with file.open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()
