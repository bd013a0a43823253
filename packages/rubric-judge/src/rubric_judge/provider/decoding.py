"""The fields of a request, as far as a server takes them.

What a request leaves out, some servers take from the model's own files, so that the same model
decodes differently here and there. They are told neutral values; any other server is sent what the
configuration says and nothing else. Whoever refuses a neutral field, or wants another name for one,
is asked again without it, or by that name, from then on.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rubric_core.files import toml_beside
from rubric_judge import events
from rubric_judge.errors import JudgeTransportError
from rubric_judge.provider import chat, exchange, model_config, settings
from rubric_judge.provider.failures import status_error

_TABLE: Final[dict[str, dict[str, Any]]] = toml_beside(__file__, "decoding.toml")
_WITHIN_S: Final = 30.0
_BUSY: Final = frozenset({429, 502, 503, 504})
"""Statuses of a server, or of what stands before it, that may answer a moment later."""
_VLLM: Final = "vllm"
_VLLM_ROUTE: Final = "hosted_vllm/"


class Fields:
    """The fields of the requests of one client."""

    def __init__(
        self, config: model_config.ModelConfig, *, owner: str | None = None
    ) -> None:
        """Take what the configuration sends.

        Args:
            config: the model's.
            owner: who serves it, where that is known.
        """
        self._config = config
        self._neutral: dict[str, object] = {}
        self._renamed: dict[str, str] = {}
        self._usual: dict[str, object] | None = None
        self.owner: str | None = None
        """Who serves; "" for one that is told nothing; None until it is known."""
        if owner is not None:
            self.served_by(owner)

    def served_by(self, owner: str) -> None:
        """Take who serves the model, and say what cannot be sent to it."""
        known = _TABLE.get(owner, {})
        self._neutral = dict(known.get("sent", {}))
        self._usual = None
        self.owner = owner
        if filled_in := known.get("filled_in"):
            events.decoding_filled_in(
                model=self._config.model, owner=owner, fields=filled_in, refused=False
            )

    def of(self, request: chat.ChatRequest) -> dict[str, object]:
        """Return the fields of a request, beside the model, the messages and the reply's form.

        Those of a request without any of its own are the same object until they change.
        """
        if request.parameters:
            return self._made(request.parameters)
        if self._usual is None:
            self._usual = self._made({})
        return self._usual

    def _made(self, given: Mapping[str, object]) -> dict[str, object]:
        fields = {**self._neutral, **self._config.sent_fields, **given}
        return {self._renamed.get(name, name): value for name, value in fields.items()}

    def learnt(
        self,
        error: JudgeTransportError,
        request: chat.ChatRequest,
        sent: Mapping[str, object],
    ) -> bool:
        """Learn of a refusal, and return whether the request would now be another one.

        Args:
            error: what came of it.
            request: what was asked.
            sent: the fields that went along, as `of` returned them.
        """
        name = error.refused
        given = {**self._config.sent_fields, **request.parameters}
        if not name:
            return False
        if error.instead and name in sent:
            self._renamed[name] = error.instead
        elif name in self._neutral and name not in given:
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
    """Return who serves, as far as the names of the models say it.

    Args:
        config: the model's.
        routes: litellm's names of all that may answer.

    Returns:
        vLLM, where all say so; "" for providers; None for a server that can be asked.
    """
    if all(route.startswith(_VLLM_ROUTE) for route in routes):
        return _VLLM
    is_own = config.is_direct or config.model.startswith("openai/")
    return None if is_own and config.api_base is not None else ""


async def owner_of(config: model_config.ModelConfig) -> str:
    """Ask a server who it is.

    Args:
        config: its `api_base` is one address.

    Returns:
        What it calls itself in `/v1/models`; "" where it does not say.

    Raises:
        JudgeTransportError: no answer comes, or "not now".
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
    models = [chat.mapping(one) for one in _listed(answer)]
    own = [model for model in models if model.get("id") == config.served_name]
    owner = next((one.get("owned_by") for one in [*own, *models]), "")
    return owner if isinstance(owner, str) else ""


def _listed(answer: chat.Answer) -> list[object]:
    try:
        return chat.listing(answer.decoded().get("data"))
    except JudgeTransportError:  # it has no such list
        return []
