"""litellm's calls without the records that nobody reads.

litellm writes a record of every call for the callbacks that a program may have registered, and
looks for the price of every answer: together a good part of its work, in the event loop. Where
there are no callbacks, a call gets a log of litellm's own class that leaves the record out and that
looks only once for the price of a model that has none. Nothing of litellm is changed for others.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import datetime
from importlib import import_module
from typing import Any
from uuid import uuid4

from rubric_judge.provider.model_config import ModelConfig

_WATCHERS = (
    "callbacks",
    "input_callback",
    "success_callback",
    "failure_callback",
    "_async_input_callback",
    "_async_success_callback",
    "_async_failure_callback",
    "cache",
    "custom_provider_map",
    "guardrail_name_config_map",
    "max_budget",
    "pre_call_rules",
    "request_correlation_in_logs",
)
"""What a program sets of litellm to see, price or change its calls."""
_MOST_NAMES = 1024
_QUOTING = "Pydantic serializer warnings"

_TALKATIVE = (
    "LiteLLM",
    "LiteLLM Proxy",
    "LiteLLM Router",
    "httpcore",
    "httpx",
    "instructor",
    "openai",
)
"""Loggers of the libraries; what is under them by a dot follows."""

_Complete = Callable[..., Coroutine[Any, Any, object]]


def unrecorded(litellm: Any, log: type[Any]) -> _Complete:
    """Return `acompletion` without records, for as long as nobody asks for them.

    Args:
        litellm: the module.
        log: its class for what is logged of one call.

    Returns:
        A function with the arguments of `acompletion`; it asks once.
    """
    quiet = _quiet(litellm, log)

    async def complete(**request: Any) -> object:
        # Instructor keeps its own `max_retries`; the OpenAI client below would use its default, 2.
        request["max_retries"] = 0
        if not _watched(litellm):
            identity = str(uuid4())
            request["litellm_call_id"] = identity
            request["litellm_logging_obj"] = quiet(
                model=request["model"],
                messages=[],
                stream=False,
                call_type="acompletion",
                start_time=datetime.now(),  # noqa: DTZ005  # litellm subtracts one like it
                litellm_call_id=identity,
                function_id="",
            )
            if request["model"].startswith("openai/") and request.get("api_base"):
                request = _with_fields_in_extra_body(request)
        return await litellm.acompletion(**request)

    return complete


def _with_fields_in_extra_body(request: dict[str, Any]) -> dict[str, Any]:
    # The same fields of the same body, past the OpenAI client's walk over every part of them. A
    # server of one's own gets them as they are; for OpenAI's own models litellm may translate them.
    fields = {"messages": request["messages"]}
    if "response_format" in request:
        fields["response_format"] = request.pop("response_format")
    extra_body: dict[str, Any] = {**(request.get("extra_body") or {}), **fields}
    return {**request, "messages": [], "extra_body": extra_body}


def _watched(litellm: Any) -> bool:
    return any(getattr(litellm, name, None) for name in _WATCHERS)


def _quiet(litellm: Any, log: type[Any]) -> type[Any]:
    unpriced: set[object] = set()

    class QuietLog(log):
        def claim_async_success_log(self) -> bool:
            return False

        def response_cost_calculator(self, result: object, *args: Any, **kwargs: Any) -> object:
            # The list of prices grows when a program registers one.
            answered_by = getattr(result, "model", None)
            names = (self.model, str(answered_by), len(litellm.model_cost))
            if names in unpriced:
                return None
            cost: object = log.response_cost_calculator(self, result, *args, **kwargs)
            if cost is None and len(unpriced) < _MOST_NAMES:
                unpriced.add(names)
            return cost

    return QuietLog


def warm_up(litellm: Any, complete: _Complete, *, model: str) -> None:
    """Load what litellm would load in the middle of the first calls; nothing is sent.

    Args:
        litellm: the module.
        complete: what makes the calls.
        model: litellm's name of it.
    """
    # A model that litellm does not know is the first call's to report.
    with suppress(Exception):
        litellm.get_supported_openai_params(model=model)
        litellm.encoding  # noqa: B018  # loaded at the first look
        import_module("litellm._service_logger")
        if not _watched(litellm):  # or somebody would be told of a call that was none
            messages = [{"role": "user", "content": "ready?"}]
            asyncio.run(complete(model=model, messages=messages, mock_response="ready"))


def keep_replies_out_of_warnings() -> None:
    """Silence pydantic's warnings about an answer of the wrong types: they quote it.

    Quick when done before. Programs reset the filters, and tests do around each.
    """
    pattern = warnings.filters[0][1] if warnings.filters else None
    if getattr(pattern, "pattern", pattern) != _QUOTING:
        warnings.filterwarnings("ignore", message=_QUOTING, module="pydantic")


def keep_texts_out_of_logs() -> None:
    """Silence the libraries' loggers.

    Their lines, on errors and at DEBUG, quote requests and replies, which may hold passages,
    rubrics and keys.
    """
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def has_provider(provider: Any, config: ModelConfig) -> bool:
    """Tell whether litellm knows who serves a model, without asking anyone."""
    try:
        provider.get_llm_provider(
            config.model,
            custom_llm_provider=config.parameters.get("custom_llm_provider"),
            api_base=config.api_base,
        )
    except provider.BadRequestError:
        return False
    return True
