"""A record of a foreign file, read field by field with errors that name the place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from rubric_core.errors import NotJsonError, RubricFileError
from rubric_core.files import decode
from rubric_core.formats.draft import as_question


@dataclass(frozen=True)
class Row:
    """One object of a file; fields are named by dotted paths, the first that is there counts."""

    fields: Mapping[str, object]
    path: Path
    line: int
    """1-based line, or item of a JSON array."""
    place: str = ""
    """Dotted path of this object within its line."""

    def text(self, *names: str) -> str:
        """Return a text that must be there and say something."""
        if found := self.maybe_text(*names):
            return found
        raise self.error(f"there must be a text under {' or '.join(names)!r}", names[0])

    def maybe_text(self, *names: str) -> str:
        """Return a text, or "" where there is none."""
        name, value = self._first(names)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(f"must be a text, not {_kind(value)}", name)
        return value if value.strip() else ""

    def number(self, *names: str) -> float:
        """Return a finite number that must be there."""
        name, value = self._first(names)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"must be a number, not {_kind(value)}", name)
        if not math.isfinite(value):
            raise self.error(f"must be finite, not {value!r}", name)
        return float(value)

    def identifier(self, *names: str) -> str:
        """Return an id, which sources write as a text or a number, or "" where there is none."""
        value = self._first(names)[1]
        return f"{value:g}" if isinstance(value, float) else str(value or "")

    def items(self, *names: str) -> list[object]:
        """Return a list that must be there; a JSON text of one is read."""
        name, value = self._first(names)
        if isinstance(value, str):
            value = self.decoded(value, name)
        items = cast("list[object]", value) if isinstance(value, list) else []
        if not items:
            raise self.error("must be a list with something in it", name)
        return items

    def rows(self, *names: str) -> Iterator[Row]:
        """Yield the objects of a list that must be there."""
        name, _ = self._first(names)
        for number, item in enumerate(self.items(*names)):
            yield self.at(f"{name}.{number}", item)

    def texts(self, *names: str) -> tuple[str, ...]:
        """Return the texts of a list, or none where there is no list."""
        name, value = self._first(names)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self.error(f"must be a list of texts, not {_kind(value)}", name)
        items = cast("list[object]", value)
        if not all(isinstance(item, str) for item in items):
            raise self.error("must hold texts only", name)
        return tuple(item for item in cast("list[str]", items) if item.strip())

    def conversation(self, *names: str) -> str:
        """Return a prompt: a text, or a list of messages, of which several are named by role."""
        name, value = self._first(names)
        if isinstance(value, str):
            return self.text(name)
        return as_question(
            [(row.maybe_text("role"), row.text("content")) for row in self.rows(name)]
        )

    def get(self, *names: str) -> object:
        """Return whatever is there, or None."""
        return self._first(names)[1]

    def at(self, name: str, value: object) -> Row:
        """Return an object within this one."""
        if not isinstance(value, dict):
            raise self.error(f"must be an object, not {_kind(value)}", name)
        return Row(cast("dict[str, object]", value), self.path, self.line, self._within(name))

    def decoded(self, text: str, name: str) -> object:
        """Read a text that holds JSON, as Arrow columns often do."""
        try:
            return decode(text)
        except NotJsonError as error:
            raise self.error(f"holds a text that is {error}", name) from None

    def error(self, problem: str, name: str) -> RubricFileError:
        """Say what is wrong with a field."""
        field = self._within(name)
        return RubricFileError(f"{field} {problem}", path=self.path, line=self.line, field=field)

    def _within(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name

    def _first(self, names: tuple[str, ...]) -> tuple[str, object]:
        for name in names:
            value: object = self.fields
            for part in name.split("."):
                value = _member(value, part)
            if value is not None:
                return name, value
        return names[0], None


def _member(value: object, name: str) -> object:
    return cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else None


def _kind(value: object) -> str:
    names = {"NoneType": "nothing", "dict": "an object", "list": "a list", "str": "a text"}
    return names.get(type(value).__name__, "a number or boolean")
