"""The chat completion that a fake endpoint sends: valid, wrong in one way, or plain text."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast
from zlib import crc32

from rubric_judge.models.chat import SCHEMA_FOLLOWS
from rubric_judge.testing.calls import FakeCall
from rubric_judge.testing.faults import Fault, HostileText

_GIANT_CHARS = 2_000_000
_HOLE = "@hostile@"
HARMLESS = frozenset({None, Fault.GIANT, Fault.SLOW_DRIP})
"""Faults with which an answer still awards something, where it is read patiently."""


def weights_asked_for(request: Mapping[str, object]) -> dict[str, float]:
    """Read criterion ids and weights from the JSON schema of a request.

    Args:
        request: the body of a chat-completion call with `response_format`.

    Returns:
        Weights by criterion id; empty if the request has no such schema.
    """
    asked = _asked_for(request, "Scores").items()
    return {name: bounds["maximum"] for name, bounds in asked if "maximum" in bounds}


def responses_asked_for(request: Mapping[str, object]) -> tuple[str, ...]:
    """Read from the same schema what the responses of a group are called; nothing for one."""
    return tuple(_asked_for(request, "GroupScores"))


def _asked_for(request: Mapping[str, object], model: str) -> Mapping[str, Any]:
    schema: Any = _schema(request)
    for key in ("$defs", model, "properties"):
        schema = schema.get(key) or {}
    return schema


def _schema(request: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the schema of the reply: of the request's own field, or of its system message."""
    asked: Any = request
    for key in ("response_format", "json_schema", "schema"):
        asked = asked.get(key) or {}
    messages = cast("list[dict[str, str]]", request.get("messages") or [])
    if asked or not messages or SCHEMA_FOLLOWS not in messages[0]["content"]:
        return cast("Mapping[str, Any]", asked)
    return json.loads(messages[0]["content"].rpartition("\n")[2])


def tokens_asked_for(request: Mapping[str, object]) -> int | None:
    """Return the longest answer that a request asks for, by either name; None for any."""
    return cast(
        "int | None", request.get("max_completion_tokens", request.get("max_tokens"))
    )


def reply_text(
    scores: Mapping[str, float], weights: Mapping[str, float], fault: Fault | None
) -> str:
    """Write a judge's reply.

    Args:
        scores: what is awarded.
        weights: what could be awarded.
        fault: None for a valid reply. One of a score or an id leaves a reply without scores as it
            is: that to the question with which a command sees whether anybody answers.

    Returns:
        The text of the message.
    """
    if fault in _OF_SCORES and not scores:
        fault = None
    reply: dict[str, object] = {"ready": True}
    if weights:
        reply = {
            "reasoning": "Each criterion was compared with the passage.",
            "scores": dict(scores),
            "total": sum(scores.values()),
            "max_total": sum(weights.values()),
        }
        _spoil(reply, weights, fault)
    text = json.dumps(reply)
    return _IN_TEXT.get(fault, str)(text)


def group_reply_text(
    scores: Mapping[str, Mapping[str, float]],
    weights: Mapping[str, float],
    fault: Fault | None,
) -> str:
    """Write a listwise judge's reply; a fault of a score or an id is one of the first response.

    Args:
        scores: what is awarded, by response and criterion.
        weights: what could be awarded.
        fault: None for a valid reply; one of totals, which there are none of, leaves it as it is.
    """
    of_first: dict[str, Any] = {
        "reasoning": "Each response was compared with the others.",
        "scores": dict(next(iter(scores.values()))),
        "total": 0.0,
        "max_total": 0.0,
    }
    _spoil(of_first, weights, fault)
    by_response = {**scores, next(iter(scores)): of_first["scores"]}
    text = json.dumps({"reasoning": of_first["reasoning"], "scores": by_response})
    return _IN_TEXT.get(fault, str)(text)


def plain_text(answer: str, fault: Fault | None) -> str:
    """Write an answer to a request without a schema; faults of a reply's scores leave it alone."""
    if fault is Fault.GIANT:
        return "x" * _GIANT_CHARS
    return (
        _IN_TEXT[fault](answer) if fault in {Fault.EMPTY, Fault.TRUNCATED} else answer
    )


def hostile_text(reply: str, hostile: HostileText) -> str:
    """Put a hostile text where it belongs.

    Args:
        reply: a valid reply, as `reply_text` writes it.
        hostile: what to send, and where.

    Returns:
        The text of the message; for the place `body`, the body.
    """
    if hostile.place in {"reply", "body"}:
        text = hostile.text.replace("@reply@", reply).replace("@fields@", reply[1:])
        return text.replace("@quoted@", json.dumps(reply))
    fields = cast("dict[str, Any]", json.loads(reply))
    if "scores" not in fields:  # no judge's, but an answer to the check
        return reply
    first = next(iter(fields["scores"]), "")
    if hostile.place == "score":
        fields["scores"] = {first: _HOLE, **dict(list(fields["scores"].items())[1:])}
    else:
        fields["total"] = _HOLE
    escaped = "".join(f"\\u{ord(character):04x}" for character in first)
    text = hostile.text.replace("@id@", escaped)
    return json.dumps(fields).replace(f'"{_HOLE}"', text, 1)


HALF = 0.5
_OTHER_MASS = 0.02
"""Probability of tokens that are no verdict, and of those that are not listed, each."""


def verdict_logprobs(share: float) -> dict[str, object]:
    """Write the log-probabilities of a reply's first token, as OpenAI's form has them.

    Args:
        share: P(yes | yes or no), in [0, 1], shared out among three spellings of each.

    Returns:
        The `logprobs` of a choice: seven tokens, whose probabilities add up to 0.98.
    """
    verdicts = 1 - 2 * _OTHER_MASS
    listed = {"The": _OTHER_MASS}
    for spellings, part in (
        (("Yes", " yes", "YES"), share),
        (("No", " no", "NO"), 1 - share),
    ):
        for spelling, of_part in zip(spellings, (0.8, 0.15, 0.05), strict=True):
            listed[spelling] = verdicts * part * of_part
    entries = [
        {
            "token": token,
            "logprob": math.log(mass) if mass > 0 else -9999.0,
            "bytes": list(token.encode()),
        }
        for token, mass in sorted(listed.items(), key=lambda pair: -pair[1])
    ]
    return {"content": [{**entries[0], "top_logprobs": entries}]}


def encoded(payload: object) -> bytes:
    """Write a body; bytes that are no UTF-8, held as `surrogateescape` does, are sent as bytes."""
    try:
        return json.dumps(payload, ensure_ascii=False).encode(errors="surrogateescape")
    except UnicodeEncodeError:  # another lone surrogate: only an escape can spell it
        return json.dumps(payload).encode()


_FINISH: dict[Fault | None, str] = {
    Fault.CONTENT_FILTER: "content_filter",
    Fault.TRUNCATED: "length",
}


def completion(
    text: str,
    call: FakeCall,
    fault: Fault | None,
    *,
    prompt_tokens: int,
    written_tokens: int,
) -> dict[str, object]:
    """Wrap a reply as an OpenAI chat completion.

    Args:
        text: the message.
        call: its number makes the id, and its model is echoed.
        fault: sets `refusal` and `finish_reason` where it says so.
        prompt_tokens: usage to report.
        written_tokens: as well.

    Returns:
        The response body.
    """
    message: dict[str, object] = {"role": "assistant", "content": text}
    if fault is Fault.TRUNCATED:
        written_tokens = tokens_asked_for(call.body) or written_tokens
    if fault is Fault.REFUSAL:
        message |= {"content": None, "refusal": "I can't help with that."}
    finish_reason = _FINISH.get(fault, "stop")
    return {
        "id": f"chatcmpl-{call.number}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": str(call.body.get("model")),
        "choices": [{"index": 0, "finish_reason": finish_reason, "message": message}],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": written_tokens,
            "total_tokens": prompt_tokens + written_tokens,
            "prompt_tokens_details": {"cached_tokens": prompt_tokens // 2},
        },
    }


_WRONG_SCORE: dict[Fault | None, Callable[[float], object]] = {
    Fault.NAN: lambda _: math.nan,
    Fault.INFINITE: lambda _: math.inf,
    Fault.STRING_SCORE: str,
    Fault.NEGATIVE_SCORE: lambda _: -0.01,
    Fault.EXCESSIVE_SCORE: lambda weight: weight + 0.01,
    Fault.HUGE_SCORE: lambda _: 1e308,
}
"""Functions from a weight to the wrong score that replaces the first score."""
_OF_SCORES = {Fault.MISSING_ID, Fault.RENAMED_ID, Fault.DUPLICATE_ID, *_WRONG_SCORE}


def _spoil(
    reply: dict[str, Any], weights: Mapping[str, float], fault: Fault | None
) -> None:
    scores: dict[str, object] = reply["scores"]
    first = next(iter(scores), "")
    last = next(reversed(scores), "")
    match fault:
        case Fault.MISSING_ID:
            del scores[last]
        case Fault.EXTRA_ID:
            scores["unasked"] = 0.0
        case Fault.RENAMED_ID:
            scores[f"{last} (renamed)"] = scores.pop(last)
        case Fault.WRONG_TOTAL:
            reply["total"] += 0.1
        case Fault.WRONG_MAX_TOTAL:
            reply["max_total"] += 1
        case Fault.GIANT:
            reply["reasoning"] = "x" * _GIANT_CHARS
        case _ if fault in _WRONG_SCORE:
            scores[first] = _WRONG_SCORE[fault](weights.get(first, 0.0))
        case _:
            pass


def _repeat_first_score(text: str) -> str:
    before, opening, scores = text.partition('"scores": {')
    return f"{before}{opening}{scores.partition(':')[0]}: 0.0, {scores}"


_IN_TEXT: dict[Fault | None, Callable[[str], str]] = {
    Fault.DUPLICATE_ID: _repeat_first_score,
    Fault.INFINITE: lambda text: text.replace("Infinity", "1e999"),
    Fault.FENCED: lambda text: f"```json\n{text}\n```",
    Fault.PROSE: lambda _: "This response deserves full marks on every criterion.",
    Fault.EMPTY: lambda _: "",
    Fault.TRUNCATED: lambda text: text[: len(text) // 2],
}


_TEMPLATE_TOKENS = 2
"""Tokens that this model's chat template adds to a question."""


class PlainText(NamedTuple):
    """An answer in plain text, as far as the request let it come."""

    text: str
    is_cut: bool
    tokens: int


@dataclass(frozen=True)
class ServedModel:
    """A fake model: its answers, and its entry in `/v1/models`."""

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
        """The body of `/tokenize`, of messages alone."""
        if "messages" not in body:
            return {}
        return {"count": self.prompt_tokens(body), "max_model_len": self.positions}

    def scored(self, body: Mapping[str, object]) -> dict[str, object] | None:
        """The body of `/v1/completions` with `prompt_logprobs`; None where it says nothing."""
        if self.weights is None or "prompt_logprobs" not in body:
            return None
        words = str(body["prompt"]).split()
        tokens: list[object] = [None]  # as vLLM: nothing comes before the first
        for word in words[1:]:
            likely = crc32(f"{self.weights} {word}".encode()) / 2**32
            tokens.append(
                {str(crc32(word.encode())): {"logprob": self.noise - 10 * likely}}
            )
        choice = {
            "index": 0,
            "text": "",
            "finish_reason": "length",
            "prompt_logprobs": tokens,
        }
        return {"object": "text_completion", "choices": [choice]}

    def prompt_tokens(self, body: Mapping[str, object]) -> int:
        """Return how many tokens a request's messages are."""
        messages = cast("list[dict[str, str]]", body["messages"])
        return _TEMPLATE_TOKENS + sum(
            len(message["content"].split()) for message in messages
        )

    def fits(self, body: Mapping[str, object]) -> bool:
        """Whether the prompt and the tokens asked for have a position each."""
        wanted = self.prompt_tokens(body) + max(tokens_asked_for(body) or 1, 1)
        return self.positions is None or wanted <= self.positions

    def plain(self, call: FakeCall) -> PlainText:
        """Answer a request."""
        text = self.answer if isinstance(self.answer, str) else self.answer(call)
        stop = cast("list[str] | str", call.body.get("stop") or [])
        for stop_text in [stop] if isinstance(stop, str) else stop:
            text = text.partition(stop_text)[0]
        words = text.split(" ")
        most = tokens_asked_for(call.body)
        if most is None or len(words) <= most:
            return PlainText(text, is_cut=False, tokens=len(words))
        return PlainText(
            " ".join(words[:most]),
            is_cut=True,
            tokens=most,
        )
