"""What one judge call consumed: tokens and money."""

from __future__ import annotations

from rubric_core.fields import Amount, Count
from rubric_core.sealed import Sealed


class Usage(Sealed):
    """What one judge call consumed."""

    prompt_tokens: Count = 0
    """Tokens read, cached ones included."""

    completion_tokens: Count = 0
    """Tokens written."""

    cached_tokens: Count = 0
    """Prompt tokens that the server had in its prefix cache."""

    cost_usd: Amount | None = None
    """Price of the call, or None when it is not known."""
