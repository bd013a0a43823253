"""An account of the fields of a foreign record: read, left out on purpose, and none lost.

A reader takes the fields that it knows; the others are counted here, one by one. A field that is
neither read nor named in `left_out.toml` or by the user is an error, never silence.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, NamedTuple, cast

from rubric_core.files import toml_beside

FieldPath = tuple[str, ...]
"""Names and list indexes from the record down to a value."""
_ANY_INDEX = "*"
_ANY_DEPTH = "**"
_MOST_NAMES = 7
"""Most further fields that an error names."""


class LeftOut(NamedTuple):
    """Fields that a format leaves out on purpose."""

    field: str
    """Dotted name, with all fields below it: `*` for any part of a name or index, `**` at the
    beginning for any depth."""
    reason: str


@dataclass(frozen=True)
class Fields:
    """Counts of the values of a record that were read or left out."""

    read: int = 0
    left_out: Counter[LeftOut] = field(default_factory=Counter[LeftOut])
    """Number of values that each entry covered."""


class Unread(Exception):  # noqa: N818  # internal: the reader turns it into an error with its place
    """Values that nobody reads.

    Attributes:
        fields: dotted names, indexes as `*`, each once.
    """

    def __init__(self, fields: Sequence[str]) -> None:
        super().__init__()
        self.fields: tuple[str, ...] = tuple(fields)

    def __str__(self) -> str:
        others = self.fields[1:]
        neither = ""
        if others:
            verb = "is" if len(others) == 1 else "are"
            names = ", ".join(others[:_MOST_NAMES])
            neither = f", and neither {verb} {names}"
        if len(others) > _MOST_NAMES:
            rest = len(others) - _MOST_NAMES
            neither += f" and {rest} more"
        names_of_flags = self.fields[: _MOST_NAMES + 1]
        flags = " ".join(f"--leave-out '{name}'" for name in names_of_flags)
        return (
            f"is read by nothing here{neither}: rename it to a field that is read, or leave it "
            f"out on purpose, by {flags}"
        )


class Account:
    """A record of which values of one row were read."""

    def __init__(self) -> None:
        """Begin with no value read."""
        self._read: set[FieldPath] = set()
        self._decoded: dict[FieldPath, object] = {}
        self._left_out: dict[FieldPath, str] = {}

    def add(self, path: FieldPath) -> None:
        """Note that a value was read, and all below it."""
        self._read.add(path)

    def leave_out(self, path: FieldPath, reason: str) -> None:
        """Note that a value, and all below it, is left out on purpose.

        Args:
            path: the path of the value.
            reason: a key of `reasons` in `left_out.toml`.
        """
        self._read.discard(path)
        self._left_out[path] = _reasons()[reason]

    def add_decoded(self, path: FieldPath, value: object) -> None:
        """Note that a text has parts, as JSON has, which count in place of the text."""
        self._read.discard(path)
        self._decoded[path] = value

    def has(self, path: FieldPath) -> bool:
        """Return whether a value, or one that it is part of, was read."""
        return any(path[:length] in self._read for length in range(len(path) + 1))

    def close(
        self, record: Mapping[str, object], left_out: Sequence[LeftOut]
    ) -> Fields:
        """Count the values of the record that were read and left out.

        Raises:
            Unread: a value is neither read nor left out on purpose.
        """
        left_out_counts = Counter[LeftOut]()
        lost = dict[str, None]()
        read_count = 0
        entries = [(tuple(entry.field.split(".")), entry) for entry in left_out]
        for path in self._values(record):
            if self.has(path):
                read_count += 1
                continue
            entry = self._own_entry(path) or _entry(path, entries)
            if entry is None:
                lost[_pattern_of(path)] = None
            else:
                left_out_counts[entry] += 1
        if lost:
            raise Unread(list(lost))
        return Fields(read_count, left_out_counts)

    def _own_entry(self, path: FieldPath) -> LeftOut | None:
        """Return the entry of `leave_out` that covers a path."""
        for length in range(1, len(path) + 1):
            part = path[:length]
            reason = self._left_out.get(part)
            if reason is not None:
                return LeftOut(_pattern_of(part), reason)
        return None

    def _values(self, record: Mapping[str, object]) -> Iterator[FieldPath]:
        """Yield the path of every value that is not empty, in order."""
        rest: list[tuple[FieldPath, object]] = [((), record)]
        while rest:
            path, raw_value = rest.pop()
            value = self._decoded.get(path, raw_value)
            match value:
                case None:
                    continue
                case str():
                    if value.strip():
                        yield path
                case Mapping():
                    inner = cast("Mapping[str, object]", value)
                    members = [((*path, str(key)), inner[key]) for key in inner]
                    rest += reversed(members)
                case list() | tuple():
                    items = enumerate(cast("Sequence[object]", value))
                    members = [((*path, str(index)), item) for index, item in items]
                    rest += reversed(members)
                case _:
                    yield path


def _entry(
    path: FieldPath, entries: Sequence[tuple[FieldPath, LeftOut]]
) -> LeftOut | None:
    """Return the first entry whose pattern covers a path."""
    for parts, entry in entries:
        if _covers(parts, path):
            return entry
    return None


def _covers(parts: FieldPath, path: FieldPath) -> bool:
    """Return whether a path begins with the parts of a pattern, or holds the parts after `**`."""
    first, *others = parts
    if first == _ANY_DEPTH:
        rest = tuple(others)
        return any(_covers(rest, path[start:]) for start in range(len(path)))
    if len(parts) > len(path):
        return False
    pairs = zip(parts, path, strict=False)
    return all(fnmatchcase(name, part) for part, name in pairs)


def _pattern_of(path: FieldPath) -> str:
    """Return a path as a dotted pattern, with `*` for indexes."""
    parts = [_ANY_INDEX if part.isdecimal() else part for part in path]
    return ".".join(parts)


def left_out_of(name: str, named: Sequence[str] = ()) -> tuple[LeftOut, ...]:
    """Return the fields that a format leaves out on purpose, and those that the user named.

    Args:
        name: the format's name.
        named: dotted fields; `*` is any index or name.
    """
    entries = [LeftOut(pattern, "as you asked") for pattern in named]
    for section in (name, "every"):
        patterns_by_reason = _table().get(section, {})
        for reason, patterns in patterns_by_reason.items():
            text = _reasons()[reason]
            entries += [LeftOut(pattern, text) for pattern in patterns]
    return tuple(entries)


@cache
def _table() -> dict[str, dict[str, Any]]:
    return toml_beside(__file__, "left_out.toml")


def _reasons() -> dict[str, str]:
    return _table()["reasons"]
