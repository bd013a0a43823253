"""Failures on the way to a model, as reasons with a remedy.

No text that was sent or received goes into the detail of a reason.
"""

import math
import os
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

from rubric_core import Reason, Usage
from rubric_judge.errors import JudgeTransportError
from rubric_judge.models.model_config import ModelConfig
from rubric_judge.models.refusals import UNREAD, Refusal

TRANSIENT = frozenset(
    {Reason.RATE_LIMITED, Reason.SERVER_ERROR, Reason.CONNECTION, Reason.TIMEOUT}
)
"""Reasons for which another attempt may bring an answer."""

_NO_PAGE = (
    "no such page: write into `api_base` what comes before /chat/completions, "
    "usually ending in /v1"
)
_BY_REASON = {
    Reason.BAD_REQUEST: (
        "the server refused the request; check `model`, `api_base`, `max_tokens`"
    ),
    Reason.OUT_OF_CREDIT: "out of credit: the account has no money or quota left",
    Reason.CONNECTION: "check `api_base` and that the server runs",
    Reason.RATE_LIMITED: "too many requests; lower `limits` or use fewer workers",
}
"""Remedies by the reason for which a call brings no answer."""
_BY_STATUS = {
    404: "no such model or page: check `model` and `api_base`",
    405: _NO_PAGE,
}
"""Remedies by HTTP status."""
_BY_FIELD = {
    "response_format": (
        "set `schema: json_object`, or `schema: prompt` where that is refused too"
    ),
    "temperature": "set `temperature: null`",
    **dict.fromkeys(
        ("logprobs", "top_logprobs"),
        "set a smaller `top_logprobs` under `parameters`, or serve the model so that it lists more "
        "(vLLM: --max-logprobs 20); where it lists none, `verdict: sampled`",
    ),
    "max_tokens": "set a smaller `max_tokens`, or `max_tokens: null` to leave it out",
    "max_completion_tokens": (
        "set a smaller `max_tokens`, or `max_tokens: null` and what the server takes under "
        "`parameters`"
    ),
}
"""Settings that keep a refused field out of a request."""
_REASON_BY_STATUS = {
    **dict.fromkeys((401, 403), Reason.AUTH),
    402: Reason.OUT_OF_CREDIT,
    408: Reason.TIMEOUT,
    **dict.fromkeys((409, 425), Reason.SERVER_ERROR),
    429: Reason.RATE_LIMITED,
}

MOST_TOKENS = 10_000_000
"""Upper bound of tokens in one call; a larger count is wrong and would stall a limiter."""


def reason_of_status(status: int) -> Reason:
    """Return why an answer with this HTTP status brings no judgement."""
    # A refused 200 is a page where an answer should be; a redirect comes of a wrong address.
    is_request_at_fault = 300 <= status < 500  # noqa: PLR2004
    usual = Reason.BAD_REQUEST if is_request_at_fault else Reason.SERVER_ERROR
    return _REASON_BY_STATUS.get(status, usual)


def status_error(
    status: int,
    what: str = "",
    *,
    refusal: Refusal = UNREAD,
    retry_after: float | None = None,
    usage: Usage | None = None,
) -> JudgeTransportError:
    """Return the error of an attempt that was answered with an HTTP status.

    Args:
        status: the HTTP status; not one of a success.
        what: a library's name of the error, if any.
        refusal: what the answer gives as the cause.
        retry_after: as in `transport_error`.
        usage: as in `transport_error`.

    Returns:
        The error, with a remedy for the refusal, the status or the reason.
    """
    what = f"{what}, HTTP {status}" if what else f"HTTP {status}"
    reason = reason_of_status(status)
    remedy = _BY_STATUS.get(status)
    if status == 404 and refusal.names_model is not None:  # noqa: PLR2004
        no_model = "no such model: write into `model` one that the server's page /v1/models names"
        remedy = no_model if refusal.names_model else _NO_PAGE
    if refusal.about == "credit":
        reason = Reason.OUT_OF_CREDIT
        remedy = None
        if refusal.word:
            what += f", {refusal.word}"
    if refusal.about == "field":
        remedy = field_remedy(refusal.field, who="the server refuses")
    error = transport_error(
        what, reason, remedy=remedy, retry_after=retry_after, usage=usage
    )
    error.refused = refusal.field
    error.instead = refusal.instead
    return error


def field_remedy(field: str, *, who: str) -> str:
    """Say which setting keeps a field out of the requests.

    Args:
        field: a field of a request.
        who: subject and verb of the message: who refuses the field.
    """
    remedy = _BY_FIELD.get(
        field, "take it out of `parameters`, or give it another value"
    )
    return f"{who} `{field}`: {remedy}"


def key_remedy(config: ModelConfig) -> str:
    """Return the remedy for a request that was refused for its key: which key was sent."""
    if config.api_key_env is not None:
        return (
            f"the key was refused: check the environment variable {config.api_key_env!r}, which "
            "`api_key_env` names"
        )
    if config.litellm_config is not None:
        return "the key was refused or is missing: check the variables that `litellm_config` names"
    if config.api_base:
        return (
            "a key is needed and none was sent: name the environment variable that holds it in "
            "`api_key_env`"
        )
    return (
        "the key was refused: check the variable that the provider's own clients read, or name "
        "another in `api_key_env`"
    )


def transport_error(
    what: str,
    reason: Reason = Reason.SERVER_ERROR,
    *,
    remedy: str | None = None,
    retry_after: float | None = None,
    usage: Usage | None = None,
) -> JudgeTransportError:
    """Return the error of one attempt.

    Args:
        what: type or status; no text that was sent or received.
        reason: why there is no answer; by default, the server's answer is not one.
        remedy: what to do; by default, the reason's remedy.
        retry_after: seconds that the server asks to wait.
        usage: what the attempt consumed all the same, where the server reports it.

    Returns:
        The error, with the remedy.
    """
    remedy = remedy or _BY_REASON.get(reason)
    detail = f"{what}: {remedy}" if remedy else what
    return JudgeTransportError(reason, detail, retry_after_s=retry_after, usage=usage)


def retry_after_s(*headers: str) -> float | None:
    """Read Retry-After headers: seconds, or a date.

    Args:
        headers: values of the headers; a client may have joined several by commas.

    Returns:
        The longest wait in seconds from now, at least 0; None if no value is a time.
    """
    waits_s = [_wait_s(header) for header in headers]
    return max((wait_s for wait_s in waits_s if wait_s is not None), default=None)


def _wait_s(header: str) -> float | None:
    try:
        seconds = [float(part) for part in header.split(",")]
    except ValueError:
        # The parser raises all of these for odd dates.
        try:
            wait_s = (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
        except (IndexError, OverflowError, TypeError, ValueError):
            return None
        seconds = [wait_s]
    return max(
        (max(0.0, wait_s) for wait_s in seconds if math.isfinite(wait_s)), default=None
    )


_WORDS: tuple[tuple[type[BaseException], str], ...] = (
    (ssl.SSLCertVerificationError, "certificate not trusted"),
    (ssl.SSLError, "no TLS"),
    (ConnectionRefusedError, "connection refused"),
    (socket.gaierror, "unknown host"),
    (ConnectionError, "connection closed by the server"),
    (TimeoutError, "no connection in time"),
)
"""Error types from the most specific on, with the words for them."""


def why_unreachable(error: BaseException, place: str) -> str:
    """Describe why a server cannot be reached.

    Args:
        error: a library's error.
        place: host and port that were asked for, if known.

    Returns:
        What happened and at which host and port; no text of the error, which may be anything.
    """
    causes = tuple(causes_of(error))
    for cause in causes:
        place_of_cause = _place(cause)
        if place_of_cause:
            place = place_of_cause
            break
    at = f" at {place}" if place else ""
    for kind, words in _WORDS:
        if any(isinstance(cause, kind) for cause in causes):
            return words + at
    error_numbers = (
        cause.errno for cause in causes if isinstance(cause, OSError) and cause.errno
    )
    words = next((os.strerror(number).lower() for number in error_numbers), "")
    return (words or type(error).__name__) + at


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and all its causes, including the members of groups."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        exception = left.pop(0)
        if exception is not None and id(exception) not in seen:
            seen.add(id(exception))
            yield exception
            left.append(exception.__cause__ or exception.__context__)
            if isinstance(exception, BaseExceptionGroup):
                left += cast("BaseExceptionGroup[BaseException]", exception).exceptions


def _place(error: Any) -> str:
    # aiohttp's errors have these attributes.
    host = getattr(error, "host", None)
    port = getattr(error, "port", None)
    if not isinstance(host, str) or not isinstance(port, int):
        return ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
