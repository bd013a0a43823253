"""The application, its progress, and what several of its commands say."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from rubric_judge.console import Progress
from rubric_judge.console.command import command_app, console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_core import Decoding


app = command_app(
    "rubric-eval",
    summary="Evaluate policies on held-out rubrics and on benchmarks, and compare them.",
)


def note(message: str) -> None:
    """Say something on stderr that a reader of the table should know."""
    print(f"rubric-eval: {message}", file=sys.stderr)


def print_edited(edited: Sequence[str]) -> None:
    """Say what of an evaluation is not as its run left it, and was accepted so."""
    for what in edited:
        console().print(f"edited, and accepted: {what}", soft_wrap=True)


def working() -> Progress:
    """Return what is entered around the work of a command, and left before results are printed."""
    return Progress.of(app.name[0])


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
        from rubric_core import ConfigError, Decoding, SchemaError

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
