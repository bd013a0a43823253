"""Options of how models answer, the same for every command that has them do so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

if TYPE_CHECKING:
    from rubric_core import Decoding


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """Flags of a `Decoding`."""

    temperature: float = 0.0
    """Of the draw of tokens; 0 takes the most likely one."""

    top_p: float = 1.0
    """Draw from the smallest set of tokens with this probability."""

    top_k: int | None = None
    """Draw from so many most likely tokens."""

    max_tokens: int = 1024
    """Tokens after which an answer is cut; fewer where a model has no room for them."""

    stop: Annotated[tuple[str, ...], Parameter(negative=())] = ()
    """Text that ends an answer; once or more."""

    def decoding(self) -> Decoding:
        """Return what they mean.

        Raises:
            ConfigError: a value that is out of range.
        """
        from rubric_core import ConfigError, Decoding, SchemaError  # noqa: PLC0415

        try:
            return Decoding(
                temperature=self.temperature,
                top_p=self.top_p,
                top_k=self.top_k,
                max_tokens=self.max_tokens,
                stop=self.stop,
            )
        except SchemaError as error:
            flag = f"--{(error.field or '').replace('_', '-')}"
            raise ConfigError(f"{flag}: {error}", location=flag) from None


GREEDY: Final = DecodingOptions()
