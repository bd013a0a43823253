"""What litellm and instructor give back or raise, read as an answer or a reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rubric_core import Reason, Usage
from rubric_judge.errors import JudgeTransportError
from rubric_judge.provider.chat import ChatReply, answerer, ended
from rubric_judge.provider.failures import (
    causes_of,
    reason_of_status,
    retry_after_s,
    status_error,
    transport_error,
    usage,
    why_unreachable,
)


@dataclass(frozen=True)
class LibraryErrors:
    """The libraries' errors that mean something."""

    content_policy: type[Exception]
    context_window: type[Exception]
    no_deployment: tuple[type[Exception], ...]
    """Of a router whose deployments have all failed lately."""
    unreachable: tuple[type[Exception], ...]
    """Of a connection, wherever in a chain of causes."""


def chat_reply(completion: Any) -> ChatReply:
    """Read a completion.

    Raises:
        JudgeTransportError: it is none.
    """
    choices: list[Any] = completion.choices or []
    message = getattr(choices[0], "message", None) if len(choices) == 1 else None
    used = _usage(completion)
    if message is None:
        what = "a success without a chat completion, or with several"
        raise transport_error(Reason.SERVER_ERROR, what, usage=used)
    content = getattr(message, "content", None)
    why = _finish_reason(choices[0])
    text = content if isinstance(content, str) else None
    by = answerer(getattr(completion, "model", None))
    return ended(text, why=why, refusal=_refusal(message), usage=used, answered_by=by)


def priced(answer: ChatReply, completions: list[Any]) -> ChatReply:
    """Return the answer with the price that litellm knows, where it knows one."""
    used = _usage(completions[-1]) if completions else None
    if used is None or used.cost_usd is None or answer.usage is None:
        return answer
    priced = answer.usage.model_copy(update={"cost_usd": used.cost_usd})
    return replace(answer, usage=priced)


def refusal_or_raise(failed: BaseException, errors: LibraryErrors) -> ChatReply:
    """Return a refusal to answer the prompt.

    Raises:
        JudgeTransportError: any other failure.
    """
    if isinstance(failed, JudgeTransportError):
        raise failed
    if isinstance(failed, errors.content_policy):
        return ChatReply(text="", finish="refused", usage=None, attempts=1)
    if isinstance(failed, errors.no_deployment):
        pause_s = getattr(failed, "cooldown_time", None)
        what = "no deployment is left for now"
        raise transport_error(Reason.RATE_LIMITED, what, retry_after=pause_s)
    raise _failure(failed, errors.unreachable)


def _finish_reason(choice: Any) -> object:
    # litellm turns what it does not know into "stop", and "error" as well, and keeps the original.
    why = getattr(choice, "finish_reason", None)
    fields: dict[str, object] = getattr(choice, "provider_specific_fields", None) or {}
    return fields.get("native_finish_reason", why) if why == "stop" else why


def _refusal(message: Any) -> object:
    fields: dict[str, object] = getattr(message, "provider_specific_fields", None) or {}
    return getattr(message, "refusal", None) or fields.get("refusal")


def _usage(completion: Any) -> Usage | None:
    reported = getattr(completion, "usage", None)
    if reported is None:
        return None
    details = getattr(reported, "prompt_tokens_details", None)
    hidden: dict[str, Any] = getattr(completion, "_hidden_params", None) or {}
    return usage(
        lambda name: getattr(reported, name, None),
        cached_tokens=getattr(details, "cached_tokens", None),
        cost_usd=hidden.get("response_cost"),
    )


def _failure(error: BaseException, unreachable: tuple[type[Exception], ...]) -> JudgeTransportError:
    outermost, *causes = causes_of(error)
    status = getattr(error, "status_code", None)
    headers: Any = getattr(error, "litellm_response_headers", None) or {}
    retry_after = retry_after_s(headers.get("retry-after") or "")
    # litellm calls a broken connection a 500, and what it cannot read a broken connection; the
    # truth is among the causes.
    broken = any(isinstance(cause, unreachable) for cause in causes or [outermost])
    is_status = isinstance(status, int)
    if broken and (not is_status or reason_of_status(status) is Reason.SERVER_ERROR):
        ours = (cause for cause in causes if isinstance(cause, JudgeTransportError))
        if (own := next(ours, None)) is not None:
            return JudgeTransportError(own.reason, own.detail)
        return transport_error(Reason.CONNECTION, why_unreachable(error, ""))
    if not is_status:
        return transport_error(Reason.JUDGE_ERROR, type(error).__name__)
    return status_error(status, type(error).__name__, retry_after=retry_after)
