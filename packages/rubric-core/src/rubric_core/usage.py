"""What one judge call consumed: tokens and money."""

from __future__ import annotations

from typing import TypeVar

from rubric_core.fields import Amount, Count
from rubric_core.sealed import Sealed


class Usage(Sealed):
    """What one judge call consumed."""

    prompt_tokens: Count = 0
    """Tokens read, cached ones included."""

    completion_tokens: Count = 0
    """Tokens written."""

    cached_tokens: Count | None = None
    """Prompt tokens that the server had in its prefix cache; None where it does not say."""

    cost_usd: Amount | None = None
    """Price of the call, or None when it is not known."""

    def plus(self, other: Usage | None) -> Usage:
        """Add what another attempt of the same call consumed; a figure not known adds nothing."""
        if other is None:
            return self
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=_sum_known(self.cached_tokens, other.cached_tokens),
            cost_usd=_sum_known(self.cost_usd, other.cost_usd),
        )


_Figure = TypeVar("_Figure", int, float)


def _sum_known(one: _Figure | None, other: _Figure | None) -> _Figure | None:
    if one is None or other is None:
        return one if other is None else other
    return one + other
