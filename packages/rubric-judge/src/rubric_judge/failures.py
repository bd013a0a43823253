"""What goes wrong on the way to a model, as reasons with a remedy, and what calls report of usage.

Nothing that was sent or received goes into a reason's detail.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from rubric_core import Reason, Usage
from rubric_judge.errors import JudgeTransportError

__all__ = ["TRANSIENT", "reason_of_status", "retry_after_s", "transport_error", "usage"]

TRANSIENT = frozenset({Reason.RATE_LIMITED, Reason.SERVER_ERROR, Reason.CONNECTION, Reason.TIMEOUT})
"""Reasons for which another attempt may bring an answer."""

_REMEDY = {
    Reason.AUTH: "the key was refused or is missing; check `api_key_env` and the variable it names",
    Reason.BAD_REQUEST: "the server refused the request; check `model`, `api_base`, `max_tokens`",
    Reason.CONNECTION: "no connection; check `api_base` and that the server runs",
    Reason.RATE_LIMITED: "too many requests; lower `limits` or use fewer workers",
}
_REASON_BY_STATUS = {
    401: Reason.AUTH,
    403: Reason.AUTH,
    408: Reason.TIMEOUT,
    409: Reason.SERVER_ERROR,
    425: Reason.SERVER_ERROR,
    429: Reason.RATE_LIMITED,
}

_MOST_TOKENS = 10_000_000
"""No model reads as much in one call; a count beyond is none, and would stop a limiter."""


def reason_of_status(status: int) -> Reason:
    """Return why an answer with this HTTP status brings no judgement."""
    if status in _REASON_BY_STATUS:
        return _REASON_BY_STATUS[status]
    # A 200 that is refused is a page where an answer should be; a redirect is a wrong address.
    return Reason.BAD_REQUEST if 300 <= status < 500 else Reason.SERVER_ERROR  # noqa: PLR2004


def transport_error(
    reason: Reason,
    what: str,
    *,
    retry_after: float | None = None,
    usage: Usage | None = None,
) -> JudgeTransportError:
    """Make the error of one attempt.

    Args:
        reason: why there is no answer.
        what: type or status; no text that was sent or received.
        retry_after: seconds that the server asks to wait.
        usage: what the attempt consumed all the same, where the server says.

    Returns:
        The error, with the reason's remedy.
    """
    detail = f"{what}: {_REMEDY[reason]}" if reason in _REMEDY else what
    return JudgeTransportError(reason, detail, retry_after_s=retry_after, usage=usage)


def retry_after_s(*headers: str) -> float | None:
    """Read Retry-After headers: seconds, or a date.

    Args:
        headers: their values; a client may have joined several by commas.

    Returns:
        The longest of them, in seconds from now and at least 0; None where none says a time.
    """
    waits_s = [_wait_s(header) for header in headers]
    return max((wait_s for wait_s in waits_s if wait_s is not None), default=None)


def _wait_s(header: str) -> float | None:
    try:
        seconds = [float(part) for part in header.split(",")]
    except ValueError:
        try:
            seconds = [(parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()]
        except (IndexError, OverflowError, TypeError, ValueError):  # the parser's, of odd dates
            return None
    return max((max(0.0, wait_s) for wait_s in seconds if math.isfinite(wait_s)), default=None)


def usage(
    figure: Callable[[str], object], *, cached_tokens: object, cost_usd: object = None
) -> Usage:
    """Make a usage record of what a server reports, which may be nonsense.

    Args:
        figure: returns `prompt_tokens` and `completion_tokens` as reported.
        cached_tokens: as reported.
        cost_usd: as computed by whoever knows the price; 0 where nobody does.

    Returns:
        The record; a judgement is not lost over a count that is none.
    """
    prompt_tokens = _count(figure("prompt_tokens")) or 0
    cached = _count(cached_tokens)
    return Usage(
        prompt_tokens=prompt_tokens,
        completion_tokens=_count(figure("completion_tokens")) or 0,
        cached_tokens=None if cached is None else min(cached, prompt_tokens),
        cost_usd=cost_usd if isinstance(cost_usd, float) and 0 < cost_usd < math.inf else None,
    )


def _count(value: object) -> int | None:
    # An answer that is read strictly has floats only.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= _MOST_TOKENS and value == int(value) else None
