"""The model that a fake endpoint serves to whoever asks without a schema: a word is a token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast
from zlib import crc32

from rubric_judge.testing.calls import FakeCall

_TEMPLATE_TOKENS = 2
"""What the chat template of this model adds to a question."""


class PlainText(NamedTuple):
    """An answer in plain text, as far as the request let it come."""

    text: str
    is_cut: bool
    tokens: int


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What it answers, and what `/v1/models` says of it."""

    answer: Callable[[FakeCall], str] | str = "An answer of five words."
    """Keeps to a request's `max_tokens` and `stop`."""

    name: str = "fake"
    root: str = "fake"
    """Folder or name of the weights, as vLLM reports it."""

    positions: int | None = None
    """Longest prompt and answer together; a request for more is refused, as vLLM does."""

    owner: str = "vllm"

    weights: str | None = None
    """Any word for its weights: with another one it finds texts differently likely. Left out, it
    says nothing of texts."""

    noise: float = 0.0
    """Added to every log-probability, as other hardware might."""

    def models(self) -> dict[str, object]:
        """The body of `/v1/models`."""
        entry: dict[str, object] = {
            "id": self.name,
            "object": "model",
            "created": 1_700_000_000,
            "owned_by": self.owner,
            "root": self.root,
            "parent": None,
        }
        if self.positions is not None:
            entry["max_model_len"] = self.positions
        return {"object": "list", "data": [entry]}

    def count(self, body: Mapping[str, object]) -> dict[str, object]:
        """The body of `/tokenize`."""
        return {"count": self.prompt_tokens(body), "max_model_len": self.positions}

    def scored(self, body: Mapping[str, object]) -> dict[str, object] | None:
        """The body of `/v1/completions` with `prompt_logprobs`; None where it says nothing."""
        if self.weights is None or "prompt_logprobs" not in body:
            return None
        words = str(body["prompt"]).split()
        tokens: list[object] = [None]  # as vLLM: nothing comes before the first
        for word in words[1:]:
            likely = crc32(f"{self.weights} {word}".encode()) / 2**32
            tokens.append({str(crc32(word.encode())): {"logprob": self.noise - 10 * likely}})
        choice = {"index": 0, "text": "", "finish_reason": "length", "prompt_logprobs": tokens}
        return {"object": "text_completion", "choices": [choice]}

    def prompt_tokens(self, body: Mapping[str, object]) -> int:
        """Return how many tokens a request's messages are."""
        messages = cast("list[dict[str, str]]", body["messages"])
        return _TEMPLATE_TOKENS + sum(len(message["content"].split()) for message in messages)

    def fits(self, body: Mapping[str, object]) -> bool:
        """Whether the prompt and the tokens asked for have a position each."""
        wanted = self.prompt_tokens(body) + max(cast("int", body.get("max_tokens") or 1), 1)
        return self.positions is None or wanted <= self.positions

    def plain(self, call: FakeCall) -> PlainText:
        """Answer a request."""
        text = self.answer if isinstance(self.answer, str) else self.answer(call)
        stop = cast("list[str] | str", call.body.get("stop") or [])
        for one in [stop] if isinstance(stop, str) else stop:
            text = text.partition(one)[0]
        words = text.split(" ")
        most = cast("int | None", call.body.get("max_tokens"))
        if most is None or len(words) <= most:
            return PlainText(text, is_cut=False, tokens=len(words))
        return PlainText(" ".join(words[:most]), is_cut=True, tokens=most)
