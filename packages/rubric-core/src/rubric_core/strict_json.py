"""JSON read strictly, and written in the one form that hashes are made of."""

import json
from collections import Counter

from pydantic_core import from_json

from rubric_core.errors import NotJsonError, RepeatedKeyError


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        most_common = max(counts, key=counts.__getitem__)
        raise RepeatedKeyError(key=most_common)
    return values


def _not_json(name: str) -> float:
    raise NotJsonError(f"not usable: {name} is no number in JSON")


# float() has no limit on digits, int() has one; no index or count is read by these decoders. They
# are made once, as making a decoder takes as long as reading a short reply.
_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_int=float)
_FINITE = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=float, parse_constant=_not_json
)
_MOST_DIGITS = 300  # a float's integer part has fewer than 309


def _whole(digits: str) -> int | float:
    if len(digits) > _MOST_DIGITS:
        return float(digits)
    return int(digits)


_EXACT = json.JSONDecoder(object_pairs_hook=_unique, parse_int=_whole)


def decode(text: str | bytes, *, finite: bool = False, exact: bool = False) -> object:
    """Decode one JSON document; every number becomes a float, and one too large becomes infinity.

    Args:
        text: the document; bytes are UTF-8.
        finite: refuse `NaN` and `Infinity`, which Python's reader takes and JSON does not have.
        exact: keep whole numbers whole, as ids need: a float tells apart those below 2^53 only.

    Raises:
        RepeatedKeyError: an object at any depth holds a key twice.
        NotJsonError: the text is not one JSON document, or nests deeper than the interpreter can
            follow; or it holds `NaN` or an `Infinity`, and `finite`.
    """
    decoder = _DECODER
    if exact:
        decoder = _EXACT
    elif finite:
        decoder = _FINITE
    try:
        if isinstance(text, bytes):
            text = text.decode()
        if text.startswith("\ufeff"):
            json.loads(text)  # raises, and says what to do
        return decoder.decode(text)
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 at byte {error.start}"
    except json.JSONDecodeError as error:
        place = f"column {error.colno}"
        if error.lineno > 1:
            place = f"line {error.lineno}, {place}"
        problem = f"not JSON: {error.msg.removesuffix(' at')} at {place}"
    except RecursionError:
        problem = "nested too deeply"
    # Raised outside the handlers: the error that `from None` would hide holds the whole text.
    raise NotJsonError(problem)


def breaks_off(text: str | bytes) -> bool:
    """Return whether a text begins as a JSON object and ends within it."""
    raw = text.encode(errors="replace") if isinstance(text, str) else text
    try:
        from_json(raw)
    except ValueError as error:
        return raw.lstrip().startswith(b"{") and str(error).startswith("EOF")
    return False


def canonical_json(value: object) -> str:
    """Return the JSON of a value in the one form that hashes are made of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
