"""The keywords of JSON Schema that ask other schemas, about a value or about parts of it.

Each yields questions, a schema and a value, is sent what was found, and returns the keyword that
failed ("" for its own), or None. `seen` takes the keys or places that it looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Protocol, cast

Json = Any
"""None, bool, float, str, list or dict; every number is a float, and none is −0."""


def as_text(value: Json) -> str:
    """Return the same text for values that are equal to JSON Schema, and another for others."""
    return json.dumps(value, sort_keys=True)


_CLASSES: dict[str, type] = {
    "array": list,
    "boolean": bool,
    "null": type(None),
    "number": float,
    "object": dict,
    "string": str,
}


def _is_of_type(value: Json, names: str | list[str]) -> bool:
    return any(
        value.is_integer() if name == "integer" and isinstance(value, float)
        # `True` is an int of Python and no number of JSON.
        else type(value) is _CLASSES.get(name)
        for name in ([names] if isinstance(names, str) else names)
    )  # fmt: skip


def _is_multiple(value: float, of: float) -> bool:
    try:
        quotient = value / of
        return int(quotient) == quotient
    except OverflowError:  # past the largest float
        return (Fraction(value) / Fraction(of)).denominator == 1


def _has_dependents(value: dict[str, Json], dependents: dict[str, list[str]]) -> bool:
    return all(value.keys() >= set(names) for key, names in dependents.items() if key in value)


def _of(kind: type, holds: Callable[[Any, Any], bool]) -> Callable[[Json, Json], bool]:
    return lambda value, setting: not isinstance(value, kind) or holds(value, setting)


VALUE_KEYWORDS: Final[dict[str, Callable[[Json, Json], bool]]] = {
    "type": _is_of_type,
    "minimum": _of(float, lambda value, least: value >= least),
    "maximum": _of(float, lambda value, most: value <= most),
    "exclusiveMinimum": _of(float, lambda value, bound: value > bound),
    "exclusiveMaximum": _of(float, lambda value, bound: value < bound),
    "multipleOf": _of(float, _is_multiple),
    "minLength": _of(str, lambda value, fewest: len(value) >= fewest),
    "maxLength": _of(str, lambda value, most: len(value) <= most),
    "minItems": _of(list, lambda value, fewest: len(cast("list[Json]", value)) >= fewest),
    "maxItems": _of(list, lambda value, most: len(cast("list[Json]", value)) <= most),
    "minProperties": _of(dict, lambda value, fewest: len(value) >= fewest),
    "maxProperties": _of(dict, lambda value, most: len(value) <= most),
    "required": _of(dict, lambda value, names: value.keys() >= set(names)),
    "dependentRequired": _of(dict, _has_dependents),
}
"""Whether a value is what a keyword sets, in a time that only the setting decides."""


Schema = Any
"""True, False, or an object that is a schema of the draft."""

Seen = set[str | int]


@dataclass(frozen=True, slots=True)
class Found:
    """What a schema finds in a value."""

    failed: str | None = None
    """The keyword that fails, "" for the schema `false`; None where the value matches."""
    seen: frozenset[str | int] = frozenset()
    """Keys or places that were looked at; kept where `unevaluated…` may ask for them."""


class _Work(Protocol):
    references: Mapping[str, Schema]

    def spend(self, steps: int, /) -> None: ...
    def note(self, seen: Seen, more: Collection[str | int], /) -> None: ...


Applying = Generator[tuple[Schema, Json], Found, str | None]


def _reference(work: _Work, schema: dict[str, Any], value: Json, seen: Seen) -> Applying:
    found = yield work.references[schema["$ref"]], value
    work.note(seen, found.seen)
    return found.failed


def _all_of(work: _Work, schema: dict[str, Any], value: Json, seen: Seen) -> Applying:
    for part in schema["allOf"]:
        found = yield part, value
        if found.failed is not None:
            return found.failed
        work.note(seen, found.seen)
    return None


def _any_of(work: _Work, schema: dict[str, Any], value: Json, seen: Seen) -> Applying:
    matched = 0
    for part in schema["anyOf"]:
        found = yield part, value
        if found.failed is None:
            matched += 1
            work.note(seen, found.seen)
    return None if matched else ""


def _one_of(work: _Work, schema: dict[str, Any], value: Json, seen: Seen) -> Applying:
    matched = 0
    for part in schema["oneOf"]:
        found = yield part, value
        if found.failed is None:
            matched += 1
            work.note(seen, found.seen)
        if matched > 1:
            return ""
    return None if matched else ""


def _not(_work: _Work, schema: dict[str, Any], value: Json, _seen: Seen) -> Applying:
    found = yield schema["not"], value
    return "" if found.failed is None else None


def _if(work: _Work, schema: dict[str, Any], value: Json, seen: Seen) -> Applying:
    found = yield schema["if"], value
    if found.failed is None:
        work.note(seen, found.seen)
    branch = "then" if found.failed is None else "else"
    if branch not in schema:
        return None
    found = yield schema[branch], value
    work.note(seen, found.seen)
    return found.failed


def _dependent_schemas(
    work: _Work, schema: dict[str, Any], value: dict[str, Json], seen: Seen
) -> Applying:
    parts = schema["dependentSchemas"]
    work.spend(len(parts))
    for name in [name for name in parts if name in value]:
        found = yield parts[name], value
        if found.failed is not None:
            return found.failed
        work.note(seen, found.seen)
    return None


def _properties(
    work: _Work, schema: dict[str, Any], value: dict[str, Json], seen: Seen
) -> Applying:
    wanted = schema["properties"]
    work.spend(len(wanted))
    for name in [name for name in wanted if name in value]:
        found = yield wanted[name], value[name]
        if found.failed is not None:
            return found.failed
        work.note(seen, (name,))
    return None


def _additional(
    work: _Work, schema: dict[str, Any], value: dict[str, Json], seen: Seen
) -> Applying:
    extra = value.keys() - schema.get("properties", {}).keys()
    return (yield from _each(work, schema["additionalProperties"], value, extra, seen))


def _unevaluated(
    work: _Work, schema: dict[str, Any], value: dict[str, Json], seen: Seen
) -> Applying:
    extra = value.keys() - seen
    failed = yield from _each(work, schema["unevaluatedProperties"], value, extra, seen)
    return None if failed is None else ""


def _names(work: _Work, schema: dict[str, Any], value: dict[str, Json], _seen: Seen) -> Applying:
    work.spend(len(value))
    for name in value:
        found = yield schema["propertyNames"], name
        if found.failed is not None:
            return found.failed
    return None


def _prefix(work: _Work, schema: dict[str, Any], value: list[Json], seen: Seen) -> Applying:
    for place, (part, item) in enumerate(zip(schema["prefixItems"], value, strict=False)):
        found = yield part, item
        if found.failed is not None:
            return found.failed
        work.note(seen, (place,))
    return None


def _items(work: _Work, schema: dict[str, Any], value: list[Json], seen: Seen) -> Applying:
    rest = range(len(schema.get("prefixItems", ())), len(value))
    return (yield from _each(work, schema["items"], value, rest, seen))


def _unevaluated_items(
    work: _Work, schema: dict[str, Any], value: list[Json], seen: Seen
) -> Applying:
    rest = [place for place in range(len(value)) if place not in seen]
    failed = yield from _each(work, schema["unevaluatedItems"], value, rest, seen)
    return None if failed is None else ""


def _contains(work: _Work, schema: dict[str, Any], value: list[Json], seen: Seen) -> Applying:
    work.spend(len(value))
    places: list[int] = []
    for place, item in enumerate(value):
        found = yield schema["contains"], item
        if found.failed is None:
            places.append(place)
    if len(places) < schema.get("minContains", 1):
        return "minContains" if places else ""
    if len(places) > schema.get("maxContains", len(value)):
        return "maxContains"
    work.note(seen, places)
    return None


def _each(
    work: _Work,
    part: Schema,
    value: Any,
    places: Collection[Any],
    seen: Seen,
) -> Applying:
    work.spend(len(value))
    for place in places:
        found = yield part, value[place]
        if found.failed is not None:
            return found.failed
    work.note(seen, places)
    return None


_Keyword = Callable[[_Work, dict[str, Any], Any, Seen], Applying]

PART_KEYWORDS: Final[dict[str, tuple[type, _Keyword]]] = {
    "$ref": (object, _reference),
    "allOf": (object, _all_of),
    "anyOf": (object, _any_of),
    "oneOf": (object, _one_of),
    "not": (object, _not),
    "if": (object, _if),
    "dependentSchemas": (dict, _dependent_schemas),
    "properties": (dict, _properties),
    "additionalProperties": (dict, _additional),
    "propertyNames": (dict, _names),
    "prefixItems": (list, _prefix),
    "items": (list, _items),
    "contains": (list, _contains),
    "unevaluatedProperties": (dict, _unevaluated),
    "unevaluatedItems": (list, _unevaluated_items),
}
"""What they look at, and how."""

LAST_KEYWORDS: Final = ("unevaluatedProperties", "unevaluatedItems")
"""They ask what all the others of their schema have looked at."""
