"""The fields of a request, as far as a server takes them.

Some servers fill fields that a request leaves out from the model's own files, so that the same
model decodes differently on different servers. Those are sent neutral values; any other server is
sent exactly the fields of the configuration. If a server refuses a neutral field, or wants another
name for one, the request is repeated without it, or under that name, and so are all later ones.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from rubric_core.files import toml_beside
from rubric_judge import events
from rubric_judge.errors import JudgeTransportError
from rubric_judge.models import chat, exchange, model_config, settings
from rubric_judge.models.failures import status_error

_TABLE: dict[str, dict[str, Any]] = toml_beside(__file__, "decoding.toml")
_WITHIN_S = 30.0
_BUSY = frozenset({429, 502, 503, 504})
"""Statuses of a server, or of a proxy before it, that may answer a moment later."""
_VLLM = "vllm"
_VLLM_ROUTE = "hosted_vllm/"

AskOnce = Callable[[chat.ChatRequest, Mapping[str, object]], Awaitable[chat.ChatReply]]
"""Sends a request with these fields."""


class Fields:
    """The fields of the requests of one client."""

    def __init__(
        self, config: model_config.ModelConfig, *, routes: Iterable[str]
    ) -> None:
        """Take the fields that the configuration sends.

        Args:
            config: the model's configuration.
            routes: litellm's names of all models that may answer.
        """
        self._config = config
        self._neutral: dict[str, object] = {}
        self._renamed: dict[str, str] = {}
        self._usual: dict[str, object] | None = None
        self.owner: str | None = None
        """Who serves the model; "" for a server that gets no neutral values; None while unknown."""
        self._asking: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]
        self._asking = WeakKeyDictionary()
        owner = known_owner(config, routes)
        if owner is not None:
            self._served_by(owner)

    async def asked(self, request: chat.ChatRequest, ask: AskOnce) -> chat.ChatReply:
        """Ask, and again while a field is refused that can have another name or be left out.

        Args:
            request: the request.
            ask: sends the request with its fields, as `of` returns them.

        Raises:
            JudgeTransportError: no answer came, for another reason.
        """
        if self.owner is None:
            await self._meet()
        calls = 0
        while True:
            fields = self.of(request)
            try:
                reply = await ask(request, fields)
            except JudgeTransportError as error:
                calls += error.attempts
                error.attempts = calls
                if not self.learnt(error, request, fields):
                    raise
            else:
                if not calls:
                    return reply
                return replace(reply, attempts=reply.attempts + calls)

    async def _meet(self) -> None:
        """Find out who serves the model; the first calls wait for it."""
        lock = self._asking.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with lock:
            if self.owner is None:
                self._served_by(await owner_of(self._config))

    def _served_by(self, owner: str) -> None:
        """Note who serves the model, and report the fields that cannot be sent to it."""
        known = _TABLE.get(owner, {})
        self._neutral = dict(known.get("sent", {}))
        self._usual = None
        self.owner = owner
        filled_in = known.get("filled_in")
        if filled_in:
            events.decoding_filled_in(
                model=self._config.model, owner=owner, fields=filled_in, refused=False
            )

    def of(self, request: chat.ChatRequest) -> dict[str, object]:
        """Return the fields of a request, beside the model, the messages and the reply's form.

        Requests without parameters of their own share one object until the fields change.
        """
        if request.parameters:
            return self._renamed_fields(request.parameters)
        if self._usual is None:
            self._usual = self._renamed_fields({})
        return self._usual

    def _renamed_fields(self, parameters: Mapping[str, object]) -> dict[str, object]:
        fields = {**self._neutral, **self._config.sent_fields, **parameters}
        return {self._renamed.get(name, name): value for name, value in fields.items()}

    def learnt(
        self,
        error: JudgeTransportError,
        request: chat.ChatRequest,
        sent: Mapping[str, object],
    ) -> bool:
        """Learn from a refusal, and return whether the request would now have other fields.

        Args:
            error: the error of the attempt.
            request: the request.
            sent: the fields that were sent, as `of` returned them.
        """
        name = error.refused
        requested = {**self._config.sent_fields, **request.parameters}
        if not name:
            return False
        if error.instead and name in sent:
            self._renamed[name] = error.instead
        elif name in self._neutral and name not in requested:
            del self._neutral[name]
            events.decoding_filled_in(
                model=self._config.model,
                owner=self.owner or "",
                fields=[name],
                refused=True,
            )
        self._usual = None
        return self.of(request) != sent


def known_owner(config: model_config.ModelConfig, routes: Iterable[str]) -> str | None:
    """Return who serves the models, as far as their names tell.

    Args:
        config: the model's configuration.
        routes: litellm's names of all models that may answer.

    Returns:
        "vllm" if all names say so; "" for providers; None for a server that can be asked.
    """
    if all(route.startswith(_VLLM_ROUTE) for route in routes):
        return _VLLM
    is_own = config.is_direct or config.model.startswith("openai/")
    return None if is_own and config.api_base is not None else ""


async def owner_of(config: model_config.ModelConfig) -> str:
    """Ask a server which software it is.

    Args:
        config: a configuration whose `api_base` is one address.

    Returns:
        The owner of the model in `/v1/models`; "" if the server does not say.

    Raises:
        JudgeTransportError: no answer comes, or one that means "not now".
    """
    (address,) = config.addresses
    if address is None:
        return ""
    connections = exchange.Connections(address, settings.api_key(config))
    url = f"{address.rstrip('/')}/models"
    try:
        answer = await connections.get(url, silence_s=_WITHIN_S)
    finally:
        await connections.aclose()
    if answer.status in _BUSY:
        raise status_error(answer.status)
    models = [chat.mapping(entry) for entry in _listed(answer)]
    own = [model for model in models if model.get("id") == config.served_name]
    owners = [model.get("owned_by") for model in [*own, *models]]
    owner = owners[0] if owners else ""
    return owner if isinstance(owner, str) else ""


def _listed(answer: chat.Answer) -> list[object]:
    try:
        return chat.listing(answer.decoded().get("data"))
    except JudgeTransportError:  # the server has no such list
        return []
