"""What a server says of the model that it serves: its weights, and how long they can read."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from rubric_core import Reason
from rubric_judge.errors import JudgeSetupError, JudgeTransportError
from rubric_judge.provider import chat, exchange, model_config, settings
from rubric_judge.provider.failures import key_remedy

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


class ModelServer(chat.ClosesItself):
    """One address of an OpenAI-compatible server; close it with `aclose`."""

    def __init__(self, config: model_config.ModelConfig, address: str) -> None:
        """Read the key; nothing is sent.

        Raises:
            JudgeSetupError: a variable is named for the key that is not set.
        """
        self._config = config
        self._address = address.rstrip("/")
        self._name = config.served_name
        self._connections = exchange.Connections(address, settings.api_key(config))

    async def models(self) -> tuple[ServedModel, ...]:
        """Return what is served; nothing where the server has no such list.

        Raises:
            JudgeSetupError: nobody answers at the address, or the key is refused.
        """
        try:
            answer = await self._connections.get(
                f"{self._address}/models", silence_s=_WITHIN_S
            )
            listed = answer.decoded().get("data")
        except JudgeTransportError as error:
            if error.reason in {Reason.CONNECTION, Reason.TIMEOUT, Reason.AUTH}:
                remedy = (
                    f": {key_remedy(self._config)}"
                    if error.reason is Reason.AUTH
                    else ""
                )
                what = (
                    f"no model is served at {self._address!r}: {error.detail}{remedy}"
                )
                raise JudgeSetupError(what) from None
            return ()
        return tuple(_entries(listed))

    async def prompt_tokens(
        self, question: str, *, arguments: Mapping[str, object] | None = None
    ) -> int | None:
        """Return how many tokens a question is with its template; None where nobody says.

        vLLM counts; it takes a request, so ask only where it matters.

        Args:
            question: the one message.
            arguments: `chat_template_kwargs`.
        """
        return _whole((await self._tokenized(question, arguments)).get("count"))

    async def prompt(
        self, question: str, *, arguments: Mapping[str, object] | None = None
    ) -> str | None:
        """Return a question with its template, as the model reads it; None where nobody says.

        Args:
            question: the one message.
            arguments: `chat_template_kwargs`.
        """
        ids = _token_ids((await self._tokenized(question, arguments)).get("tokens"))
        if not ids:
            return None
        return _text(
            (await self._posted(self._beside("detokenize"), {"tokens": ids})).get(
                "prompt"
            )
        )

    async def vanishing(self, marks: Sequence[str]) -> tuple[str, ...]:
        """Return those of some marks that a model writes as a token that its text does not show.

        Asked of vLLM: it writes each mark that is one token once. Nothing where nobody says.
        """
        body = {
            "prompt": "\n".join(marks),
            "add_special_tokens": False,
            "return_token_strs": True,
        }
        found = await self._posted(self._beside("tokenize"), body)
        ids = _token_ids(found.get("tokens"))
        pieces = dict(
            zip(map(_text, chat.listing(found.get("token_strs"))), ids, strict=False)
        )
        written = [mark for mark in marks if mark in pieces]
        return tuple(
            [mark for mark in written if await self._vanishes(mark, pieces[mark])]
        )

    async def _vanishes(self, mark: str, token_id: int) -> bool:
        body = {
            "prompt": mark,
            "allowed_token_ids": [token_id],
            "max_tokens": 1,
            "temperature": 0,
        }
        url = f"{self._address}/completions"
        choices = (await self._posted(url, body, within_s=_SCORED_WITHIN_S)).get(
            "choices"
        )
        written = [chat.mapping(one).get("text") for one in chat.listing(choices)]
        return written == [""]

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
        """Return how likely the model finds a text; None where the server does not say.

        vLLM does, by its `prompt_logprobs`. The model is given the text as it is, in no template.
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
        """Return the answer; nothing where there is none."""
        content = json.dumps({"model": self._name, **body}).encode()
        try:
            return (
                await self._connections.post(url, content, silence_s=within_s)
            ).decoded()
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
    """Read the first choice: a list of one mapping for each token, from its id to its figures."""
    try:
        listed = cast("Any", choices)[0]["prompt_logprobs"]
        tokens = [next(iter(token.items())) for token in listed[1:]]
        ids = tuple(int(token_id) for token_id, _ in tokens)
        logprobs = tuple(float(figures["logprob"]) for _, figures in tokens)
    except (AttributeError, IndexError, KeyError, StopIteration, TypeError, ValueError):
        return None
    return (
        ScoredText(ids, logprobs) if ids and all(map(math.isfinite, logprobs)) else None
    )


def _token_ids(listed: object) -> list[int]:
    return [one for value in chat.listing(listed) if (one := _whole(value)) is not None]


def _whole(value: object) -> int | None:
    # An answer that is read strictly has floats only.
    if isinstance(value, float) and value.is_integer() and value >= 0:
        return int(value)
    return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
