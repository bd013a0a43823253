"""Calls of language models through instructor and litellm: the only module that imports them.

Both are imported before the first call, in a thread: they take seconds. Instructor sends the
reply's schema and asks once. Every error of the libraries ends here and leaves as a reason.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import Any, cast

import anyio.to_thread
from pydantic import BaseModel

from rubric_core import ConfigError, Reason
from rubric_judge.errors import JudgeTransportError
from rubric_judge.provider import litellm_calls, own_server
from rubric_judge.provider.chat import ChatReply, ChatRequest, answerer
from rubric_judge.provider.litellm_replies import (
    LibraryErrors,
    chat_reply,
    priced,
    refusal_or_raise,
)
from rubric_judge.provider.litellm_router import make_router
from rubric_judge.provider.model_config import ModelConfig
from rubric_judge.provider.router_calls import GroupCalls, Route, most_calls
from rubric_judge.provider.router_file import RouterFile, read_router_file
from rubric_judge.provider.router_groups import Groups
from rubric_judge.provider.settings import api_key, deployments_with_keys, keep_litellm_offline

_Complete = Callable[..., Awaitable[object]]
_OPENAI_FIELDS = ("max_tokens", "seed", "stop", "temperature", "top_p")


@dataclass(frozen=True)
class _Calls:
    """How one model is called."""

    create: _Complete
    """With a reply's schema."""
    complete: _Complete
    """Without one."""


@dataclass(frozen=True)
class _Libraries:
    """What is used of instructor and litellm, loaded together."""

    complete: _Complete
    """Sends one request without a schema."""
    create: _Complete
    """Sends one request with a reply's schema."""
    create_by: Callable[[_Complete], _Complete]
    """Makes such a function of one that completes, such as a router's."""
    router: Callable[..., Any]
    errors: LibraryErrors
    hooks: Callable[[], Any]
    """Makes the hooks of one request."""
    prepared: Callable[[type[BaseModel]], type[BaseModel]]
    """Makes a model ready for `create`, once for each model."""
    supported: Callable[[str], list[str] | None]
    """Names the fields of OpenAI's that a model's provider takes."""
    missing_keys: Callable[[str], list[str]]
    """Names the variables that a model's provider needs and that are not set."""
    knows: Callable[[ModelConfig], bool]
    """Whether a model has a provider, without asking anyone."""
    warm_up: Callable[[str], None]
    """Loads what the first call of a model would load."""
    client: own_server.MakeClient
    close: Callable[[], Awaitable[object]]
    error: type[Exception]
    """Base of what `create` raises."""


@lru_cache(maxsize=1)
def _libraries() -> _Libraries:
    keep_litellm_offline()
    import aiohttp
    import httpx
    import instructor
    import litellm
    import openai
    from instructor.core.exceptions import InstructorError
    from instructor.core.hooks import Hooks
    from instructor.processing.function_calls import response_schema
    from litellm.litellm_core_utils.litellm_logging import Logging
    from litellm.types.router import (
        RouterRateLimitError,
        RouterRateLimitErrorBasic,
    )

    provider: Any = litellm  # it has no types to speak of
    provider.suppress_debug_info = True
    litellm_calls.keep_texts_out_of_logs()

    @lru_cache(maxsize=1024)
    def prepared(reply: type[BaseModel]) -> type[BaseModel]:
        return response_schema(_carrier(reply))

    def create(complete: _Complete) -> _Complete:
        # What `from_litellm` makes looks through the reply's model once more at every call.
        patched: Any = instructor.patch(create=complete, mode=instructor.Mode.JSON_SCHEMA)
        return patched

    complete = litellm_calls.unrecorded(provider, Logging)
    return _Libraries(
        complete=complete,
        create=create(complete),
        create_by=create,
        router=provider.Router,
        hooks=Hooks,
        prepared=prepared,
        supported=lambda model: provider.get_supported_openai_params(model=model),
        missing_keys=lambda model: provider.validate_environment(model)["missing_keys"],
        knows=lambda config: litellm_calls.has_provider(provider, config),
        warm_up=lambda model: litellm_calls.warm_up(provider, complete, model=model),
        client=_client,
        close=provider.close_litellm_async_clients,
        error=InstructorError,
        errors=LibraryErrors(
            no_deployment=(RouterRateLimitError, RouterRateLimitErrorBasic),
            content_policy=provider.ContentPolicyViolationError,
            context_window=provider.ContextWindowExceededError,
            unreachable=(
                ConnectionError,
                aiohttp.ClientConnectionError,
                aiohttp.ClientPayloadError,
                httpx.TransportError,
                openai.APIConnectionError,
            ),
        ),
    )


_loading = threading.Lock()


def _client(route: str, server: own_server.OwnServer, key: str) -> object:
    """Make what litellm calls a server of one's own through."""
    import httpx
    import openai
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

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
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return reply.model_json_schema(*args, **kwargs)

        @classmethod
        def model_validate_json(cls, *args: Any, **kwargs: Any) -> Any:
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
        self._groups: Groups | None = None
        if config.litellm_config is not None:
            self._file = read_router_file(config.litellm_config, model=config.model)
            self._groups = Groups(self._file, deployments_with_keys(self._file))
            if not config.allow_fallback_models:
                self._groups.require_one_model(config.model)
        self._key = api_key(config)
        self._calls: _Calls | None = None
        self._server: own_server.OwnServer | None = None
        if isinstance(config.api_base, str) and own_server.own_route(config.model):
            self._server = own_server.OwnServer(config.api_base, timed=False)
        self._client: object = None
        self._unset: tuple[str, ...] = ()
        self._servers_of_router: tuple[own_server.OwnServer, ...] = ()

    async def prepare(self) -> None:
        """Load litellm and instructor, and look for the key; see `Transport.prepare`."""
        await self._prepared()

    async def _prepared(self) -> _Calls:
        if self._calls is None:
            self._calls = await anyio.to_thread.run_sync(self._made_ready)
        return self._calls

    def _made_ready(self) -> _Calls:
        with _loading:  # the cache would let two threads load at once
            libraries = _libraries()
            # What OpenAI's client would load in the middle of the first call.
            import_module("openai.resources")
        if self._file is not None and self._groups is not None:
            return self._routed(libraries, self._file, self._groups)
        _require_provider(libraries, self._config)
        if self._key is None:
            self._unset = _unset(libraries, self._config.model)
        if self._server is not None and self._key is not None:
            route, key = own_server.own_route(self._config.model), self._key.get_secret_value()
            self._client = libraries.client(route, self._server, key)
        libraries.warm_up(self._config.model)
        return _Calls(libraries.create, libraries.complete)

    def _routed(self, libraries: _Libraries, file: RouterFile, groups: Groups) -> _Calls:
        config = self._config
        for model in _models(file):
            libraries.warm_up(model)
        try:
            router = make_router(libraries.router, file, groups, timeout_s=config.timeout_s)
        except ConfigError as error:
            raise JudgeTransportError(Reason.BAD_REQUEST, str(error), attempts=0) from None
        self._servers_of_router = tuple(own_server.servers_of_router(router, libraries.client))
        calls = GroupCalls(
            router.acompletion,
            groups,
            libraries.errors,
            model=config.model,
            timeout_s=config.timeout_s,
            other_models=config.allow_fallback_models,
        )
        return _Calls(libraries.create_by(calls.complete), calls.complete)

    @property
    def most_calls(self) -> int:
        """How many deployments one attempt may call; see `RetryingClient`."""
        if self._groups is None:
            return 1
        config = self._config
        return most_calls(self._groups, config.model, other_models=config.allow_fallback_models)

    async def ask(self, request: ChatRequest) -> ChatReply:
        """Send one request; see `Transport.ask`."""
        calls = await self._prepared()
        libraries = _libraries()
        litellm_calls.keep_replies_out_of_warnings()
        completions: list[Any] = []
        failed: BaseException | None = None
        fields = {**self._parameters(), **request.parameters, "messages": request.messages}
        with own_server.Taken() as taken, Route() as route:
            if request.reply is None:
                failed = await _completed(calls.complete, fields, completions)
            else:
                hooks = libraries.hooks()
                hooks.on("completion:response", completions.append)
                try:
                    schema = libraries.prepared(request.reply)
                    await calls.create(**fields, response_model=schema, hooks=hooks)
                except libraries.error as error:
                    failed = error.__cause__ or error
        if self._server is not None and (answer := taken.chat_reply()) is not None:
            return priced(answer, completions)
        # With an answer at hand, the error says that the answer is not valid: the judge's call.
        try:
            if completions or failed is None:
                answer = chat_reply(completions[-1])
            else:
                answer = refusal_or_raise(failed, libraries.errors)
        except JudgeTransportError as error:
            if self._unset:
                error.detail += f"; not set: {', '.join(self._unset)}"
            raise route.told(error) from None
        return answer if self._groups is None else _by(answer, route, self._groups)

    async def unsupported(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the fields that litellm would refuse to send; see `Transport.unsupported`."""
        await self._prepared()
        supported = _libraries().supported
        models = _models(self._file) if self._file is not None else {self._config.model}
        taken = [frozenset(supported(model) or ()) for model in models]
        # litellm passes on what is none of OpenAI's fields.
        own = frozenset(_OPENAI_FIELDS)
        return tuple(
            name for name in names if name in own and not all(name in one for one in taken)
        )

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


def _by(answer: ChatReply, route: Route, groups: Groups) -> ChatReply:
    """Return the answer with the deployment that gave it, and all calls that were made for it."""
    chosen = groups.deployment(route.chosen)
    by = answerer(
        answer.answered_by.model if answer.answered_by else "",
        deployment=chosen.name if chosen else "",
        fallback=route.fallback,
    )
    if chosen is not None and not by.model:
        by = answerer(chosen.model, deployment=by.deployment, fallback=by.fallback)
    return replace(answer, answered_by=by, attempts=max(1, route.calls))


async def _completed(
    complete: _Complete, fields: dict[str, object], completions: list[Any]
) -> BaseException | None:
    """Ask without a schema; return what was raised."""
    try:
        completions.append(await complete(**fields))
    except Exception as error:  # noqa: BLE001  # the boundary: litellm's errors have no common base
        return error
    return None


def _require_provider(libraries: _Libraries, config: ModelConfig) -> None:
    # Without one, its error at the first call reads like a server's.
    if not libraries.knows(config):
        model = config.model
        detail = (
            f"litellm knows no provider for model {model!r}: name it as openai/{model} or "
            f"hosted_vllm/{model}, or set `transport: direct`"
        )
        raise JudgeTransportError(Reason.BAD_REQUEST, detail, attempts=0)


def _unset(libraries: _Libraries, model: str) -> tuple[str, ...]:
    """Return the variables that litellm looks for and that a call may do without.

    Raises:
        JudgeTransportError: it may not do without them.
    """
    # Some providers' clients go to the network without a key, others raise what reads like a
    # fault of the network. Not for clouds, which have more ways to say who is calling.
    missing = libraries.missing_keys(model)
    if missing and all(name.endswith("_API_KEY") for name in missing):
        detail = f"no key: export {' or '.join(missing)}, or name another in `api_key_env`"
        raise JudgeTransportError(Reason.AUTH, detail, attempts=0)
    return tuple(missing)


def _models(file: RouterFile) -> set[str]:
    parameters = [
        cast("Mapping[str, object]", entry["litellm_params"]) for entry in file.deployments
    ]
    return {str(given.get("model")) for given in parameters}
