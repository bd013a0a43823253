"""JSON decoding that refuses repeated keys and cannot fail on the size of a number."""

from __future__ import annotations

import json
from collections import Counter
from typing import Final

from rubric_core.errors import RepeatedKeyError, SchemaError


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise RepeatedKeyError(key=key)
    return values


def _not_json(name: str) -> float:
    raise SchemaError(f"{name} is no number in JSON")


# float() has no limit on digits, int() has; an index or a count is never read through here. Made
# once: to make one takes as long as to read a short reply.
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_int=float)
_OF_FINITE: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=float, parse_constant=_not_json
)


def decode(text: str, *, finite: bool = False) -> object:
    """Decode one JSON document; every number becomes a float, and one too large becomes infinity.

    Args:
        text: the document.
        finite: refuse `NaN` and `Infinity`, which Python's reader takes and JSON does not have.

    Raises:
        RepeatedKeyError: an object at any depth holds a key twice.
        SchemaError: it holds `NaN` or an `Infinity`, and `finite`.
        json.JSONDecodeError: the text is not one JSON document.
        RecursionError: the text nests deeper than the interpreter can follow.
    """
    if text.startswith("\ufeff"):
        return json.loads(text)  # raises, and says what to do
    return (_OF_FINITE if finite else _DECODER).decode(text)
