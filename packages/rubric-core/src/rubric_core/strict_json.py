"""JSON decoding that refuses repeated keys and cannot fail on the size of a number."""

from __future__ import annotations

import json
from collections import Counter
from typing import Final

from rubric_core.errors import RepeatedKeyError


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise RepeatedKeyError(key=key)
    return values


# float() has no limit on digits, int() has; an index or a count is never read through here. Made
# once: to make one takes as long as to read a short reply.
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_int=float)


def decode(text: str) -> object:
    """Decode one JSON document; every number becomes a float, and one too large becomes infinity.

    Raises:
        RepeatedKeyError: an object at any depth holds a key twice.
        json.JSONDecodeError: the text is not one JSON document.
        RecursionError: the text nests deeper than the interpreter can follow.
    """
    if text.startswith("\ufeff"):
        return json.loads(text)  # raises, and says what to do
    return _DECODER.decode(text)
