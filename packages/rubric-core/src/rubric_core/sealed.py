"""The kind of model that every schema here is: frozen, closed, and silent about its values."""

from __future__ import annotations

from typing import NoReturn

from pydantic import BaseModel, ConfigDict


class Sealed(BaseModel):
    """Refuses unknown fields and changes, and shows no value in its errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    # pydantic's own refusal shows the value, whatever `hide_input_in_errors` says.
    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen, {name!r} cannot be set")
