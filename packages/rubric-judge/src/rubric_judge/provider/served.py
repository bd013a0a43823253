"""What a server says of the model that it serves: its weights, and how long they can read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

from rubric_core import Reason
from rubric_judge.errors import JudgeSetupError, JudgeTransportError
from rubric_judge.provider.exchange import Connections
from rubric_judge.provider.failures import key_remedy
from rubric_judge.provider.model_config import ModelConfig
from rubric_judge.provider.settings import api_key

_WITHIN_S = 30.0
_SCORED_WITHIN_S = 180.0
"""A server that has just started, or has much to do, takes its time for a first request."""


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


@dataclass(frozen=True, slots=True)
class ScoredText:
    """The tokens of a text, and how likely a model finds each after those before it."""

    token_ids: tuple[int, ...]
    """But for the first, which nothing comes before."""

    logprobs: tuple[float, ...]
    """Natural logarithms of probabilities."""


class ModelServer:
    """One address of an OpenAI-compatible server; close it with `aclose`."""

    def __init__(self, config: ModelConfig, address: str) -> None:
        """Read the key; nothing is sent.

        Raises:
            JudgeSetupError: a variable is named for the key that is not set.
        """
        self._config = config
        self._address = address.rstrip("/")
        self._name = config.served_name
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
                detail = error.detail
                if error.reason is Reason.AUTH:
                    detail += f": {key_remedy(self._config)}"
                raise JudgeSetupError(
                    f"no model is served at {self._address!r}: {detail}"
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
            count = (await self._posted(url, body)).get("count")
        except JudgeTransportError:
            return None
        return _whole(count)

    async def score(self, text: str) -> ScoredText | None:
        """Return how likely the model finds a text; None where the server does not say.

        vLLM does, by its `prompt_logprobs`. The model is given the text as it is, in no template.
        """
        body = {
            "model": self._name,
            "prompt": text,
            "prompt_logprobs": 0,
            "max_tokens": 1,
            "temperature": 0.0,
        }
        try:
            url = f"{self._address}/completions"
            answer = await self._posted(url, body, within_s=_SCORED_WITHIN_S)
            return _scored_text(answer.get("choices"))
        except JudgeTransportError:
            return None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connections.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _posted(
        self, url: str, body: Mapping[str, object], *, within_s: float = _WITHIN_S
    ) -> dict[str, object]:
        answer = await self._connections.post(
            url,
            body=json.dumps(body).encode(),
            headers={**self._headers(), "Content-Type": "application/json"},
            silence_s=within_s,
        )
        return answer.decoded()

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
                positions=_whole(positions) or None,
            )


def _scored_text(choices: object) -> ScoredText | None:
    """Read the first choice: a list of one mapping for each token, from its id to its figures."""
    try:
        listed = cast("Any", choices)[0]["prompt_logprobs"]
        tokens = [next(iter(token.items())) for token in listed[1:]]
        ids = tuple(int(token_id) for token_id, _ in tokens)
        logprobs = tuple(float(figures["logprob"]) for _, figures in tokens)
    except (AttributeError, IndexError, KeyError, StopIteration, TypeError, ValueError):
        return None
    return ScoredText(ids, logprobs) if ids and all(map(math.isfinite, logprobs)) else None


def _whole(value: object) -> int | None:
    # An answer that is read strictly has floats only.
    if isinstance(value, float) and value.is_integer() and value >= 0:
        return int(value)
    return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
