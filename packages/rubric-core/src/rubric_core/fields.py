"""Field types that every schema here shares: strict, finite, and always writable as UTF-8."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

# A length bound, even 0, makes pydantic refuse lone surrogates, which no UTF-8 file can hold.
Text = Annotated[str, StringConstraints(strict=True, min_length=0)]
Identifier = Annotated[str, StringConstraints(strict=True, min_length=1)]
Amount = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(strict=True, ge=0)]
