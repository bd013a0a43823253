"""Field types that every schema here shares: strict, finite, and always writable as UTF-8."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import AfterValidator, Field, StringConstraints


def not_blank(text: str) -> str:
    """Return the text; refuse one that holds nothing but white space.

    Raises:
        ValueError: nothing to read, as pydantic wants it of a validator.
    """
    if not text.strip():
        raise ValueError(f"there must be a text, not {len(text)} characters of white space")
    return text


# A length bound, even 0, makes pydantic refuse lone surrogates, which no UTF-8 file can hold.
Text = Annotated[str, StringConstraints(strict=True, min_length=0)]
Identifier = Annotated[str, StringConstraints(strict=True, min_length=1)]
Prose = Annotated[Text, AfterValidator(not_blank)]
Amount = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(strict=True, ge=0)]

_T = TypeVar("_T")
if TYPE_CHECKING:
    from collections.abc import Sequence

    Many = Sequence[_T]
    """The type of a field that holds a tuple, and may be made of a list."""
else:
    Many = tuple[_T, ...]
