"""What a server says of the model that it serves: its weights, and how long they can read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self, cast

from rubric_core import Reason
from rubric_judge.errors import JudgeSetupError, JudgeTransportError
from rubric_judge.exchange import Connections
from rubric_judge.model_config import ModelConfig
from rubric_judge.settings import api_key

__all__ = ["ModelServer", "ServedModel"]

_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class ServedModel:
    """An entry of `/v1/models`."""

    name: str
    root: str | None
    """Folder or name of its weights, where the server says."""

    parent: str | None
    """The model that an adapter is of."""

    owner: str | None
    """Who serves: "vllm" for vLLM."""

    positions: int | None
    """Longest prompt and answer together, in tokens."""


class ModelServer:
    """One address of an OpenAI-compatible server; close it with `aclose`."""

    def __init__(self, config: ModelConfig, address: str) -> None:
        """Read the key; nothing is sent.

        Raises:
            JudgeSetupError: a variable is named for the key that is not set.
        """
        self._address = address.rstrip("/")
        self._name = config.model.removeprefix("hosted_vllm/").removeprefix("openai/")
        self._key = api_key(config)
        self._connections = Connections(address)

    async def models(self) -> tuple[ServedModel, ...]:
        """Return what is served; nothing where the server has no such list.

        Raises:
            JudgeSetupError: nobody answers at the address, or the key is refused.
        """
        url = f"{self._address}/models"
        try:
            answer = await self._connections.get(url, headers=self._headers(), silence_s=_WITHIN_S)
            listed = answer.decoded().get("data")
        except JudgeTransportError as error:
            if error.reason in {Reason.CONNECTION, Reason.TIMEOUT, Reason.AUTH}:
                raise JudgeSetupError(
                    f"no model is served at {self._address!r}: {error.detail}"
                ) from None
            return ()
        return tuple(_entries(listed))

    async def prompt_tokens(self, question: str) -> int | None:
        """Return how many tokens a question is with its template; None where nobody says.

        vLLM counts; it takes a request, so ask only where it matters.
        """
        body = {
            "model": self._name,
            "messages": [{"role": "user", "content": question}],
            "add_generation_prompt": True,
        }
        url = f"{self._address.removesuffix('/v1')}/tokenize"
        try:
            answer = await self._connections.post(
                url,
                body=json.dumps(body).encode(),
                headers={**self._headers(), "Content-Type": "application/json"},
                silence_s=_WITHIN_S,
            )
            count = answer.decoded().get("count")
        except JudgeTransportError:
            return None
        return count if isinstance(count, int) and not isinstance(count, bool) else None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connections.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if self._key is not None:  # in plain text for the call only
            headers["Authorization"] = f"Bearer {self._key.get_secret_value()}"
        return headers


def _entries(listed: object) -> Iterator[ServedModel]:
    for entry in cast("list[object]", listed) if isinstance(listed, list) else []:
        if not isinstance(entry, dict):
            continue
        fields = cast("dict[str, object]", entry)
        name, positions = fields.get("id"), fields.get("max_model_len")
        if isinstance(name, str):
            yield ServedModel(
                name=name,
                root=_text(fields.get("root")),
                parent=_text(fields.get("parent")),
                owner=_text(fields.get("owned_by")),
                positions=positions if isinstance(positions, int) and positions > 0 else None,
            )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
