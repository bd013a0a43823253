"""The keywords of JSON Schema that compare a single value with a setting."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, cast

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
