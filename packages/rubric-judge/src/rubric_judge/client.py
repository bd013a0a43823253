"""Calls of language models through instructor and litellm: the only module that imports them.

Both are imported at the first call: they take seconds. Instructor sends the reply's schema and asks
once; retries are for calls that bring no answer, and are tenacity's. Every error of the libraries
ends here and leaves as a reason.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, cast

import anyio
from pydantic import BaseModel

from rubric_core import Reason, Usage
from rubric_judge.chat import ChatReply, Finish
from rubric_judge.config import JudgeConfig
from rubric_judge.errors import JudgeTransportError
from rubric_judge.settings import api_key, keep_litellm_offline

__all__ = ["LiteLLMClient"]

_TALKATIVE = (
    "LiteLLM",
    "LiteLLM Proxy",
    "LiteLLM Router",
    "httpcore",
    "httpx",
    "instructor",
    "openai",
)
"""Loggers of the libraries below; what is under them by a dot follows."""
_LONGEST_BACKOFF_S = 30.0
_TRANSIENT = frozenset(
    {Reason.RATE_LIMITED, Reason.SERVER_ERROR, Reason.CONNECTION, Reason.TIMEOUT}
)
_REMEDY = {
    Reason.AUTH: "the key was refused or is missing; check `api_key_env` and the variable it names",
    Reason.BAD_REQUEST: "the server refused the request; check `model`, `api_base`, `max_tokens`",
    Reason.CONNECTION: "no connection; check `api_base` and that the server runs",
    Reason.RATE_LIMITED: "too many requests; use fewer workers",
}
_REASON_BY_STATUS = {
    401: Reason.AUTH,
    403: Reason.AUTH,
    408: Reason.TIMEOUT,
    409: Reason.SERVER_ERROR,
    429: Reason.RATE_LIMITED,
}


@dataclass(frozen=True)
class _Libraries:
    """What is used of instructor and litellm, loaded together."""

    create: Callable[..., Awaitable[object]]
    """Sends one request with a reply's schema."""
    hooks: Callable[[], Any]
    """Makes the hooks of one request."""
    prepared: Callable[[type[BaseModel]], type[BaseModel]]
    """Makes a model ready for `create`, once for each model."""
    missing_keys: Callable[[str], list[str]]
    """Names the variables that a model's provider needs and that are not set."""
    close: Callable[[], Awaitable[object]]
    error: type[Exception]
    """Base of what `create` raises."""
    content_policy: type[Exception]
    unreachable: tuple[type[Exception], ...]
    """Errors of a connection, wherever in a chain of causes."""


@lru_cache(maxsize=1)
def _libraries() -> _Libraries:
    keep_litellm_offline()
    import aiohttp  # noqa: PLC0415
    import httpx  # noqa: PLC0415
    import instructor  # noqa: PLC0415
    import litellm  # noqa: PLC0415
    import openai  # noqa: PLC0415
    from instructor.core.exceptions import InstructorError  # noqa: PLC0415
    from instructor.core.hooks import Hooks  # noqa: PLC0415
    from instructor.processing.function_calls import response_schema  # noqa: PLC0415

    provider: Any = litellm  # it has no types to speak of
    provider.suppress_debug_info = True
    # Their lines, on errors and at DEBUG, quote requests and replies, which may hold passages,
    # rubrics and keys.
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)

    async def complete_once(**request: object) -> object:
        # Instructor keeps its own `max_retries`; the OpenAI client below would use its default, 2.
        return await provider.acompletion(**{**request, "max_retries": 0})

    client = instructor.from_litellm(
        complete_once, mode=instructor.Mode.JSON_SCHEMA, async_client=True
    )
    return _Libraries(
        create=client.chat.completions.create,
        hooks=Hooks,
        prepared=lru_cache(maxsize=1024)(response_schema),
        missing_keys=lambda model: provider.validate_environment(model)["missing_keys"],
        close=provider.close_litellm_async_clients,
        error=InstructorError,
        content_policy=provider.ContentPolicyViolationError,
        unreachable=(
            ConnectionError,
            aiohttp.ClientConnectionError,
            aiohttp.ClientPayloadError,
            httpx.TransportError,
            openai.APIConnectionError,
        ),
    )


class LiteLLMClient:
    """A `ChatClient` for every model that litellm can name."""

    def __init__(self, config: JudgeConfig) -> None:
        """Read the key.

        Raises:
            JudgeSetupError: the configuration names a variable for the key that is not set.
        """
        self._config = config
        self._key = api_key(config)

    async def complete(self, *, system: str, user: str, reply: type[BaseModel]) -> ChatReply:
        """Ask until an answer comes; see `ChatClient.complete`."""
        import tenacity  # noqa: PLC0415

        libraries = _libraries()  # the first time takes seconds, which are not the model's
        self._require_key(libraries)
        config = self._config
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(_is_transient),
            stop=tenacity.stop_after_attempt(config.max_transport_attempts)
            | tenacity.stop_before_delay(config.deadline_s),
            wait=tenacity.wait_exception(_asked_wait_s)
            + tenacity.wait_random_exponential(config.backoff_s, max=_LONGEST_BACKOFF_S),
            sleep=anyio.sleep,
            reraise=True,
        )
        try:
            with anyio.fail_after(config.deadline_s):
                answer = await cast("Callable[..., Awaitable[ChatReply]]", retrying)(
                    self._ask, libraries, system=system, user=user, reply=reply
                )
        except TimeoutError:
            detail = f"no answer within deadline_s={config.deadline_s:g}"
            error = JudgeTransportError(Reason.TIMEOUT, detail)
        except JudgeTransportError as last:
            error = last
        else:
            return replace(answer, attempts=_attempts(retrying))
        # Not chained: the causes hold the request.
        raise JudgeTransportError(
            error.reason, error.detail, attempts=_attempts(retrying)
        ) from None

    async def aclose(self) -> None:
        """Close the connections that litellm keeps; it keeps them for the whole process."""
        await _libraries().close()

    def _require_key(self, libraries: _Libraries) -> None:
        # Some providers' clients go to the network without a key, others raise what reads like a
        # fault of the network. Not for clouds, which have more ways to say who is calling.
        if self._key is not None:
            return
        missing = libraries.missing_keys(self._config.model)
        if missing and all(name.endswith("_API_KEY") for name in missing):
            detail = f"no key: export {' or '.join(missing)}, or name another in `api_key_env`"
            raise JudgeTransportError(Reason.AUTH, detail, attempts=0)

    async def _ask(
        self, libraries: _Libraries, *, system: str, user: str, reply: type[BaseModel]
    ) -> ChatReply:
        completions: list[Any] = []
        hooks = libraries.hooks()
        hooks.on("completion:response", completions.append)
        try:
            with anyio.fail_after(self._config.timeout_s):
                await libraries.create(
                    **self._parameters(),
                    messages=[
                        {"role": "system", "content": system},
                        {"role": "user", "content": user},
                    ],
                    response_model=libraries.prepared(reply),
                    hooks=hooks,
                )
        except TimeoutError:
            detail = f"no answer within timeout_s={self._config.timeout_s:g}"
            raise JudgeTransportError(Reason.TIMEOUT, detail) from None
        except libraries.error as error:
            # With an answer at hand, the error says that the answer is not valid: the judge's call.
            if not completions:
                cause = error.__cause__ or error
                if isinstance(cause, libraries.content_policy):
                    return ChatReply(text="", finish="refused", usage=None, attempts=1)
                raise _transport_error(cause, libraries.unreachable) from None
        return _chat_reply(completions[-1])

    def _parameters(self) -> dict[str, object]:
        config = self._config
        return {
            "model": config.model,
            "api_base": config.api_base,
            "api_key": self._key.get_secret_value() if self._key else None,
            "temperature": config.temperature,
            "max_tokens": config.max_tokens,
            "timeout": config.timeout_s,
            "max_retries": 0,
        }


def _attempts(retrying: Any) -> int:  # noqa: ANN401  # tenacity does not type its statistics
    return int(retrying.statistics.get("attempt_number", 1))


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, JudgeTransportError) and error.reason in _TRANSIENT


def _asked_wait_s(error: BaseException) -> float:
    return (error.retry_after_s or 0.0) if isinstance(error, JudgeTransportError) else 0.0


def _chat_reply(completion: Any) -> ChatReply:  # noqa: ANN401  # litellm's response, duck-typed
    choice = completion.choices[0] if completion.choices else None
    message = getattr(choice, "message", None)
    finish: Finish = "complete"
    if getattr(choice, "finish_reason", None) == "length":
        finish = "truncated"
    elif getattr(choice, "finish_reason", None) == "content_filter" or _refusal(message):
        finish = "refused"
    content = getattr(message, "content", None)
    text = content if isinstance(content, str) else ""
    return ChatReply(text=text, finish=finish, usage=_usage(completion), attempts=1)


def _refusal(message: Any) -> object:  # noqa: ANN401  # as above
    fields: dict[str, object] = getattr(message, "provider_specific_fields", None) or {}
    return getattr(message, "refusal", None) or fields.get("refusal")


def _usage(completion: Any) -> Usage | None:  # noqa: ANN401  # as above
    usage = getattr(completion, "usage", None)
    if usage is None:
        return None
    details = getattr(usage, "prompt_tokens_details", None)
    hidden: dict[str, Any] = getattr(completion, "_hidden_params", None) or {}
    cost = hidden.get("response_cost")
    return Usage(
        prompt_tokens=_count(getattr(usage, "prompt_tokens", None)),
        completion_tokens=_count(getattr(usage, "completion_tokens", None)),
        cached_tokens=_count(getattr(details, "cached_tokens", None)),
        cost_usd=cost if isinstance(cost, float) and 0 <= cost < math.inf else None,
    )


def _count(value: object) -> int:
    # Servers report nonsense; a judgement is not lost over it.
    return value if isinstance(value, int) and value > 0 else 0


def _transport_error(
    error: BaseException, unreachable: tuple[type[Exception], ...]
) -> JudgeTransportError:
    status = getattr(error, "status_code", None)
    reason = _reason(error, status, unreachable)
    detail = type(error).__name__ + (f", HTTP {status}" if isinstance(status, int) else "")
    if reason in _REMEDY:
        detail += f": {_REMEDY[reason]}"
    return JudgeTransportError(reason, detail, retry_after_s=_retry_after_s(error))


def _reason(
    error: BaseException, status: object, unreachable: tuple[type[Exception], ...]
) -> Reason:
    if isinstance(status, int) and status in _REASON_BY_STATUS:
        return _REASON_BY_STATUS[status]
    # litellm calls a broken connection a 500, and keeps the truth among the causes.
    if any(isinstance(cause, unreachable) for cause in _chain(error)):
        return Reason.CONNECTION
    if not isinstance(status, int):
        return Reason.JUDGE_ERROR
    # A 200 that raised is a page where an answer should be.
    return Reason.BAD_REQUEST if 400 <= status < 500 else Reason.SERVER_ERROR  # noqa: PLR2004


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _retry_after_s(error: BaseException) -> float | None:
    headers: Any = getattr(error, "litellm_response_headers", None) or {}
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
