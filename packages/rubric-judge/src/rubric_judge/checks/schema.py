"""`json_schema:` and a JSON Schema (draft 2020-12), on the same line or on those that follow.

The response's JSON is the whole response, or its only fenced block that is marked `json` or not
marked. `$ref` may point into the schema itself; nothing is fetched.
"""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, cast

from rubric_judge.checks import pattern, python_tests
from rubric_judge.checks.validation import EndlessSchemaError, Validation
from rubric_judge.errors import VerificationError

_DRAFT = "https://json-schema.org/draft/2020-12/schema"

_LONGEST_TEXT = 100_000
"""Characters of a JSON text; a longer one does not match."""

_DEEPEST = 400
"""Levels of a JSON text; how many more could be read would depend on who asks."""

_LONGEST_SCHEMA = 100_000
"""Characters; `jsonschema` takes seconds to read a longer one."""

MOST_STEPS = 400_000
"""Most steps of one validation: a second at most, a hundred times what a large document takes."""

PATTERNS_S = 0.25
"""Processor time for all patterns of a schema together."""


_NOT_USABLE = {
    "patternProperties": "the time of its patterns has no bound",
    "$dynamicRef": "use $ref",
    "$id": "a schema has no other place than the rubric",
}


@dataclass(frozen=True)
class SchemaCheck:
    """A schema that the response's JSON must match; all or nothing."""

    schema: str
    """As JSON text, so that the check is a value."""


class _NotJsonError(ValueError):
    """A text that Python reads as JSON and a schema cannot be compared with."""


_unusable = partial(VerificationError.of, "json_schema:")


def read_schema(body: str) -> SchemaCheck:
    """Read the schema.

    Args:
        body: everything after the colon, further lines included.

    Returns:
        The check.

    Raises:
        VerificationError: it is no JSON, no schema of this draft, refers to another document, or
            uses a keyword whose time cannot be bounded.
    """
    from jsonschema import SchemaError

    if len(body) > _LONGEST_SCHEMA:
        raise _unusable(f"is longer than {_LONGEST_SCHEMA} characters")
    try:
        schema = _decode(body)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _unusable(f"is not JSON: see its {where}") from None
    except (_NotJsonError, RecursionError):
        raise _unusable("is no usable JSON") from None
    if not isinstance(schema, dict):
        raise _unusable("needs a JSON object")
    document = cast("dict[str, object]", schema)
    if document.get("$schema", _DRAFT) != _DRAFT:
        raise _unusable("is read as draft 2020-12; leave $schema out")
    try:
        _check(document)
    except SchemaError as error:
        raise _unusable(
            f"is no schema of draft 2020-12: see `{error.validator}`"
        ) from None
    except RecursionError:
        raise _unusable("nests too deep") from None
    return SchemaCheck(body.strip())


def _check(schema: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator

    # First of all: the library compiles every pattern of a schema that it checks.
    for keyword, setting in _keywords(schema):
        if keyword == "pattern" and isinstance(setting, str):
            pattern.read_pattern(setting or "(?:)", head="json_schema: pattern")
    Draft202012Validator.check_schema(schema)
    for keyword, _ in _keywords(schema):
        if keyword in _NOT_USABLE:
            raise _unusable(f"cannot use {keyword}; {_NOT_USABLE[keyword]}")
    _references(schema)


def matches_schema(
    check: SchemaCheck, text: str, *, steps: int, time_left: pattern.ProcessorTime
) -> tuple[bool, str]:
    """Validate the JSON of a response.

    Args:
        check: the schema.
        text: the response.
        steps: most steps of the validation.
        time_left: for the patterns of the schema, all together.

    Returns:
        Whether it matches, and if not, why: no text of the response or the schema.

    Raises:
        StepsError: it takes more steps.
        TimeoutError: its patterns take longer.
    """
    try:
        document = _document(text)
    except _NotJsonError as error:
        return False, str(error)
    schema, references = _read_again(check.schema)
    validation = Validation(schema, references, time_left.occurs, steps_left=steps)
    try:
        failed = validation.failure(document)
    except EndlessSchemaError:
        return False, "its schema refers to itself without end"
    return (
        failed is None,
        "" if failed is None else f"its JSON fails `{failed or 'false'}`",
    )


def _document(text: str) -> object:
    """Read the JSON of a response.

    Raises:
        _NotJsonError: it has none that can be compared; says why.
    """
    source = _json_text(text)
    if source is None:
        raise _NotJsonError("neither the response nor a single fenced block is JSON")
    if len(source) > _LONGEST_TEXT:
        raise _NotJsonError(f"its JSON has more than {_LONGEST_TEXT} characters")
    try:
        document = _decode(source)
        if not _is_deeper_than(_DEEPEST, document):
            return document
    except RecursionError:
        pass
    except ValueError:
        raise _NotJsonError("its JSON cannot be read") from None
    raise _NotJsonError(f"its JSON nests more than {_DEEPEST} deep")


@lru_cache(maxsize=256)
def _read_again(schema: str) -> tuple[dict[str, Any], dict[str, Any]]:
    document = cast("dict[str, Any]", _decode(schema))
    return document, _references(document)


def _references(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the part that each `$ref` stands for.

    Raises:
        VerificationError: there is none, or it is in another document.
    """
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    # An empty registry: by default, a reference elsewhere would be fetched.
    resource = DRAFT202012.create_resource(schema)
    resolver = Registry[Any]().with_resource("", resource).resolver()
    settings = (setting for keyword, setting in _keywords(schema) if keyword == "$ref")
    references = {setting for setting in settings if isinstance(setting, str)}
    try:
        if all(reference.startswith("#") for reference in references):
            return {
                reference: resolver.lookup(reference).contents
                for reference in references
            }
    except Unresolvable:
        pass
    raise _unusable("may only refer to a part of itself: write $ref as #/$defs/NAME")


def _is_deeper_than(most: int, document: object) -> bool:
    level = [document]
    for _ in range(most):
        level = [value for node in level for _, value in _inside(node)]
        if not level:
            return False
    return True


def _inside(node: object) -> Iterable[tuple[str, object]]:
    if isinstance(node, list):
        return (("", value) for value in cast("list[object]", node))
    return cast("dict[str, object]", node).items() if isinstance(node, dict) else ()


def _json_text(text: str) -> str | None:
    whole = text.strip()
    if whole[:1] in set('{["-0123456789tfn') and whole:
        return whole
    blocks = [
        block
        for block in python_tests.fenced_blocks(text)
        if block.language in {"", "json"}
    ]
    return blocks[0].text if len(blocks) == 1 else None


def _decode(text: str) -> object:
    # Every number as a float: no digit limit, and 1.0 is an integer to JSON Schema.
    return json.loads(
        text,
        parse_int=_finite,
        parse_float=_finite,
        parse_constant=_refuse,
        object_pairs_hook=_without_repeats,
    )


def _refuse(_constant: str) -> object:
    raise _NotJsonError("NaN and Infinity are not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _NotJsonError("a number is too large to compare")
    return number + 0.0  # not −0, which is written otherwise and is the same number


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise _NotJsonError("an object holds a key twice")
    return document


def _keywords(schema: object) -> Iterator[tuple[str, object]]:
    waiting = [schema]
    while waiting:
        for keyword, setting in _inside(waiting.pop()):
            yield keyword, setting
            waiting.append(setting)
