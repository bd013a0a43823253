"""JSON Schema (draft 2020-12) on one document, in bounded work.

Each part of a schema meets each part of a document once, and what came of it is kept: a schema that
refers to itself below `oneOf` would otherwise go through a document again for every branch at every
level. All is counted in steps. Answer and steps depend on the schema and the document alone, not on
the machine, its load or the caller's stack.

`jsonschema`, which checks the schemas themselves, keeps nothing and has no bound.
"""

import json
import math
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, cast

Json = Any
"""None, bool, float, str, list or dict; every number is a float, and none is −0."""
Schema = Any
"""True, False, or an object that is a schema of the draft."""

_CHARACTERS_A_STEP = 20
"""Characters per step, of values compared as texts and of strings searched with a pattern."""
_NAMES_A_STEP = 10
"""Names per step, of settings that are lists, such as `required`."""


class StepsError(Exception):
    """A document takes more steps than were allowed."""


class EndlessSchemaError(Exception):
    """A schema refers to itself for the same part of a document."""


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
    return all(
        value.keys() >= set(names) for key, names in dependents.items() if key in value
    )


_LIMITS: dict[str, tuple[type, Callable[[Any, Any], bool]]] = {
    "type": (object, _is_of_type),
    "minimum": (float, lambda value, least: value >= least),
    "maximum": (float, lambda value, most: value <= most),
    "exclusiveMinimum": (float, lambda value, bound: value > bound),
    "exclusiveMaximum": (float, lambda value, bound: value < bound),
    "multipleOf": (float, _is_multiple),
    "minLength": (str, lambda value, fewest: len(value) >= fewest),
    "maxLength": (str, lambda value, most: len(value) <= most),
    "minItems": (list, lambda value, fewest: len(value) >= fewest),
    "maxItems": (list, lambda value, most: len(value) <= most),
    "minProperties": (dict, lambda value, fewest: len(value) >= fewest),
    "maxProperties": (dict, lambda value, most: len(value) <= most),
    "required": (dict, lambda value, names: value.keys() >= set(names)),
    "dependentRequired": (dict, _has_dependents),
}
"""Which values a keyword bounds, and whether one is within, in a time that the setting decides."""

_OF_THE_WHOLE = ("$ref", "allOf", "anyOf", "oneOf", "not")
"""Those that ask about the value itself, whatever it is."""

_APPLYING: dict[str, type] = {
    **dict.fromkeys(_OF_THE_WHOLE, object),
    **dict.fromkeys(("dependentSchemas", "properties", "additionalProperties"), dict),
    **dict.fromkeys(("propertyNames", "unevaluatedProperties"), dict),
    **dict.fromkeys(("prefixItems", "items", "contains", "unevaluatedItems"), list),
}
"""Keywords that ask other schemas, and the values that they look at."""

_WANTED = {
    "anyOf": (1, math.inf),
    "oneOf": (1, 1),
    "not": (0, 0),
    "contains": (1, math.inf),
}
"""How many matches a keyword wants, least and most; the others of `_APPLYING` want all."""

_LAST = ("unevaluatedProperties", "unevaluatedItems")
"""They ask what all the others of their schema have looked at."""

_Seen = set[str | int]
_Question = tuple[str | int | None, Schema, Json]
"""A part of a schema and of a document, and the latter's key or place where it has one of its own;
without, it is the whole value, and what the answer looked at was looked at here too."""


@dataclass(frozen=True)
class _Answer:
    """Result of a schema for a value."""

    failed: str | None = None
    """The keyword that fails, "" for the schema `false`; None where the value matches."""
    seen: frozenset[str | int] = frozenset()
    """Keys or places that were looked at; kept where `unevaluated…` may ask for them."""


_MATCH = _Answer()
_NEVER = _Answer("")
_Judging = Generator[tuple[Schema, Json], _Answer, _Answer]
_Asking = Generator[tuple[Schema, Json], _Answer, str | None]
"""Yields questions, is sent their answers, and returns the keyword that failed, "" for its own."""


@dataclass
class Validation:
    """One document against one schema."""

    schema: Schema
    """The whole of it."""
    references: Mapping[str, Schema]
    """The part of it that each `$ref` stands for."""
    matches: Callable[[str, str], bool]
    """Whether a pattern occurs in a string."""
    steps_left: int
    _notes: bool = False
    # By the ids of a part of the schema and a part of the document, which both stay as they
    # are; None while it is looked for.
    _answers: dict[tuple[int, int], _Answer | None] = field(
        default_factory=dict[Any, Any]
    )
    _enums: dict[int, frozenset[str]] = field(default_factory=dict[int, frozenset[str]])

    def failure(self, document: Json) -> str | None:
        """Return the keyword that a document fails first, or None where it matches.

        Raises:
            StepsError: it takes more steps than are allowed.
            EndlessSchemaError: the schema refers to itself without end.
        """
        # A stack of our own: how deep calls may go depends on who calls.
        waiting: list[tuple[tuple[int, int], _Judging]] = []
        self._notes = "unevaluated" in json.dumps(self.schema)
        question = self.schema, document
        while True:
            schema, value = question
            key = id(schema), id(value)
            self._spend(1)
            if isinstance(schema, bool):
                answer = _MATCH if schema else _NEVER
            elif key not in self._answers:
                answer = self._answers[key] = None
                waiting.append((key, self._judge(schema, value)))
            elif (answer := self._answers[key]) is None:
                raise EndlessSchemaError
            while waiting:
                key, judging = waiting[-1]
                try:
                    question = judging.send(cast("_Answer", answer))  # None starts it
                    break
                except StopIteration as ended:
                    waiting.pop()
                    answer = self._answers[key] = cast("_Answer", ended.value)
            else:
                return cast("_Answer", answer).failed

    def _judge(self, schema: dict[str, Any], value: Json) -> _Judging:
        self._spend(len(schema))
        seen: _Seen = set()
        for keyword in sorted(schema, key=_LAST.__contains__):
            if keyword in _APPLYING:
                failed = yield from self._apply(keyword, schema, value, seen)
            elif keyword == "if":
                failed = yield from self._branch(schema, value, seen)
            else:
                failed = (
                    None if self._holds(keyword, schema[keyword], value) else keyword
                )
            if failed is not None:
                return _Answer(failed or keyword)
        return _Answer(None, frozenset(seen)) if seen else _MATCH

    def _apply(
        self, keyword: str, schema: dict[str, Any], value: Json, seen: _Seen
    ) -> _Asking:
        """Ask what a keyword wants to match: all of it, or as many as it says."""
        if not isinstance(value, _APPLYING[keyword]):
            return None
        least, most = _WANTED.get(keyword, (0, math.inf))
        if keyword == "contains":
            least = schema.get("minContains", least)
            most = schema.get("maxContains", most)
        matched = 0
        for place, part, inner in self._questions(keyword, schema, value, seen):
            answer = yield part, inner
            if answer.failed is None:
                matched += 1
                self._note(seen, answer.seen if place is None else (place,))
            elif keyword not in _WANTED:
                return "" if keyword in _LAST else answer.failed
            if matched > most:
                break
        if least <= matched <= most:
            return None
        bound = "maxContains" if matched > most else "minContains"
        return bound if keyword == "contains" and matched else ""

    def _questions(
        self, keyword: str, schema: dict[str, Any], value: Any, seen: _Seen
    ) -> list[_Question]:
        setting = schema[keyword]
        if keyword in _OF_THE_WHOLE:
            parts: list[Schema] = setting if keyword.endswith("Of") else [setting]
            if keyword == "$ref":
                parts = [self.references[setting]]
            return [(None, part, value) for part in parts]
        self._spend(
            len(value if keyword not in {"properties", "dependentSchemas"} else setting)
        )
        match keyword:
            case "dependentSchemas":
                return [
                    (None, part, value)
                    for name, part in setting.items()
                    if name in value
                ]
            case "properties":
                return [
                    (name, setting[name], value[name])
                    for name in setting
                    if name in value
                ]
            case "prefixItems":
                return [
                    (place, *pair)
                    for place, pair in enumerate(zip(setting, value))  # noqa: B905
                ]
            case "propertyNames":
                return [(None, setting, name) for name in value]
            case "additionalProperties":
                done = schema.get("properties", {})
            case "items":
                done = range(len(schema.get("prefixItems", ())))
            case _:
                done = () if keyword == "contains" else seen
        inner = (
            cast("Any", value).items() if isinstance(value, dict) else enumerate(value)
        )
        return [(place, setting, item) for place, item in inner if place not in done]

    def _branch(self, schema: dict[str, Any], value: Json, seen: _Seen) -> _Asking:
        answer = yield schema["if"], value
        self._note(seen, answer.seen)
        answer = yield (
            schema.get("then" if answer.failed is None else "else", True),
            value,
        )
        self._note(seen, answer.seen)
        return answer.failed

    def _holds(self, keyword: str, setting: Json, value: Json) -> bool:
        match keyword:
            case "pattern" if isinstance(value, str):
                self._spend(len(value) // _CHARACTERS_A_STEP)
                return self.matches(setting, value)
            case "const":
                return self._text(value) == self._text(setting)
            case "enum":
                if id(setting) not in self._enums:
                    self._enums[id(setting)] = frozenset(map(self._text, setting))
                return self._text(value) in self._enums[id(setting)]
            case "uniqueItems" if setting and isinstance(value, list):
                items = cast("list[Json]", value)
                return len(set(map(self._text, items))) == len(items)
            case _:
                if isinstance(setting, (list, dict)):
                    self._spend(len(cast("Collection[str]", setting)) // _NAMES_A_STEP)
                limit = _LIMITS.get(keyword)
                return not (limit and isinstance(value, limit[0])) or limit[1](
                    value, setting
                )

    def _text(self, value: Json) -> str:
        """Return the same text for values that are equal to JSON Schema, another for others."""
        text = json.dumps(value, sort_keys=True)
        self._spend(1 + len(text) // _CHARACTERS_A_STEP)
        return text

    def _spend(self, steps: int) -> None:
        self.steps_left -= steps
        if self.steps_left < 0:
            raise StepsError

    def _note(self, seen: _Seen, more: Collection[str | int]) -> None:
        """Remember what was looked at, where somebody may ask for it."""
        if self._notes:
            self._spend(len(more))
            seen.update(more)
