"""Questions to a server about the model that it serves: its weights, its context length, scores."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from rubric_core import Reason
from rubric_judge.errors import JudgeSetupError, JudgeTransportError
from rubric_judge.models import chat, exchange, model_config, settings
from rubric_judge.models.failures import key_remedy

_WITHIN_S = 30.0
_SCORED_WITHIN_S = 180.0
"""A server that has just started, or is busy, takes its time for a first request."""


@dataclass(frozen=True)
class ServedModel:
    """An entry of `/v1/models`."""

    name: str
    root: str | None
    """Folder or name of its weights, if the server reports it."""

    parent: str | None
    """The base model of an adapter."""

    owner: str | None
    """Name of the server's software: "vllm" for vLLM."""

    positions: int | None
    """Longest prompt and answer together, in tokens."""


@dataclass(frozen=True, slots=True)
class ScoredText:
    """The tokens of a text, and how likely a model finds each after those before it."""

    token_ids: tuple[int, ...]
    """Ids of all tokens but the first, which has no tokens before it."""

    logprobs: tuple[float, ...]
    """Natural logarithms of the tokens' probabilities."""


class ModelServer(chat.ClosesItself):
    """Client of one address of an OpenAI-compatible server; close it with `aclose`."""

    def __init__(self, config: model_config.ModelConfig, address: str) -> None:
        """Read the key; nothing is sent.

        Raises:
            JudgeSetupError: the variable named for the key is not set.
        """
        self._config = config
        self._address = address.rstrip("/")
        self._name = config.served_name
        self._connections = exchange.Connections(address, settings.api_key(config))

    async def models(self) -> tuple[ServedModel, ...]:
        """Return the served models; nothing if the server has no list of them.

        Raises:
            JudgeSetupError: no server answers at the address, or the key is refused.
        """
        try:
            answer = await self._connections.get(
                f"{self._address}/models", silence_s=_WITHIN_S
            )
            listed = answer.decoded().get("data")
        except JudgeTransportError as error:
            if error.reason in {Reason.CONNECTION, Reason.TIMEOUT, Reason.AUTH}:
                remedy = ""
                if error.reason is Reason.AUTH:
                    remedy = f": {key_remedy(self._config)}"
                address = repr(self._address)
                raise JudgeSetupError(
                    f"no model is served at {address}: {error.detail}{remedy}"
                ) from None
            return ()
        return tuple(_entries(listed))

    async def prompt_tokens(
        self, question: str, *, arguments: Mapping[str, object] | None = None
    ) -> int | None:
        """Return the number of tokens of a question in its template; None if it is not known.

        vLLM counts them. Each call is a request, so make it only where the number matters.

        Args:
            question: the only message.
            arguments: `chat_template_kwargs`.
        """
        return _whole((await self._tokenized(question, arguments)).get("count"))

    async def text_tokens(self, text: str) -> int | None:
        """Return the number of tokens of a text alone, without a template; None if it is not known.

        vLLM and SGLang count them. Each call is a request, so make it only where the number
        matters.
        """
        body = {"prompt": text, "add_special_tokens": False}
        answer = await self._posted(self._beside("tokenize"), body)
        return _whole(answer.get("count"))

    async def prompt(
        self, question: str, *, arguments: Mapping[str, object] | None = None
    ) -> str | None:
        """Return a question in its template, as the model reads it; None if it is not known.

        Args:
            question: the only message.
            arguments: `chat_template_kwargs`.
        """
        ids = _token_ids((await self._tokenized(question, arguments)).get("tokens"))
        if not ids:
            return None
        answer = await self._posted(self._beside("detokenize"), {"tokens": ids})
        return _text(answer.get("prompt"))

    async def vanishing(self, marks: Sequence[str]) -> tuple[str, ...]:
        """Return the marks that a model writes as a token which its text does not show.

        vLLM is made to write each mark that is one token. Other servers: nothing is returned.
        """
        body = {
            "prompt": "\n".join(marks),
            "add_special_tokens": False,
            "return_token_strs": True,
        }
        answer = await self._posted(self._beside("tokenize"), body)
        ids = _token_ids(answer.get("tokens"))
        pieces = map(_text, chat.listing(answer.get("token_strs")))
        id_of_piece = dict(zip(pieces, ids, strict=False))
        tokens = [mark for mark in marks if mark in id_of_piece]
        vanishing = [
            mark for mark in tokens if await self._vanishes(mark, id_of_piece[mark])
        ]
        return tuple(vanishing)

    async def _vanishes(self, mark: str, token_id: int) -> bool:
        body = {
            "prompt": mark,
            "allowed_token_ids": [token_id],
            "max_tokens": 1,
            "temperature": 0,
        }
        url = f"{self._address}/completions"
        answer = await self._posted(url, body, within_s=_SCORED_WITHIN_S)
        choices = chat.listing(answer.get("choices"))
        return [chat.mapping(choice).get("text") for choice in choices] == [""]

    async def _tokenized(
        self, question: str, arguments: Mapping[str, object] | None
    ) -> dict[str, object]:
        body: dict[str, object] = {
            "messages": [{"role": "user", "content": question}],
            "add_generation_prompt": True,
        }
        if arguments:
            body["chat_template_kwargs"] = dict(arguments)
        return await self._posted(self._beside("tokenize"), body)

    def _beside(self, name: str) -> str:
        return f"{self._address.removesuffix('/v1')}/{name}"

    async def score(self, text: str) -> ScoredText | None:
        """Return how likely the model finds a text; None if the server does not report it.

        vLLM does, in its `prompt_logprobs`. The model reads the text as it is, without a template.
        """
        body = {
            "prompt": text,
            "prompt_logprobs": 0,
            "max_tokens": 1,
            "temperature": 0.0,
        }
        url = f"{self._address}/completions"
        answer = await self._posted(url, body, within_s=_SCORED_WITHIN_S)
        return _scored_text(answer.get("choices"))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connections.aclose()

    async def _posted(
        self, url: str, body: Mapping[str, object], *, within_s: float = _WITHIN_S
    ) -> dict[str, object]:
        """Return the JSON object that the server answers; an empty one if there is none."""
        content = json.dumps({"model": self._name, **body}).encode()
        try:
            answer = await self._connections.post(url, content, silence_s=within_s)
            return answer.decoded()
        except JudgeTransportError:
            return {}


def _entries(listed: object) -> Iterator[ServedModel]:
    for fields in map(chat.mapping, chat.listing(listed)):
        name = fields.get("id")
        if isinstance(name, str):
            yield ServedModel(
                name=name,
                root=_text(fields.get("root")),
                parent=_text(fields.get("parent")),
                owner=_text(fields.get("owned_by")),
                positions=_whole(fields.get("max_model_len")) or None,
            )


def _scored_text(choices: object) -> ScoredText | None:
    """Read the first choice: a list with one mapping per token, from its id to its figures."""
    try:
        listed = cast("Any", choices)[0]["prompt_logprobs"]
        tokens = [next(iter(token.items())) for token in listed[1:]]
        ids = tuple(int(token_id) for token_id, _ in tokens)
        logprobs = tuple(float(figures["logprob"]) for _, figures in tokens)
    except (AttributeError, IndexError, KeyError, StopIteration, TypeError, ValueError):
        return None
    if not ids or not all(map(math.isfinite, logprobs)):
        return None
    return ScoredText(ids, logprobs)


def _token_ids(listed: object) -> list[int]:
    numbers = [_whole(value) for value in chat.listing(listed)]
    return [number for number in numbers if number is not None]


def _whole(value: object) -> int | None:
    # Answers that are read strictly hold only floats.
    if isinstance(value, float) and value.is_integer() and value >= 0:
        return int(value)
    return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
