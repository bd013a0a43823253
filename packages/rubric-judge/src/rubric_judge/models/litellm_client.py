"""Calls of language models through litellm: the only module that imports it.

litellm is imported in a thread before the first call, which takes seconds. The reply's schema goes
along and is asked for once. Every error of the library is turned into a reason here.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from weakref import WeakSet

import anyio.to_thread

from rubric_core import ConfigError, Reason
from rubric_core.errors import needing_extra
from rubric_judge.errors import JudgeTransportError
from rubric_judge.models import decoding
from rubric_judge.models.chat import ChatReply, ChatRequest, Transport
from rubric_judge.models.litellm_replies import chat_reply, refusal_or_raise
from rubric_judge.models.model_config import ModelConfig, Prices
from rubric_judge.models.router_calls import Deployments, RoutedCall, make_router
from rubric_judge.models.router_file import Groups, read_router_file
from rubric_judge.models.settings import (
    api_key,
    deployments_with_keys,
    keep_litellm_offline,
)

_Complete = Callable[..., Awaitable[Any]]
_OPENAI_FIELDS = frozenset({"max_tokens", "seed", "stop", "temperature", "top_p"})
_TALKATIVE = (
    "LiteLLM",
    "LiteLLM Proxy",
    "LiteLLM Router",
    "httpcore",
    "httpcore2",
    "httpx",
    "httpx2",
)
"""Loggers whose lines, on errors and at DEBUG, quote requests and replies, which may hold passages,
rubrics and keys; their children in the hierarchy are covered too."""
_LATE = (
    "openai.resources",
    "litellm._service_logger",
    "litellm.proxy.spend_tracking.savings",
)
_QUOTING = "Pydantic serializer warnings"
_loading = threading.Lock()


@lru_cache(maxsize=1)
def _litellm() -> Any:
    """Import litellm, which has few type annotations."""
    keep_litellm_offline()
    import litellm

    module: Any = litellm
    module.suppress_debug_info = True
    for name in (*_TALKATIVE, "openai"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    # Otherwise the first call would import them, in the middle of the event loop.
    for name in _LATE:
        with suppress(ImportError):  # other releases of litellm may have it elsewhere
            import_module(name)
    module.encoding  # noqa: B018  # loaded at the first access
    return module


def known_prices(config: ModelConfig) -> Prices | None:
    """Return a model's prices, as configured or from litellm's list; nothing is sent.

    Args:
        config: the model.

    Returns:
        The prices; None if neither has any, or a `litellm_config` may hold several.
    """
    has_own_rules = config.is_direct or config.litellm_config is not None
    if config.prices is not None or has_own_rules:
        return config.prices
    if find_spec("litellm") is None:
        return None
    try:
        known: dict[str, Any] = _litellm().get_model_info(config.model)
    except Exception:  # noqa: BLE001 - litellm raises for models that it does not know
        return None
    prompt_usd = 1e6 * float(known.get("input_cost_per_token") or 0.0)
    completion_usd = 1e6 * float(known.get("output_cost_per_token") or 0.0)
    if not prompt_usd or not completion_usd:
        return None
    return Prices(
        prompt_usd_per_mtok=prompt_usd, completion_usd_per_mtok=completion_usd
    )


def _warm_up(litellm: Any, model: str) -> None:
    """Load what litellm would otherwise load during the first calls; nothing is sent."""
    messages = [{"role": "user", "content": "ready?"}]
    # A model that litellm does not know is reported elsewhere.
    with suppress(Exception):
        litellm.get_supported_openai_params(model=model)
        # Callbacks would see a call that was never made. Not `acompletion`, which would move the
        # logging of calls in flight away from their event loop.
        if not (litellm.callbacks or litellm.success_callback):
            litellm.completion(model=model, messages=messages, mock_response="ready")


async def _complete(**request: Any) -> Any:
    # Otherwise the OpenAI client below litellm would use its default, 2.
    return await _litellm().acompletion(**request, max_retries=0)


def _require_library(model: str) -> None:
    """Look for litellm without importing it, which takes seconds."""
    with needing_extra(
        "rubric-judge", "litellm", by=f"model {model!r}, asked through litellm,"
    ):
        if find_spec("litellm") is None:
            raise ModuleNotFoundError(name="litellm")


_in_use: WeakSet[LiteLLMClient] = WeakSet()
"""Clients that have made calls and are not closed."""


class LiteLLMClient(Transport):
    """Client for every model that litellm can name."""

    def __init__(self, config: ModelConfig) -> None:
        """Read the key, or the file with the deployments and their keys.

        Raises:
            JudgeSetupError: the variable named for a key is not set.
            ConfigError: the `litellm_config` cannot be used.
            MissingExtraError: litellm is not installed.
        """
        _require_library(config.model)
        self._config = config
        self._groups: Groups | None = None
        self._deployments: Deployments | None = None
        if config.litellm_config is not None:
            file = read_router_file(config.litellm_config, model=config.model)
            self._groups = Groups(file, deployments_with_keys(file))
            self._deployments = Deployments(self._groups)
            if not config.allow_fallback_models:
                self._groups.require_one_model(config.model)
        self._key = api_key(config)
        self._router: Any = None
        self._is_ready = False
        self._unset: tuple[str, ...] = ()
        self._fields = decoding.Fields(config, routes=self._models())

    async def prepare(self) -> None:
        """Load litellm and look for the key; see `Transport.prepare`."""
        if not self._is_ready:
            await anyio.to_thread.run_sync(self._make_ready)
            self._is_ready = True
        if self._groups is not None and self._router is None:
            self._make_router(self._groups)

    def _make_ready(self) -> None:
        config = self._config
        with _loading:  # the cache alone would let two threads import at once
            litellm = _litellm()
        for model in self._models():
            _warm_up(litellm, model)
        if self._groups is None:
            _require_provider(litellm, config)
            self._unset = _unset(litellm, config.model) if self._key is None else ()

    def _make_router(self, groups: Groups) -> None:
        # In the event loop, since its strategies run their periodic work there.
        try:
            self._router = make_router(
                _litellm().Router, groups, timeout_s=self._config.timeout_s
            )
        except ConfigError as error:
            raise JudgeTransportError(
                Reason.BAD_REQUEST, str(error), attempts=0
            ) from None

    def _models(self) -> set[str]:
        deployments = self._groups.deployments if self._groups else ()
        return {deployment.route for deployment in deployments} or {self._config.model}

    @property
    def most_calls(self) -> int:
        """Number of deployments that one attempt may call; see `Transport.most_calls`."""
        if self._groups is None:
            return 1
        config = self._config
        return self._groups.most_calls(
            config.model, other_models=config.allow_fallback_models
        )

    async def ask(self, request: ChatRequest) -> ChatReply:
        """Send one request; see `Transport.ask`."""
        await self.prepare()
        _in_use.add(self)
        _keep_replies_out_of_warnings()
        return await self._fields.asked(request, self._asked_once)

    async def _asked_once(
        self, request: ChatRequest, fields: Mapping[str, object]
    ) -> ChatReply:
        litellm = _litellm()
        routed: RoutedCall | None = None
        if self._groups is not None and self._deployments is not None:
            routed = RoutedCall(
                litellm,
                self._router,
                self._groups,
                self._config,
                self._deployments,
                affinity=request.affinity,
            )
        complete = routed.complete if routed else _complete
        sent = {**self._parameters(), **fields, "messages": request.messages}
        try:
            try:
                answer = chat_reply(await _completion(complete, sent, request))
            except JudgeTransportError:
                raise
            except Exception as error:  # noqa: BLE001  # litellm's errors have no common base
                import openai

                unreachable = openai.APIConnectionError
                answer = refusal_or_raise(
                    error, litellm, unreachable=unreachable, sent=fields
                )
        except JudgeTransportError as error:
            if self._unset:
                error.detail += f"; not set: {', '.join(self._unset)}"
            raise (routed.with_calls(error) if routed else error) from None
        return routed.answered(answer) if routed else answer

    async def unsupported(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the fields that litellm would refuse to send; see `Transport.unsupported`."""
        await self.prepare()
        supported: Callable[..., list[str] | None] = (
            _litellm().get_supported_openai_params
        )
        supported_fields = [
            frozenset(supported(model=model) or ()) for model in self._models()
        ]
        # litellm passes on all fields that are not OpenAI's.
        refused = _OPENAI_FIELDS - _OPENAI_FIELDS.intersection(*supported_fields)
        return tuple(name for name in names if name in refused)

    async def aclose(self) -> None:
        """Close litellm's connections once its last user is closed; all users share them."""
        _in_use.discard(self)
        if self._router is not None:
            # Otherwise litellm would go on reporting every call to it. Before 1.109 the method was
            # called `discard`.
            retire = getattr(self._router, "retire", None) or self._router.discard
            retire()
            self._router = None
        if not _in_use and _litellm.cache_info().currsize:
            litellm = _litellm()
            await litellm.close_litellm_async_clients()
            # Closed clients stay in the cache, and the next user on this event loop would get them.
            litellm.in_memory_llm_clients_cache.flush_cache()

    def _parameters(self) -> dict[str, object]:
        config = self._config
        parameters: dict[str, object] = {
            "model": config.model,
            "timeout": config.timeout_s,
        }
        if self._groups is None:
            parameters["api_base"] = config.api_base
            parameters["api_key"] = self._key.get_secret_value() if self._key else None
        return parameters


async def _completion(
    complete: _Complete, fields: dict[str, object], request: ChatRequest
) -> Any:
    """Ask once, with the reply's schema if there is one.

    Returns:
        litellm's answer, valid or not: the judge reads its text.

    Raises:
        Exception: the error that litellm raised.
    """
    if request.reply is None or request.asks_for == "prompt":
        return await complete(**fields)
    form: dict[str, object] = {"type": request.asks_for}
    if request.asks_for == "json_schema":
        schema = request.reply.model_json_schema()
        form["json_schema"] = {"name": request.reply.__name__, "schema": schema}
    return await complete(**{**fields, "response_format": form})


def _keep_replies_out_of_warnings() -> None:
    """Silence pydantic's warnings about an answer with wrong types, since they quote it.

    Repeated calls are quick. Programs reset the filters, and tests do so around each test.
    """
    pattern = warnings.filters[0][1] if warnings.filters else None
    if getattr(pattern, "pattern", pattern) != _QUOTING:
        warnings.filterwarnings("ignore", message=_QUOTING, module="pydantic")


def _require_provider(litellm: Any, config: ModelConfig) -> None:
    # Without a provider, litellm's error at the first call reads like a server's.
    model = config.model
    provider = config.parameters.get("custom_llm_provider")
    try:
        litellm.get_llm_provider(
            model, custom_llm_provider=provider, api_base=config.api_base
        )
    except litellm.BadRequestError:
        raise JudgeTransportError(
            Reason.BAD_REQUEST,
            f"litellm knows no provider for model {model!r}: name it as openai/{model} or "
            f"hosted_vllm/{model}, or set `transport: direct`",
            attempts=0,
        ) from None


def _unset(litellm: Any, model: str) -> tuple[str, ...]:
    """Return the variables that litellm looks for but that a call can do without.

    Raises:
        JudgeTransportError: the call cannot do without them.
    """
    # Without a key, some providers' clients call the network and others raise an error that reads
    # like a network failure. Clouds are left out: they have more ways to identify the caller.
    missing = litellm.validate_environment(model)["missing_keys"]
    if missing and all(name.endswith("_API_KEY") for name in missing):
        raise JudgeTransportError(
            Reason.AUTH,
            f"no key: export {' or '.join(missing)}, or name another in `api_key_env`",
            attempts=0,
        )
    return tuple(missing)
