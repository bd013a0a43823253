"""Which fields of a foreign record were read, which are left out on purpose, and that none is lost.

A reader takes what it knows; what it did not take is counted here, field by field. A field that is
neither read nor named in `left_out.toml`, or by the user, is an error and never silence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final, NamedTuple, cast

from rubric_core.files import toml_beside

FieldPath = tuple[str, ...]
"""Names and list indexes from the record down to a value."""
_ANY_INDEX: Final = "*"
_ANY_DEPTH: Final = "**"
_SHOWN: Final = 7


class LeftOut(NamedTuple):
    """Fields that a format leaves out on purpose."""

    field: str
    """Dotted, `*` for any part of a name or index, `**` first for any depth; with what is below."""
    reason: str


@dataclass(frozen=True)
class Fields:
    """What became of the values of a record."""

    read: int = 0
    left_out: Counter[LeftOut] = field(default_factory=Counter[LeftOut])
    """How many values each entry covered."""


class Unread(Exception):  # noqa: N818  # no error of the user's: the reader words it with its place
    """Values that nobody reads.

    Attributes:
        fields: dotted names, indexes as `*`, each once.
    """

    def __init__(self, fields: Sequence[str]) -> None:
        super().__init__()
        self.fields: tuple[str, ...] = tuple(fields)

    def __str__(self) -> str:
        others = self.fields[1:]
        shown = ", ".join(others[:_SHOWN])
        more = f" and {rest} more" if (rest := len(others) - _SHOWN) > 0 else ""
        are = "is" if len(others) == 1 else "are"
        neither = f", and neither {are} {shown}{more}" if others else ""
        flags = " ".join(f"--leave-out '{one}'" for one in self.fields[: _SHOWN + 1])
        return (
            f"is read by nothing here{neither}: rename it to a field that is read, or leave it "
            f"out on purpose, by {flags}"
        )


class Account:
    """Which values of one record were read."""

    def __init__(self) -> None:
        """Begin with none."""
        self._read: set[FieldPath] = set()
        self._decoded: dict[FieldPath, object] = {}
        self._left_out: dict[FieldPath, str] = {}

    def add(self, path: FieldPath) -> None:
        """Take down that a value was read, and all below it."""
        self._read.add(path)

    def leave_out(self, path: FieldPath, reason: str) -> None:
        """Take down that a value, and all below it, is left out on purpose.

        Args:
            path: of the value.
            reason: a key of `reasons` in `left_out.toml`.
        """
        self._read.discard(path)
        self._left_out[path] = _reasons()[reason]

    def add_decoded(self, path: FieldPath, value: object) -> None:
        """Take down that a text has parts, as JSON has, which count in place of it."""
        self._read.discard(path)
        self._decoded[path] = value

    def has(self, path: FieldPath) -> bool:
        """Whether a value, or one that it is part of, was read."""
        return any(path[:length] in self._read for length in range(len(path) + 1))

    def close(
        self, record: Mapping[str, object], left_out: Sequence[LeftOut]
    ) -> Fields:
        """Count what became of the values of the record.

        Raises:
            Unread: a value is neither read nor left out on purpose.
        """
        fields = Fields()
        lost = dict[str, None]()
        read = 0
        entries = [(tuple(out.field.split(".")), out) for out in left_out]
        for path in self._values(record):
            if self.has(path):
                read += 1
            elif (entry := self._mine(path) or _entry(path, entries)) is not None:
                fields.left_out[entry] += 1
            else:
                lost[_shown(path)] = None
        if lost:
            raise Unread(list(lost))
        return Fields(read, fields.left_out)

    def _mine(self, path: FieldPath) -> LeftOut | None:
        for length in range(1, len(path) + 1):
            if (reason := self._left_out.get(path[:length])) is not None:
                return LeftOut(_shown(path[:length]), reason)
        return None

    def _values(self, record: Mapping[str, object]) -> Iterator[FieldPath]:
        """Yield the path of every value that says something, in order."""
        rest: list[tuple[FieldPath, object]] = [((), record)]
        while rest:
            path, value = rest.pop()
            value = self._decoded.get(path, value)
            match value:
                case None:
                    continue
                case str():
                    if value.strip():
                        yield path
                case Mapping():
                    inner = cast("Mapping[str, object]", value)
                    rest += reversed(
                        [((*path, str(k)), one) for k, one in inner.items()]
                    )
                case list() | tuple():
                    items = cast("Sequence[object]", value)
                    rest += reversed(
                        [((*path, str(n)), one) for n, one in enumerate(items)]
                    )
                case _:
                    yield path


def _entry(
    path: FieldPath, entries: Sequence[tuple[FieldPath, LeftOut]]
) -> LeftOut | None:
    return next((entry for parts, entry in entries if _covers(parts, path)), None)


def _covers(parts: FieldPath, path: FieldPath) -> bool:
    """Whether a path begins with the parts of a pattern, or after `**` goes on with them."""
    if parts[0] == _ANY_DEPTH:
        return any(_covers(parts[1:], path[start:]) for start in range(len(path)))
    return len(parts) <= len(path) and all(
        fnmatchcase(name, part) for part, name in zip(parts, path, strict=False)
    )


def _shown(path: FieldPath) -> str:
    return ".".join(_ANY_INDEX if part.isdecimal() else part for part in path)


def left_out_of(name: str, named: Sequence[str] = ()) -> tuple[LeftOut, ...]:
    """Return what a format leaves out on purpose, and what the user named besides.

    Args:
        name: of the format.
        named: dotted fields; `*` is any index or name.
    """
    mine = tuple(LeftOut(one, "as you asked") for one in named)
    return mine + tuple(
        LeftOut(one, _reasons()[reason])
        for place in (name, "every")
        for reason, listed in _table().get(place, {}).items()
        for one in listed
    )


@cache
def _table() -> dict[str, dict[str, Any]]:
    return toml_beside(__file__, "left_out.toml")


def _reasons() -> dict[str, str]:
    return _table()["reasons"]
