"""The passage that the judge sees and the policy must not."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final, NoReturn

from pydantic_core import core_schema

from rubric_core.errors import SchemaError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Grounding:
    """g: text that does not print, log or serialise itself; only `reveal` returns it.

    `repr`, `str`, `format` and every pydantic dump show its hash and length. Equality and hash are
    those of the text. A pickle does hold the text, so that judge workers in other processes can
    read it: never send one to the policy's side.

    Raises:
        SchemaError: the text is not a `str`, or holds lone surrogates.

    Source: paper, §3.3, Privileged grounding.
    """

    __slots__ = ("_text",)
    _text: str

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # a boundary
            raise SchemaError(
                f"the passage must be a str, not {type(text).__name__}", field="passage"
            )
        if _LONE_SURROGATE.search(text):
            raise SchemaError(
                f"the passage ({len(text)} characters) holds lone surrogates: decode it as UTF-8",
                field="passage",
            )
        object.__setattr__(self, "_text", text)

    def reveal(self) -> str:
        """Return the text: for judges and dataset files only."""
        return self._text

    @property
    def sha256(self) -> str:
        """Hex digest of the text in UTF-8."""
        return hashlib.sha256(self._text.encode()).hexdigest()

    def __len__(self) -> int:
        return len(self._text)

    def __repr__(self) -> str:
        """Show what identifies the text, not the text."""
        return f"Grounding(sha256={self.sha256[:16]!r}, chars={len(self)})"

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Grounding) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse: a passage does not change."""
        raise AttributeError(f"Grounding is frozen, {name!r} cannot be set")

    def __reduce__(self) -> tuple[type[Grounding], tuple[str]]:
        """Rebuild from the text."""
        return type(self), (self._text,)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Grounding], handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Accept instances only, and dump as `str` does."""
        return core_schema.is_instance_schema(
            cls, serialization=core_schema.to_string_ser_schema(when_used="always")
        )
