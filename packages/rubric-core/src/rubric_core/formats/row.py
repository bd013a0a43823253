"""A record of a foreign file, read field by field with errors that name the place.

Every field that is read is noted, so that `close` can name the fields that are not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from rubric_core.errors import NotJsonError, RubricFileError
from rubric_core.formats.fields import Account, FieldPath, Fields, LeftOut, Unread
from rubric_core.schema.conversation import Turn
from rubric_core.strict_json import decode

_NUMBER = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*%?\s*")
_ROLES = {
    "human": "user",
    "gpt": "assistant",
    "bot": "assistant",
    "model": "assistant",
}
"""Names that some data sets use for the roles."""
_TEXT_KINDS = ("", "text", "input_text", "output_text")
"""Types of the parts of a message that are texts; "" where a part has none."""
_KIND_NAMES = {
    "NoneType": "nothing",
    "dict": "an object",
    "list": "a list",
    "str": "a text",
}
"""Names of JSON's types for messages, by Python's."""


@dataclass(frozen=True)
class Row:
    """One object of a file; fields are named by dotted paths, the first that is there counts.

    If another of the names holds the same value, it counts as read too; with another value it does
    not, and `close` refuses it.
    """

    fields: Mapping[str, object]
    path: Path
    line: int
    """1-based line, or item of a JSON array."""
    place: str = ""
    """Dotted path of this object within its line."""
    account: Account = field(default_factory=Account, compare=False)
    """The account of the whole line."""

    def text(self, *names: str) -> str:
        """Return a text that must be there and not be blank."""
        text = self.maybe_text(*names)
        if text:
            return text
        raise self.error(f"there must be a text under {' or '.join(names)!r}", names[0])

    def maybe_text(self, *names: str) -> str:
        """Return a text, or "" where there is none."""
        name, value = self._read(names)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(f"must be a text, not {_kind(value)}", name)
        return value if value.strip() else ""

    def number(self, *names: str) -> float:
        """Return a finite number that must be there; it may be a text, with a percent sign."""
        name, value = self._read(names)
        if isinstance(value, str):
            match = _NUMBER.fullmatch(value)
            if match is not None:
                value = float(match[1])
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"must be a number, not {_kind(value)}", name)
        if not math.isfinite(value):
            raise self.error(f"must be finite, not {value!r}", name)
        return float(value)

    def maybe_flag(self, *names: str) -> bool | None:
        """Return a truth value, or None where there is none."""
        name, value = self._read(names)
        if value is None or isinstance(value, bool):
            return value
        raise self.error(f"must be true or false, not {_kind(value)}", name)

    def identifier(self, *names: str) -> str:
        """Return an id, which sources write as a text or a number, or "" where there is none."""
        name, value = self._read(names)
        match value:
            case None:
                return ""
            case str():
                return value
            case bool():
                raise self.error("must be a text or a number, not true or false", name)
            case int():
                return str(value)
            case float():
                if value.is_integer():
                    return str(int(value))
                return repr(value)
            case _:
                raise self.error(
                    f"must be a text or a number, not {_kind(value)}", name
                )

    def items(self, *names: str) -> list[object]:
        """Return a list that must be there, its items not read yet; a JSON text is decoded."""
        name, value = self._first(names)
        if isinstance(value, str):
            value = self.decoded(value, name)
        if not isinstance(value, list) or not value:
            raise self.error("must be a list with something in it", name)
        self._equals(names, name, self.get(name))
        return cast("list[object]", value)

    def name_of(self, *names: str) -> str:
        """Return the first of the names that is there, or the first."""
        name, _ = self._first(names)
        return name

    def rows(self, *names: str) -> Iterator[Row]:
        """Yield the objects of a list that must be there."""
        name = self.name_of(*names)
        for number, item in enumerate(self.items(*names)):
            yield self.at(f"{name}.{number}", item)

    def texts(self, *names: str) -> tuple[str, ...]:
        """Return the texts of a list, without blank ones; none where there is no list."""
        name, value = self._first(names)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self.error(f"must be a list of texts, not {_kind(value)}", name)
        items = cast("list[object]", value)
        if not all(isinstance(item, str) for item in items):
            raise self.error("must hold texts only", name)
        self._read(names)
        return tuple(item for item in cast("list[str]", items) if item.strip())

    def joined(self, *names: str) -> str:
        """Return a text, or the texts of a list, with empty lines between; "" without any."""
        if isinstance(self.get(*names), list):
            return "\n\n".join(self.texts(*names))
        return self.maybe_text(*names)

    def turns(self, *names: str) -> list[Turn]:
        """Return a prompt: a text, as one turn of a user, or a list of messages."""
        name, value = self._first(names)
        if isinstance(value, str) or value is None:
            return [("user", self.text(*names))]
        turns = [_turn(row) for row in self.rows(*names)]
        if len(turns) == 1:  # the same question, once as a message and once as a text
            _, content = turns[0]
            self._equals(names, name, content)
        return turns

    def get(self, *names: str) -> object:
        """Return the value that is there, or None; it does not count as read yet."""
        _, value = self._first(names)
        return value

    def inner(self, *names: str) -> Row:
        """Return an object within this one that must be there; a JSON text is decoded."""
        name, value = self._first(names)
        if isinstance(value, str):
            value = self.decoded(value, name)
        return self.at(name, value)

    def at(self, name: str, value: object) -> Row:
        """Return an object within this one."""
        if not isinstance(value, dict):
            raise self.error(f"must be an object, not {_kind(value)}", name)
        return Row(
            fields=cast("dict[str, object]", value),
            path=self.path,
            line=self.line,
            place=self._within(name),
            account=self.account,
        )

    def decoded(self, text: str, name: str) -> object:
        """Read a text that holds JSON, as Arrow columns often do."""
        try:
            value = decode(text, exact=True)
        except NotJsonError as error:
            raise self.error(f"holds a text that is {error}", name) from None
        self.account.add_decoded(self._path(name), value)
        return value

    def take(self, name: str) -> None:
        """Note that a field was read, and all below it."""
        self.account.add(self._path(name))

    def leave_out(self, name: str, reason: str) -> None:
        """Note that a field, and all below it, is left out on purpose.

        Args:
            name: the field's name.
            reason: a key of `reasons` in `left_out.toml`.
        """
        self.account.leave_out(self._path(name), reason)

    def take_parts(
        self,
        name: str,
        parts: Mapping[str, str],
        *,
        left_out: Mapping[str, str],
    ) -> None:
        """Note that a text was read in parts.

        Args:
            name: the field's name.
            parts: the parts of the text, by their titles.
            left_out: reasons of the parts that are left out on purpose, by title; see `leave_out`.
        """
        path = self._path(name)
        self.account.add_decoded(path, parts)
        for title in parts:
            if title in left_out:
                self.account.leave_out((*path, title), left_out[title])
            else:
                self.account.add((*path, title))

    def has_read(self, name: str) -> bool:
        """Return whether a field was read."""
        return self.account.has(self._path(name))

    def close(self, left_out: Sequence[LeftOut]) -> Fields:
        """Count the values of the whole line that were read and left out.

        Raises:
            RubricFileError: a value was neither read nor left out on purpose.
        """
        try:
            return self.account.close(self.fields, left_out)
        except Unread as unread:
            raise self.error(str(unread), unread.fields[0]) from None

    def error(self, problem: str, name: str) -> RubricFileError:
        """Return the error for a problem with a field."""
        field = self._within(name)
        return RubricFileError(
            f"{field} {problem}",
            path=self.path,
            line=self.line,
            field=field,
        )

    def _within(self, name: str) -> str:
        if not self.place:
            return name
        return f"{self.place}.{name}"

    def _path(self, name: str) -> FieldPath:
        return tuple(self._within(name).split("."))

    def _read(self, names: tuple[str, ...]) -> tuple[str, object]:
        name, value = self._first(names)
        if value is not None:
            self.take(name)
            self._equals(names, name, value)
        return name, value

    def _equals(
        self,
        names: tuple[str, ...],
        chosen: str,
        value: object,
    ) -> None:
        """Mark the other names that hold the same value as read."""
        for name in names:
            if name != chosen and self._at(name) == value:
                self.take(name)

    def _first(self, names: tuple[str, ...]) -> tuple[str, object]:
        for name in names:
            value = self._at(name)
            if not _is_empty(value):
                return name, value
        return names[0], None

    def _at(self, name: str) -> object:
        value: object = self.fields
        for part in name.split("."):
            value = _member(value, part)
        return value


def _turn(message: Row) -> Turn:
    role = message.maybe_text("role", "from").strip()
    role = _ROLES.get(role.lower(), role)
    if re.search(r"[\s:]", role):
        raise message.error("must be one word, such as `user`", "role")
    if not isinstance(message.get("content", "value"), list):
        return role, message.text("content", "value")
    parts: list[str] = []
    for part in message.rows("content", "value"):
        kind = part.maybe_text("type")
        if kind not in _TEXT_KINDS:
            raise part.error("must be `text`: nothing here reads other parts", "type")
        parts.append(part.text("text"))
    return role, "".join(parts)


def _member(value: object, name: str) -> object:
    if not isinstance(value, Mapping):
        return None
    return cast("Mapping[str, object]", value).get(name)


def _is_empty(value: object) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value in (None, [], {})


def _kind(value: object) -> str:
    name = type(value).__name__
    return _KIND_NAMES.get(name, "a number or boolean")
