"""`json_schema:` and a JSON Schema (draft 2020-12), on the same line or on those that follow.

The response's JSON is the whole response, or its only fenced block that is marked `json` or not
marked. `$ref` may point into the schema itself; nothing is fetched.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from rubric_judge.errors import VerificationError
from rubric_judge.verification.pattern import ProcessorTime, read_pattern
from rubric_judge.verification.python_source import fenced_blocks
from rubric_judge.verification.validation import EndlessSchemaError, Validation

if TYPE_CHECKING:
    from referencing._core import Resolver


_DRAFT = "https://json-schema.org/draft/2020-12/schema"

_LONGEST_TEXT = 100_000
"""Characters of a JSON text; a longer one does not match."""

_DEEPEST = 400
"""Levels of a JSON text; how many more could be read would depend on who asks."""

_LONGEST_SCHEMA = 100_000
"""Characters; `jsonschema` takes seconds to read a longer one."""

MOST_STEPS: Final = 400_000
"""Of one validation: a second at most, and a hundred times what a large document takes."""

PATTERNS_S: Final = 0.25
"""Of the processor, for all patterns of a schema together."""


_NOT_USABLE = {
    "patternProperties": "the time of its patterns has no bound",
    "$dynamicRef": "use $ref",
    "$id": "a schema has no other place than the rubric",
}


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """A schema that the response's JSON must match; all or nothing."""

    schema: str
    """As JSON text, so that the check is a value."""


class _NotJsonError(ValueError):
    """A text that Python reads as JSON and a schema cannot be compared with."""


def read_schema(body: str) -> SchemaCheck:
    """Read the schema.

    Args:
        body: everything behind the colon, further lines included.

    Returns:
        The check.

    Raises:
        VerificationError: it is no JSON, no schema of this draft, refers to another document, or
            uses a keyword whose time cannot be bounded.
    """
    from jsonschema import Draft202012Validator, SchemaError

    if len(body) > _LONGEST_SCHEMA:
        raise VerificationError(f"`json_schema:` is longer than {_LONGEST_SCHEMA} characters")
    try:
        schema = _decode(body)
    except json.JSONDecodeError as error:
        raise VerificationError(
            f"`json_schema:` is not JSON: see its line {error.lineno}, column {error.colno}"
        ) from None
    except (_NotJsonError, RecursionError):
        raise VerificationError("`json_schema:` is no usable JSON") from None
    if not isinstance(schema, dict):
        raise VerificationError("`json_schema:` needs a JSON object")
    document = cast("dict[str, object]", schema)
    if document.get("$schema", _DRAFT) != _DRAFT:
        raise VerificationError("`json_schema:` is read as draft 2020-12; leave $schema out")
    try:
        # First of all: the library compiles every pattern of a schema that it checks.
        _check_patterns(document)
        Draft202012Validator.check_schema(document)
        _check_keywords(document)
    except SchemaError as error:
        raise VerificationError(
            f"`json_schema:` is no schema of draft 2020-12: see `{error.validator}`"
        ) from None
    except RecursionError:
        raise VerificationError("`json_schema:` nests too deep") from None
    return SchemaCheck(body.strip())


def matches_schema(
    check: SchemaCheck,
    text: str,
    *,
    steps: int = MOST_STEPS,
    time_left: ProcessorTime | None = None,
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
    schema = _usable(check.schema)
    validation = Validation(
        schema.document,
        references=schema.references,
        matches=(time_left or ProcessorTime(PATTERNS_S)).occurs,
        steps=steps,
    )
    try:
        failed = validation.failure(document)
    except EndlessSchemaError:
        return False, "its schema refers to itself without end"
    return failed is None, "" if failed is None else f"its JSON fails `{failed or 'false'}`"


def _document(text: str) -> object:
    """Read the JSON of a response.

    Raises:
        _NotJsonError: it has none that can be compared; says why.
    """
    found = _json_text(text)
    if found is None:
        raise _NotJsonError("neither the response nor a single fenced block is JSON")
    if len(found) > _LONGEST_TEXT:
        raise _NotJsonError(f"its JSON has more than {_LONGEST_TEXT} characters")
    too_deep = f"its JSON nests more than {_DEEPEST} deep"
    try:
        document = _decode(found)
    except RecursionError:
        raise _NotJsonError(too_deep) from None
    except ValueError:
        raise _NotJsonError("its JSON cannot be read") from None
    if _is_deeper_than(_DEEPEST, document):
        raise _NotJsonError(too_deep)
    return document


class _Usable(NamedTuple):
    document: dict[str, Any]
    references: dict[str, Any]
    """The part that each `$ref` stands for."""


@lru_cache(maxsize=256)
def _usable(schema: str) -> _Usable:
    document = cast("dict[str, Any]", _decode(schema))
    resolver = _resolver(document)
    return _Usable(
        document,
        {
            reference: resolver.lookup(reference).contents
            for keyword, reference in _keywords(document)
            if keyword == "$ref" and isinstance(reference, str)
        },
    )


def _is_deeper_than(most: int, document: object) -> bool:
    level = [document]
    for _ in range(most):
        inner: list[object] = []
        for node in level:
            if isinstance(node, dict):
                inner.extend(cast("dict[str, object]", node).values())
            elif isinstance(node, list):
                inner.extend(cast("list[object]", node))
        if not inner:
            return False
        level = inner
    return True


def _json_text(text: str) -> str | None:
    whole = text.strip()
    if whole[:1] in set('{["-0123456789tfn') and whole:
        return whole
    blocks = [block for block in fenced_blocks(text) if block.language in {"", "json"}]
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


def _check_patterns(schema: dict[str, object]) -> None:
    for keyword, setting in _keywords(schema):
        if keyword == "pattern" and isinstance(setting, str):
            read_pattern(setting or "(?:)", head="json_schema: pattern")


def _check_keywords(schema: dict[str, object]) -> None:
    whole = _resolver(schema)
    for keyword, setting in _keywords(schema):
        if keyword in _NOT_USABLE:
            raise VerificationError(f"`json_schema:` cannot use {keyword}; {_NOT_USABLE[keyword]}")
        if keyword == "$ref" and isinstance(setting, str) and not _resolves(setting, whole):
            raise VerificationError(
                "`json_schema:` may only refer to a part of itself: write $ref as #/$defs/NAME"
            )


def _resolver(schema: dict[str, Any]) -> Resolver[Any]:
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    # An empty registry: by default, a reference elsewhere would be fetched.
    resource = DRAFT202012.create_resource(schema)
    return Registry[Any]().with_resource("", resource).resolver()


def _resolves(reference: str, whole: Resolver[Any]) -> bool:
    from referencing.exceptions import Unresolvable

    try:
        whole.lookup(reference)
    except Unresolvable:
        return False
    return reference.startswith("#")


def _keywords(schema: object) -> Iterator[tuple[str, object]]:
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield from cast("dict[str, object]", node).items()
            waiting.extend(cast("dict[str, object]", node).values())
        elif isinstance(node, list):
            waiting.extend(cast("list[object]", node))
