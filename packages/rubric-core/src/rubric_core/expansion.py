"""A bound on the size that a compressed file may unpack to."""

from rubric_core.errors import SchemaError

_MOST_EXPANSION = 200  # text compresses to a third or a tenth
_ALWAYS_BYTES = 1 << 28
_RECORD_BYTES = 1 << 10  # least cost of a record, however short


class TooLargeError(SchemaError):
    """A compressed file that stands for far more than its size can hold."""


class Expansion:
    """Count of the bytes unpacked from a compressed file, bounded in proportion to its size."""

    def __init__(self, packed: int) -> None:
        """Start at nothing; `packed` is the size of the file."""
        self._packed = packed
        self.most: int = max(_ALWAYS_BYTES, _MOST_EXPANSION * packed)
        self._unpacked = 0

    def add(self, size: int, *, place: str) -> None:
        """Count a record that was unpacked; a short one counts for a kilobyte.

        Raises:
            TooLargeError: the bound is exceeded; names the record's place, such as `row 7`.
        """
        self._unpacked += max(size, _RECORD_BYTES)
        if self._unpacked > self.most:
            raise TooLargeError(
                f"{self._packed} compressed bytes unpack to more than {self.most}; the rest, from "
                f"{place} on, is not read"
            )
