"""JSON decoding that refuses repeated keys and cannot fail on the size of a number."""

from __future__ import annotations

import json

from rubric_core.errors import RepeatedKeyError


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise RepeatedKeyError(key=key)
            seen.add(key)
    return values


def decode(text: str) -> object:
    """Decode one JSON document; every number becomes a float, and one too large becomes infinity.

    Raises:
        RepeatedKeyError: an object at any depth holds a key twice.
        json.JSONDecodeError: the text is not one JSON document.
        RecursionError: the text nests deeper than the interpreter can follow.
    """
    # float() has no limit on digits, int() has; an index or a count is never read through here.
    return json.loads(text, object_pairs_hook=_unique, parse_int=float)
