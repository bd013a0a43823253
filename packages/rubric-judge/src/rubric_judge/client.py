"""Calls of language models through instructor and litellm: the only module that imports them.

Both are imported before the first call, in a thread: they take seconds. Instructor sends the
reply's schema and asks once. Every error of the libraries ends here and leaves as a reason.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import Any, cast

import anyio.to_thread
from pydantic import BaseModel

from rubric_core import ConfigError, Reason, Usage
from rubric_judge.chat import ChatReply, Finish
from rubric_judge.errors import JudgeTransportError
from rubric_judge.failures import reason_of_status, retry_after_s, transport_error, usage
from rubric_judge.litellm_calls import (
    has_provider,
    keep_replies_out_of_warnings,
    keep_texts_out_of_logs,
    unrecorded,
    warm_up,
)
from rubric_judge.litellm_router import make_router
from rubric_judge.model_config import ModelConfig
from rubric_judge.own_server import MakeClient, OwnServer, Taken, own_route, servers_of_router
from rubric_judge.router_file import RouterFile, read_router_file
from rubric_judge.settings import api_key, deployments_with_keys, keep_litellm_offline

__all__ = ["LiteLLMClient"]


@dataclass(frozen=True)
class _Libraries:
    """What is used of instructor and litellm, loaded together."""

    create: Callable[..., Awaitable[object]]
    """Sends one request with a reply's schema."""
    create_by: Callable[[Callable[..., Awaitable[object]]], Callable[..., Awaitable[object]]]
    """Makes such a function of one that completes, such as a router's."""
    router: Callable[..., Any]
    no_deployment: tuple[type[Exception], ...]
    """Errors of a router whose deployments have all failed lately."""
    hooks: Callable[[], Any]
    """Makes the hooks of one request."""
    prepared: Callable[[type[BaseModel]], type[BaseModel]]
    """Makes a model ready for `create`, once for each model."""
    missing_keys: Callable[[str], list[str]]
    """Names the variables that a model's provider needs and that are not set."""
    knows: Callable[[ModelConfig], bool]
    """Whether a model has a provider, without asking anyone."""
    warm_up: Callable[[str], None]
    """Loads what the first call of a model would load."""
    client: MakeClient
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
    from litellm.litellm_core_utils.litellm_logging import Logging  # noqa: PLC0415
    from litellm.types.router import (  # noqa: PLC0415
        RouterRateLimitError,
        RouterRateLimitErrorBasic,
    )

    provider: Any = litellm  # it has no types to speak of
    provider.suppress_debug_info = True
    keep_texts_out_of_logs()

    @lru_cache(maxsize=1024)
    def prepared(reply: type[BaseModel]) -> type[BaseModel]:
        return response_schema(_carrier(reply))

    def create(complete: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        # What `from_litellm` makes looks through the reply's model once more at every call.
        patched: Any = instructor.patch(create=complete, mode=instructor.Mode.JSON_SCHEMA)
        return patched

    complete = unrecorded(provider, Logging)
    return _Libraries(
        create=create(complete),
        create_by=create,
        router=provider.Router,
        no_deployment=(RouterRateLimitError, RouterRateLimitErrorBasic),
        hooks=Hooks,
        prepared=prepared,
        missing_keys=lambda model: provider.validate_environment(model)["missing_keys"],
        knows=lambda config: has_provider(provider, config),
        warm_up=lambda model: warm_up(provider, complete, model=model),
        client=_client,
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


_loading = threading.Lock()


def _client(route: str, server: OwnServer, key: str) -> object:
    """Make what litellm calls a server of one's own through."""
    import httpx  # noqa: PLC0415
    import openai  # noqa: PLC0415
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler  # noqa: PLC0415

    transport: Any = server  # httpx asks for no more than it has
    if route == "hosted_vllm":
        return AsyncHTTPHandler(transport=transport, follow_redirects=False)
    return openai.AsyncOpenAI(
        api_key=key,
        base_url=server.address,
        max_retries=0,
        http_client=httpx.AsyncClient(transport=transport, follow_redirects=False, trust_env=False),
    )


def _carrier(reply: type[BaseModel]) -> type[BaseModel]:
    """Return a model without fields that stands for another.

    Instructor looks through all fields of a model, and of the models in them, several times a call.
    """

    class Carrier(BaseModel):
        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401
            return reply.model_json_schema(*args, **kwargs)

        @classmethod
        def model_validate_json(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            return reply.model_validate_json(*args, **kwargs)

    Carrier.__name__ = reply.__name__
    return Carrier


class LiteLLMClient:
    """A `Transport` for every model that litellm can name."""

    def __init__(self, config: ModelConfig) -> None:
        """Read the key, or the file with the deployments and their keys.

        Raises:
            JudgeSetupError: a variable that is named for a key is not set.
            ConfigError: the `litellm_config` cannot be used.
        """
        self._config = config
        self._file = None
        if config.litellm_config is not None:
            self._file = read_router_file(config.litellm_config, model=config.model)
            deployments_with_keys(self._file)  # to say now that one is missing
        self._key = api_key(config)
        self._create: Callable[..., Awaitable[object]] | None = None
        self._server: OwnServer | None = None
        if isinstance(config.api_base, str) and own_route(config.model):
            self._server = OwnServer(config.api_base, timed=False)
        self._client: object = None
        self._servers_of_router: tuple[OwnServer, ...] = ()

    async def prepare(self) -> None:
        """Load litellm and instructor, and look for the key; see `Transport.prepare`."""
        await self._prepared()

    async def _prepared(self) -> Callable[..., Awaitable[object]]:
        if self._create is None:
            self._create = await anyio.to_thread.run_sync(self._made_ready)
        return self._create

    def _made_ready(self) -> Callable[..., Awaitable[object]]:
        with _loading:  # the cache would let two threads load at once
            libraries = _libraries()
            # What OpenAI's client would load in the middle of the first call.
            import_module("openai.resources")
        if self._file is not None:
            for model in _models(self._file):
                libraries.warm_up(model)
            try:
                router = make_router(libraries.router, self._file, timeout_s=self._config.timeout_s)
            except ConfigError as error:
                raise JudgeTransportError(Reason.BAD_REQUEST, str(error), attempts=0) from None
            self._servers_of_router = tuple(servers_of_router(router, libraries.client))
            return libraries.create_by(router.acompletion)
        _require_provider(libraries, self._config)
        if self._key is None:
            _require_key(libraries, self._config.model)
        if self._server is not None and self._key is not None:
            route, key = own_route(self._config.model), self._key.get_secret_value()
            self._client = libraries.client(route, self._server, key)
        libraries.warm_up(self._config.model)
        return libraries.create

    async def ask(self, *, system: str, user: str, reply: type[BaseModel]) -> ChatReply:
        """Send one request; see `Transport.ask`."""
        create = await self._prepared()
        libraries = _libraries()
        keep_replies_out_of_warnings()
        completions: list[Any] = []
        hooks = libraries.hooks()
        hooks.on("completion:response", completions.append)
        failed: BaseException | None = None
        with Taken() as taken:
            try:
                await create(
                    **self._parameters(),
                    messages=[
                        {"role": "system", "content": system},
                        {"role": "user", "content": user},
                    ],
                    response_model=libraries.prepared(reply),
                    hooks=hooks,
                )
            except libraries.error as error:
                failed = error.__cause__ or error
        if self._server is not None and (answer := taken.chat_reply()) is not None:
            return _priced(answer, completions)
        # With an answer at hand, the error says that the answer is not valid: the judge's call.
        if completions or failed is None:
            return _chat_reply(completions[-1])
        return _refusal_or_raise(failed, libraries)

    async def aclose(self) -> None:
        """Close the connections of this event loop, and those of loops that are no more.

        Those to other than one's own servers are litellm's, which keeps them for the whole process
        and closes all or none.
        """
        if self._server is not None:
            await self._server.close_connections()
            return
        for server in self._servers_of_router:
            await server.close_connections()
        if _libraries.cache_info().currsize:
            await _libraries().close()

    def _parameters(self) -> dict[str, object]:
        config = self._config
        parameters: dict[str, object] = {
            "model": config.model,
            "max_tokens": config.max_tokens,
            "timeout": config.timeout_s,
            "max_retries": 0,
            **config.parameters,
        }
        if config.temperature is not None:
            parameters["temperature"] = config.temperature
        if self._file is None:
            parameters["api_base"] = config.api_base
            parameters["api_key"] = self._key.get_secret_value() if self._key else None
        if self._client is not None:
            parameters["client"] = self._client
        return parameters


def _require_provider(libraries: _Libraries, config: ModelConfig) -> None:
    # Without one, its error at the first call reads like a server's.
    if not libraries.knows(config):
        model = config.model
        detail = (
            f"litellm knows no provider for model {model!r}: name it as openai/{model} or "
            f"hosted_vllm/{model}, or set `transport: direct`"
        )
        raise JudgeTransportError(Reason.BAD_REQUEST, detail, attempts=0)


def _require_key(libraries: _Libraries, model: str) -> None:
    # Some providers' clients go to the network without a key, others raise what reads like a
    # fault of the network. Not for clouds, which have more ways to say who is calling.
    missing = libraries.missing_keys(model)
    if missing and all(name.endswith("_API_KEY") for name in missing):
        detail = f"no key: export {' or '.join(missing)}, or name another in `api_key_env`"
        raise JudgeTransportError(Reason.AUTH, detail, attempts=0)


def _models(file: RouterFile) -> set[str]:
    parameters = [
        cast("Mapping[str, object]", entry["litellm_params"]) for entry in file.deployments
    ]
    return {str(given.get("model")) for given in parameters}


def _chat_reply(completion: Any) -> ChatReply:  # noqa: ANN401  # litellm's response, duck-typed
    choice = completion.choices[0] if completion.choices else None
    message = getattr(choice, "message", None)
    if message is None:
        what = "a success without a chat completion"
        raise transport_error(Reason.SERVER_ERROR, what, usage=_usage(completion))
    finish: Finish = "complete"
    if getattr(choice, "finish_reason", None) == "length":
        finish = "truncated"
    elif getattr(choice, "finish_reason", None) == "content_filter" or _refusal(message):
        finish = "refused"
    content = getattr(message, "content", None)
    text = content if isinstance(content, str) else ""
    return ChatReply(
        text=text, finish=finish, usage=_usage(completion), attempts=1 + _fallbacks(completion)
    )


def _priced(answer: ChatReply, completions: list[Any]) -> ChatReply:
    used = _usage(completions[-1]) if completions else None
    if used is None or used.cost_usd is None or answer.usage is None:
        return answer
    priced = answer.usage.model_copy(update={"cost_usd": used.cost_usd})
    return replace(answer, usage=priced)


def _refusal_or_raise(failed: BaseException, libraries: _Libraries) -> ChatReply:
    """Return a refusal to answer the prompt; raise any other failure."""
    if isinstance(failed, libraries.content_policy):
        return ChatReply(text="", finish="refused", usage=None, attempts=1)
    if isinstance(failed, libraries.no_deployment):
        pause_s = getattr(failed, "cooldown_time", None)
        what = "no deployment is left for now"
        raise transport_error(Reason.RATE_LIMITED, what, retry_after=pause_s)
    raise _failure(failed, libraries.unreachable)


def _fallbacks(completion: Any) -> int:  # noqa: ANN401  # as above
    """Calls that a router made before the one that was answered."""
    hidden: dict[str, Any] = getattr(completion, "_hidden_params", None) or {}
    headers: dict[str, object] = hidden.get("additional_headers") or {}
    made = headers.get("x-litellm-attempted-fallbacks")
    return made if isinstance(made, int) else 0


def _refusal(message: Any) -> object:  # noqa: ANN401  # as above
    fields: dict[str, object] = getattr(message, "provider_specific_fields", None) or {}
    return getattr(message, "refusal", None) or fields.get("refusal")


def _usage(completion: Any) -> Usage | None:  # noqa: ANN401  # as above
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
    status = getattr(error, "status_code", None)
    headers: Any = getattr(error, "litellm_response_headers", None) or {}
    return transport_error(
        _reason(error, status, unreachable),
        type(error).__name__ + (f", HTTP {status}" if isinstance(status, int) else ""),
        retry_after=retry_after_s(headers.get("retry-after") or ""),
    )


def _reason(
    error: BaseException, status: object, unreachable: tuple[type[Exception], ...]
) -> Reason:
    # litellm calls a broken connection a 500, and what it cannot read a broken connection; the
    # truth is among the causes.
    outermost, *causes = _chain(error)
    broken = any(isinstance(cause, unreachable) for cause in causes or [outermost])
    if not isinstance(status, int):
        return Reason.CONNECTION if broken else Reason.JUDGE_ERROR
    reason = reason_of_status(status)
    return Reason.CONNECTION if broken and reason is Reason.SERVER_ERROR else reason


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
