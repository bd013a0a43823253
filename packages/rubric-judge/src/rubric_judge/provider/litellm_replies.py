"""What litellm returns or raises, read as an answer or a reason."""

from typing import Any

from rubric_core import Reason
from rubric_judge.errors import JudgeTransportError
from rubric_judge.provider import failures
from rubric_judge.provider.chat import ChatReply, listing, mapping, read_completion
from rubric_judge.provider.failures import status_error, transport_error, why_unreachable


def chat_reply(completion: Any) -> ChatReply:
    """Read a completion.

    Raises:
        JudgeTransportError: it is none.
    """
    said: dict[str, object] = completion.model_dump(exclude_none=True, warnings=False)
    for choice in map(mapping, listing(said.get("choices"))):
        message = mapping(choice.get("message"))
        if choice.get("finish_reason") == "stop":
            # litellm turns what it does not know into "stop", and "error" as well, and keeps the
            # original.
            further = mapping(choice.get("provider_specific_fields"))
            choice["finish_reason"] = further.get("native_finish_reason", "stop")
        further = mapping(message.get("provider_specific_fields"))
        message["refusal"] = message.get("refusal") or further.get("refusal")
    hidden: dict[str, Any] = getattr(completion, "_hidden_params", None) or {}
    return read_completion(said, cost_usd=hidden.get("response_cost"))


def refusal_or_raise(
    failed: BaseException, litellm: Any, *, unreachable: type[Exception]
) -> ChatReply:
    """Return a refusal to answer the prompt.

    Args:
        failed: what litellm raised.
        litellm: the module.
        unreachable: what the client beneath it raises where there is no connection.

    Raises:
        JudgeTransportError: any other failure.
    """
    if isinstance(failed, litellm.ContentPolicyViolationError):
        return ChatReply("", "refused")
    if no_deployment(failed, litellm):
        pause_s = getattr(failed, "cooldown_time", None)
        what = "no deployment is left for now"
        raise transport_error(what, Reason.RATE_LIMITED, retry_after=pause_s)
    raise _failure(failed, unreachable)


def no_deployment(error: BaseException, litellm: Any) -> bool:
    """Tell whether a router called nobody, because its deployments have all failed lately."""
    of_router = litellm.types.router
    return isinstance(error, (of_router.RouterRateLimitError, of_router.RouterRateLimitErrorBasic))


def _failure(error: BaseException, unreachable: type[Exception]) -> JudgeTransportError:
    import aiohttp
    import httpx

    of_aiohttp = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError)
    of_connections = (ConnectionError, httpx.TransportError, unreachable, *of_aiohttp)
    outermost, *causes = failures.causes_of(error)
    status = getattr(error, "status_code", None)
    # litellm calls a broken connection a 500, and what it cannot read a broken connection; the
    # truth is among the causes.
    broken = any(isinstance(cause, of_connections) for cause in causes or [outermost])
    is_status = isinstance(status, int)
    if broken and (not is_status or failures.reason_of_status(status) is Reason.SERVER_ERROR):
        return transport_error(why_unreachable(error, ""), Reason.CONNECTION)
    if not is_status:
        return transport_error(type(error).__name__, Reason.JUDGE_ERROR)
    headers: Any = getattr(error, "litellm_response_headers", None) or {}
    retry_after = failures.retry_after_s(headers.get("retry-after") or "")
    return status_error(status, type(error).__name__, retry_after=retry_after)
