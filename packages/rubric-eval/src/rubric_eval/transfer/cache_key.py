"""Whose answers a cache of lm-eval's holds: model, arguments, and the files that they name."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from rubric_core.files import open_file

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
        model_args: as they were given, key=value or JSON, or as a file of arguments has them.
    """
    pairs = sorted(_pairs(model_args), key=lambda pair: pair[0])
    content = [
        [key, _canonical(value), [_content(text) for text in _texts(value)]] for key, value in pairs
    ]
    canonical = json.dumps([model, content], separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _pairs(given: Mapping[str, Any] | Sequence[str] | str | None) -> Iterator[tuple[str, Any]]:
    """Read arguments as lm-eval does: a JSON object, or key=value between commas."""
    if isinstance(given, Mapping):
        yield from ((str(key), value) for key, value in given.items())
        return
    for text in [given] if isinstance(given, str) else given or ():
        try:
            found: Any = json.loads(text)
        except ValueError:
            found = None
        if isinstance(found, dict):
            yield from cast("dict[str, Any]", found).items()
            continue
        for part in _split(text):
            key, _, value = part.partition("=")
            yield key.strip(), _value(value.strip())


def _split(text: str) -> Iterator[str]:
    """Split at commas outside of brackets and quotes."""
    start = depth = 0
    quote = ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "[({":
            depth += 1
        elif char in "])}":
            depth = max(depth - 1, 0)
        elif char == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _value(text: str) -> object:
    """Read what stands in quotes or brackets; the rest stays as it is written."""
    if text[:1] not in {'"', "'", "[", "(", "{"}:
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _canonical(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=repr)


def _texts(value: object) -> Iterator[str]:
    """Every text of a value, for any may name a file."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for _, one in sorted(cast("Mapping[object, object]", value).items(), key=repr):
            yield from _texts(one)
    elif isinstance(value, (list, tuple)):
        for one in cast("Sequence[object]", value):
            yield from _texts(one)


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
        with open_file(file) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()
