"""Readers of what litellm returns or raises, as an answer or a reason."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from rubric_core import Reason
from rubric_core.errors import NotJsonError
from rubric_core.strict_json import decode
from rubric_judge.errors import JudgeTransportError
from rubric_judge.models import failures
from rubric_judge.models.chat import ChatReply, listing, mapping, read_completion
from rubric_judge.models.failures import (
    status_error,
    transport_error,
    why_unreachable,
)
from rubric_judge.models.refusals import UNREAD, read_refusal, unsendable_field

_UNSENT = "litellm refuses it; check `model` and `parameters`"
_UNREAD = "ask a server that speaks OpenAI's protocol with `transport: direct`"


def chat_reply(completion: Any) -> ChatReply:
    """Read a completion.

    Raises:
        JudgeTransportError: it is not a chat completion.
    """
    fields: dict[str, object] = completion.model_dump(exclude_none=True, warnings=False)
    for choice in map(mapping, listing(fields.get("choices"))):
        message = mapping(choice.get("message"))
        if choice.get("finish_reason") == "stop":
            # litellm turns unknown reasons, and "error" as well, into "stop", and keeps the
            # original.
            extra = mapping(choice.get("provider_specific_fields"))
            choice["finish_reason"] = extra.get("native_finish_reason", "stop")
        extra = mapping(message.get("provider_specific_fields"))
        message["refusal"] = message.get("refusal") or extra.get("refusal")
    hidden: dict[str, Any] = getattr(completion, "_hidden_params", None) or {}
    return read_completion(fields, cost_usd=hidden.get("response_cost"))


def refusal_or_raise(
    failed: BaseException,
    litellm: Any,
    *,
    unreachable: type[Exception],
    sent: Collection[str],
) -> ChatReply:
    """Return a refusal to answer the prompt, or that the prompt is too long for the model.

    Args:
        failed: the error that litellm raised.
        litellm: the module.
        unreachable: the error that its HTTP client raises without a connection.
        sent: names of the request's fields.

    Raises:
        JudgeTransportError: any other failure.
    """
    if isinstance(failed, litellm.ContentPolicyViolationError):
        return ChatReply("", "refused")
    if isinstance(failed, litellm.ContextWindowExceededError):
        return ChatReply("", "full")
    if no_deployment(failed, litellm):
        pause_s = getattr(failed, "cooldown_time", None)
        raise transport_error(
            "no deployment is left for now", Reason.RATE_LIMITED, retry_after=pause_s
        )
    body = _body(failed)
    status = getattr(failed, "status_code", None)
    if read_refusal(body, status=_whole(status)).about == "context":
        return ChatReply("", "full")
    if isinstance(failed, litellm.UnsupportedParamsError):
        raise _unsent(failed)
    raise _failure(failed, unreachable, body, sent)


def no_deployment(error: BaseException, litellm: Any) -> bool:
    """Tell whether a router called nobody, because its deployments have all failed lately."""
    errors = litellm.types.router
    return isinstance(
        error, (errors.RouterRateLimitError, errors.RouterRateLimitErrorBasic)
    )


def _unsent(error: BaseException) -> JudgeTransportError:
    """Return the error of a request that litellm would not send."""
    field = unsendable_field(str(error))
    who = "litellm does not send this model the field"
    remedy = failures.field_remedy(field, who=who) if field else _UNSENT
    what = f"{type(error).__name__}, nothing was sent"
    failed = transport_error(what, Reason.BAD_REQUEST, remedy=remedy)
    failed.refused = field
    return failed


def _failure(
    error: BaseException,
    unreachable: type[Exception],
    body: Mapping[str, object],
    sent: Collection[str],
) -> JudgeTransportError:
    import aiohttp
    import httpx

    connection_errors = (
        ConnectionError,
        httpx.TransportError,
        unreachable,
        aiohttp.ClientConnectionError,
        aiohttp.ClientPayloadError,
    )
    outermost, *causes = failures.causes_of(error)
    status = getattr(error, "status_code", None)
    # litellm calls a broken connection a 500, and what it cannot read a broken connection; the
    # truth is among the causes.
    is_broken = any(
        isinstance(cause, connection_errors) for cause in causes or [outermost]
    )
    is_status = isinstance(status, int)
    if is_broken and (
        not is_status or failures.reason_of_status(status) is Reason.SERVER_ERROR
    ):
        return transport_error(why_unreachable(error, ""), Reason.CONNECTION)
    if not is_status:
        return transport_error(type(error).__name__, Reason.JUDGE_ERROR)
    if any(isinstance(cause, ValidationError) for cause in causes):
        # The answer came and was paid for: another attempt would bring the same.
        return transport_error(
            f"{type(error).__name__}, an answer that litellm cannot read",
            Reason.JUDGE_ERROR,
            remedy=_UNREAD,
        )
    if not causes and failures.reason_of_status(status) is Reason.BAD_REQUEST:
        return _unsent(error)
    headers: Any = getattr(error, "litellm_response_headers", None) or {}
    retry_after = failures.retry_after_s(headers.get("retry-after") or "")
    refusal = read_refusal(body, status=status, sent=sent) if body else UNREAD
    return status_error(
        status, type(error).__name__, refusal=refusal, retry_after=retry_after
    )


def _body(error: BaseException) -> dict[str, object]:
    """Return the server's answer from whichever of the errors holds it; else nothing."""
    for cause in failures.causes_of(error):
        body = mapping(getattr(cause, "body", None))
        if body:
            return {"error": body}
        message = getattr(cause, "message", None)
        if isinstance(message, str) and message.startswith("{"):
            with suppress(NotJsonError):
                return mapping(decode(message, finite=True))
    return {}


def _whole(status: object) -> int:
    return status if isinstance(status, int) else 0
