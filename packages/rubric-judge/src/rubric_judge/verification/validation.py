"""JSON Schema (draft 2020-12) on one document, in bounded work.

Each part of a schema meets each part of a document once, and what came of it is kept: a schema that
refers to itself below `oneOf` would otherwise go through a document again for every branch at every
level. All is counted in steps. Answer and steps depend on the schema and the document alone, not on
the machine, its load or the caller's stack.

`jsonschema`, which checks the schemas themselves, keeps nothing and has no bound.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from typing import Any, cast

from rubric_judge.verification.schema_parts import (
    LAST_KEYWORDS,
    PART_KEYWORDS,
    VALUE_KEYWORDS,
    Found,
    Json,
    Schema,
    Seen,
    as_text,
)

_CHARACTERS_A_STEP = 20
"""Of values that are compared as texts, and of strings that a pattern is searched in."""

_NAMES_A_STEP = 10
"""Of settings that are lists, such as `required`."""

_MATCHES = Found()
_NEVER = Found("")
_Judging = Generator[tuple[Schema, Json], Found, Found]
_Waiting = list[tuple[tuple[int, int], _Judging]]


class StepsError(Exception):
    """A document takes more steps than were allowed."""


class EndlessSchemaError(Exception):
    """A schema refers to itself for the same part of a document."""


class Validation:
    """One document against one schema."""

    def __init__(
        self,
        schema: Schema,
        *,
        references: Mapping[str, Schema],
        matches: Callable[[str, str], bool],
        steps: int,
    ) -> None:
        """Look at nothing yet.

        Args:
            schema: the whole schema.
            references: the part of it that each `$ref` stands for.
            matches: whether a pattern occurs in a string.
            steps: steps allowed.
        """
        self.references = references
        self._schema = schema
        self._matches = matches
        self._left = steps
        self._notes = "unevaluated" in as_text(schema)
        # By the ids of a part of the schema and a part of the document, which both stay as they
        # are; None while it is looked for.
        self._found: dict[tuple[int, int], Found | None] = {}
        self._enums: dict[int, frozenset[str]] = {}

    def failure(self, document: Json) -> str | None:
        """Return the keyword that a document fails first, or None where it matches.

        Raises:
            StepsError: it takes more steps than are allowed.
            EndlessSchemaError: the schema refers to itself without end.
        """
        # A stack of our own: how deep calls may go depends on who calls.
        waiting: _Waiting = []
        answer = self._ask(self._schema, document, waiting)
        while waiting:
            key, judging = waiting[-1]
            try:
                asked = judging.send(cast("Found", answer))  # None starts it
            except StopIteration as ended:
                waiting.pop()
                answer = self._found[key] = cast("Found", ended.value)
            else:
                answer = self._ask(*asked, waiting)
        return None if answer is None else answer.failed

    def spend(self, steps: int) -> None:
        """Count steps.

        Raises:
            StepsError: there are not as many left.
        """
        self._left -= steps
        if self._left < 0:
            raise StepsError

    def note(self, seen: Seen, more: Collection[str | int]) -> None:
        """Remember what was looked at, where somebody may ask for it."""
        if self._notes:
            self.spend(len(more))
            seen.update(more)

    def _ask(self, schema: Schema, value: Json, waiting: _Waiting) -> Found | None:
        """Return what is known; or put the question on the stack, and return None."""
        self.spend(1)
        if schema is True or schema is False:
            return _MATCHES if schema else _NEVER
        key = id(schema), id(value)
        if key not in self._found:
            self._found[key] = None
            waiting.append((key, self._judge(schema, value)))
            return None
        found = self._found[key]
        if found is None:
            raise EndlessSchemaError
        return found

    def _judge(self, schema: dict[str, Any], value: Json) -> _Judging:
        self.spend(len(schema))
        seen: Seen = set()
        last = [keyword for keyword in LAST_KEYWORDS if keyword in schema]
        for keyword in [*(keyword for keyword in schema if keyword not in last), *last]:
            part = PART_KEYWORDS.get(keyword)
            if part is None:
                failed = None if self._holds(keyword, schema[keyword], value) else keyword
            elif isinstance(value, part[0]):
                failed = yield from part[1](self, schema, value, seen)
            else:
                continue
            if failed is not None:
                return Found(failed or keyword)
        return Found(None, frozenset(seen)) if seen else _MATCHES

    def _holds(self, keyword: str, setting: Json, value: Json) -> bool:
        match keyword:
            case "pattern" if isinstance(value, str):
                self.spend(len(value) // _CHARACTERS_A_STEP)
                return self._matches(setting, value)
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
                    self.spend(len(cast("Collection[str]", setting)) // _NAMES_A_STEP)
                holds = VALUE_KEYWORDS.get(keyword)
                return holds is None or holds(value, setting)

    def _text(self, value: Json) -> str:
        text = as_text(value)
        self.spend(1 + len(text) // _CHARACTERS_A_STEP)
        return text
