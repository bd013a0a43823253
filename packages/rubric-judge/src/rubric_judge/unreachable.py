"""Why there is no connection to a server, in words; libraries hide it under errors of their own."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from typing import Any, cast

_WORDS: tuple[tuple[type[BaseException], str], ...] = (
    (ssl.SSLCertVerificationError, "certificate not trusted"),
    (ssl.SSLError, "no TLS"),
    (ConnectionRefusedError, "connection refused"),
    (socket.gaierror, "unknown host"),
    (ConnectionError, "connection closed by the server"),
    (TimeoutError, "no connection in time"),
)
"""The most particular first."""


def why_unreachable(error: BaseException, place: str) -> str:
    """Say it.

    Args:
        error: a library's.
        place: host and port that were asked for, where they are known.

    Returns:
        What happened and at which host and port; no text of the error, which may be anything.
    """
    causes = tuple(causes_of(error))
    place = next((found for cause in causes if (found := _place(cause))), place)
    at = f" at {place}" if place else ""
    for kind, words in _WORDS:
        if any(isinstance(cause, kind) for cause in causes):
            return words + at
    numbers = (cause.errno for cause in causes if isinstance(cause, OSError) and cause.errno)
    words = next((os.strerror(number).lower() for number in numbers), "")
    return (words or type(error).__name__) + at


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and all that it came of, the members of groups included."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop(0)
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            left.append(one.__cause__ or one.__context__)
            if isinstance(one, BaseExceptionGroup):
                left += cast("BaseExceptionGroup[BaseException]", one).exceptions


def _place(error: Any) -> str:
    # As aiohttp has it.
    host, port = getattr(error, "host", None), getattr(error, "port", None)
    if not isinstance(host, str) or not isinstance(port, int):
        return ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
