"""Fields of a request that a judge's `parameters` may not name, and what to write instead."""

from __future__ import annotations

from collections.abc import Container, Iterable

_NOT_PARAMETERS = frozenset(
    {
        "api_base",
        "api_key",
        "authorization",
        "base_url",
        "extra_headers",
        "headers",
        "max_retries",
        "max_tokens",
        "messages",
        "model",
        "n",
        "num_retries",
        "response_format",
        "response_model",
        "stream",
        "temperature",
        "timeout",
        "tool_choice",
        "tools",
    }
)
"""Fields that a judge sets itself, that would change how an answer is read, or that hold a key."""
_INSTEAD = {
    "api_key": "api_key_env",
    "authorization": "api_key_env",
    "base_url": "api_base",
    "max_retries": "max_transport_attempts",
    "num_retries": "max_transport_attempts",
    "timeout": "timeout_s",
}


def wrong_with_parameters(names: Iterable[str], *, settings: Container[str]) -> str:
    """Say what to write instead of a parameter that is none.

    Args:
        names: what `parameters` names.
        settings: the keys of the judge's configuration.

    Returns:
        One line; none for parameters that may all stand.
    """
    taken = sorted(_NOT_PARAMETERS & set(names))
    if not taken:
        return ""
    setting = _INSTEAD.get(taken[0], taken[0])
    remedy = "the judge sets it itself, so leave it out"
    if setting in settings:
        remedy = f"write `{setting}:` at the top level, beside `parameters:`"
    return f"{taken[0]!r} is none of `parameters`: {remedy}"
