"""Calls of language models through litellm: the only module that imports it.

It is imported before the first call, in a thread: that takes seconds. The reply's schema goes along
and is asked for once. Every error of the library ends here and leaves as a reason.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from weakref import WeakSet

import anyio.to_thread

from rubric_core import ConfigError, Reason
from rubric_core.errors import needing_extra
from rubric_judge.errors import JudgeTransportError
from rubric_judge.provider import decoding
from rubric_judge.provider.chat import ChatReply, ChatRequest, Transport
from rubric_judge.provider.litellm_replies import chat_reply, refusal_or_raise
from rubric_judge.provider.model_config import ModelConfig, Prices
from rubric_judge.provider.router_calls import RoutedCall, make_router
from rubric_judge.provider.router_file import Groups, read_router_file
from rubric_judge.provider.settings import (
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
rubrics and keys; what is under them by a dot follows."""
_LATE = (
    "openai.resources",
    "litellm._service_logger",
    "litellm.proxy.spend_tracking.savings",
)
_QUOTING = "Pydantic serializer warnings"
_loading = threading.Lock()


@lru_cache(maxsize=1)
def _litellm() -> Any:
    """Import the library; it has no types to speak of."""
    keep_litellm_offline()
    import litellm

    module: Any = litellm
    module.suppress_debug_info = True
    for name in (*_TALKATIVE, "openai"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    # Or the first call would load them, in the middle of the event loop.
    for name in _LATE:
        with suppress(ImportError):  # another release of litellm may have it elsewhere
            import_module(name)
    module.encoding  # noqa: B018  # loaded at the first look
    return module


def known_prices(config: ModelConfig) -> Prices | None:
    """Return what a model's tokens cost: as configured, or by litellm's list; nothing is sent.

    Args:
        config: the model.

    Returns:
        None where neither says; a file of models (`litellm_config`) may hold several prices.
    """
    if (
        config.prices is not None
        or config.is_direct
        or config.litellm_config is not None
    ):
        return config.prices
    if find_spec("litellm") is None:
        return None
    try:
        known: dict[str, Any] = _litellm().get_model_info(config.model)
    except Exception:  # noqa: BLE001 - litellm's way to say that it does not know a model
        return None
    per_mtok = {
        f"{name}_usd_per_mtok": 1e6 * float(known.get(f"{kind}_cost_per_token") or 0.0)
        for name, kind in (("prompt", "input"), ("completion", "output"))
    }
    return Prices(**per_mtok) if all(per_mtok.values()) else None


def _warm_up(litellm: Any, model: str) -> None:
    """Load what litellm would load in the middle of the first calls; nothing is sent."""
    messages = [{"role": "user", "content": "ready?"}]
    with suppress(
        Exception
    ):  # a model that litellm does not know is reported elsewhere
        litellm.get_supported_openai_params(model=model)
        # Callbacks would see a call that never was. Not `acompletion`, which would take what is
        # logged of calls in flight away from their event loop.
        if not (litellm.callbacks or litellm.success_callback):
            litellm.completion(model=model, messages=messages, mock_response="ready")


async def _complete(**request: Any) -> Any:
    # Or the OpenAI client below would use its default, 2.
    return await _litellm().acompletion(**request, max_retries=0)


def _require_library(model: str) -> None:
    """Look for litellm without importing it, which takes seconds."""
    with needing_extra(
        "rubric-judge", "litellm", by=f"model {model!r}, asked through litellm,"
    ):
        if find_spec("litellm") is None:
            raise ModuleNotFoundError(name="litellm")


_in_use: WeakSet[LiteLLMClient] = WeakSet()
"""Those that asked and were not closed."""


class LiteLLMClient(Transport):
    """To every model that litellm can name."""

    def __init__(self, config: ModelConfig) -> None:
        """Read the key, or the file with the deployments and their keys.

        Raises:
            JudgeSetupError: a variable that is named for a key is not set.
            ConfigError: the `litellm_config` cannot be used.
            MissingExtraError: litellm is not installed.
        """
        _require_library(config.model)
        self._config = config
        self._groups: Groups | None = None
        if config.litellm_config is not None:
            file = read_router_file(config.litellm_config, model=config.model)
            self._groups = Groups(file, deployments_with_keys(file))
            if not config.allow_fallback_models:
                self._groups.require_one_model(config.model)
        self._key = api_key(config)
        self._router: Any = None
        self._is_ready = False
        self._unset: tuple[str, ...] = ()
        self._fields = decoding.Fields(
            config, owner=decoding.known_owner(config, self._models())
        )

    async def prepare(self) -> None:
        """Load litellm and look for the key; see `Transport.prepare`."""
        if not self._is_ready:
            await anyio.to_thread.run_sync(self._make_ready)
            self._is_ready = True
        if self._groups is not None and self._router is None:
            self._make_router(self._groups)

    def _make_ready(self) -> None:
        config = self._config
        with _loading:  # the cache would let two threads load at once
            litellm = _litellm()
        for model in self._models():
            _warm_up(litellm, model)
        if self._groups is None:
            _require_provider(litellm, config)
            self._unset = _unset(litellm, config.model) if self._key is None else ()

    def _make_router(self, groups: Groups) -> None:
        # In the event loop, where what its strategies do from time to time is done.
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
        """How many deployments one attempt may call; see `Transport.most_calls`."""
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
        if self._fields.owner is None:
            self._fields.served_by(await decoding.owner_of(self._config))
        calls = 0
        while True:
            fields = self._fields.of(request)
            try:
                reply = await self._asked_once(request, fields)
            except JudgeTransportError as error:
                calls = error.attempts = calls + error.attempts
                if not self._fields.learnt(error, request, fields):
                    raise
            else:
                return (
                    replace(reply, attempts=reply.attempts + calls) if calls else reply
                )

    async def _asked_once(
        self, request: ChatRequest, fields: Mapping[str, object]
    ) -> ChatReply:
        litellm = _litellm()
        routed = self._groups and RoutedCall(
            litellm, self._router, self._groups, self._config
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
        # litellm passes on what is none of OpenAI's fields.
        refused = _OPENAI_FIELDS - _OPENAI_FIELDS.intersection(*supported_fields)
        return tuple(name for name in names if name in refused)

    async def aclose(self) -> None:
        """Close litellm's connections, which are those of all its users, with the last of them."""
        _in_use.discard(self)
        if self._router is not None:
            # Or litellm goes on telling it of every call. Before 1.109 it was called `discard`.
            (getattr(self._router, "retire", None) or self._router.discard)()
            self._router = None
        if not _in_use and _litellm.cache_info().currsize:
            litellm = _litellm()
            await litellm.close_litellm_async_clients()
            # What is closed stays there, and the next user on this event loop would be given it.
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
    """Ask once, with the reply's schema where there is one.

    Returns:
        Litellm's answer, valid or not: what its text says is the judge's to read.

    Raises:
        Exception: what litellm raised.
    """
    if request.reply is None or request.asks_for == "prompt":
        return await complete(**fields)
    form: dict[str, object] = {"type": request.asks_for}
    if request.asks_for == "json_schema":
        schema = request.reply.model_json_schema()
        form["json_schema"] = {"name": request.reply.__name__, "schema": schema}
    return await complete(**{**fields, "response_format": form})


def _keep_replies_out_of_warnings() -> None:
    """Silence pydantic's warnings about an answer of the wrong types: they quote it.

    Quick when done before. Programs reset the filters, and tests do around each.
    """
    pattern = warnings.filters[0][1] if warnings.filters else None
    if getattr(pattern, "pattern", pattern) != _QUOTING:
        warnings.filterwarnings("ignore", message=_QUOTING, module="pydantic")


def _require_provider(litellm: Any, config: ModelConfig) -> None:
    # Without one, its error at the first call reads like a server's.
    model = config.model
    provider = config.parameters.get("custom_llm_provider")
    try:
        litellm.get_llm_provider(
            model, custom_llm_provider=provider, api_base=config.api_base
        )
    except litellm.BadRequestError:
        detail = (
            f"litellm knows no provider for model {model!r}: name it as openai/{model} or "
            f"hosted_vllm/{model}, or set `transport: direct`"
        )
        raise JudgeTransportError(Reason.BAD_REQUEST, detail, attempts=0) from None


def _unset(litellm: Any, model: str) -> tuple[str, ...]:
    """Return the variables that litellm looks for and that a call may do without.

    Raises:
        JudgeTransportError: it may not do without them.
    """
    # Some providers' clients go to the network without a key, others raise what reads like a
    # fault of the network. Not for clouds, which have more ways to say who is calling.
    missing = litellm.validate_environment(model)["missing_keys"]
    if missing and all(name.endswith("_API_KEY") for name in missing):
        detail = (
            f"no key: export {' or '.join(missing)}, or name another in `api_key_env`"
        )
        raise JudgeTransportError(Reason.AUTH, detail, attempts=0)
    return tuple(missing)
