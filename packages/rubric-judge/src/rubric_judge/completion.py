"""What a server answered, and the chat completion in it, read as strictly as a judge's reply."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import cast

from rubric_core import Answerer, Reason, SchemaError, Usage
from rubric_core.strict_json import decode
from rubric_judge.answering import answerer
from rubric_judge.chat import ChatReply, Finish
from rubric_judge.errors import JudgeTransportError
from rubric_judge.failures import retry_after_s, status_error, transport_error, usage

_FINISH: dict[str, Finish] = {
    **dict.fromkeys(
        ("stop", "STOP", "COMPLETE", "end_turn", "eos", "eos_token", "stop_sequence"), "complete"
    ),
    **dict.fromkeys(("length", "max_tokens", "model_length", "repetition"), "truncated"),
    **dict.fromkeys(("content_filter", "refusal", "safety"), "refused"),
}
"""What ends an answer on the model's side. Anything else is the server's failure to finish it."""
_CALLS = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "TOO_MANY_TOOL_CALLS",
        "UNEXPECTED_TOOL_CALL",
        "function_call",
        "tool_calls",
    }
)
_FAILED = ("abort", "error")


def ended(
    content: str | None,
    *,
    why: object,
    refusal: object,
    usage: Usage | None,
    answered_by: Answerer | None,
) -> ChatReply:
    """Read the end of an answer.

    Args:
        content: the message's text, if any.
        why: `finish_reason`, as it was sent.
        refusal: the message's words for declining to answer; empty where it does not.
        usage: what the answer took.
        answered_by: who answered.

    Returns:
        The answer, which may be cut off or refused. One that calls a tool has no text: no tool was
        offered.

    Raises:
        JudgeTransportError: the server did not finish the answer, or does not say so.
    """

    def reply(text: str | None, finish: Finish) -> ChatReply:
        return ChatReply(
            text=text or "", finish=finish, usage=usage, attempts=1, answered_by=answered_by
        )

    if refusal:
        return reply(content, "refused")
    why = why if isinstance(why, str) else None
    if why in _CALLS:
        return reply(None, "complete")
    if why not in _FINISH:
        said = why if why in _FAILED else "unknown" if why else "missing"
        what = f"the answer is not finished: its `finish_reason` is {said}"
        raise transport_error(Reason.SERVER_ERROR, what, usage=usage)
    return reply(content, _FINISH[why])


_POLICY_CODES = frozenset({"content_filter", "content_policy_violation"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered, unread."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes | None
    """Decompressed; None if it is longer than what is read of one."""

    @property
    def is_success(self) -> bool:
        """Whether the status says so."""
        return 200 <= self.status < 300  # noqa: PLR2004

    def decoded(self) -> dict[str, object]:
        """Read a success that is a JSON object; every number is a float.

        Raises:
            JudgeTransportError: it is none.
        """
        if not self.is_success:
            raise status_error(self.status)
        return _decoded(self.body or b"")

    def chat_reply(self) -> ChatReply:
        """Read the answer.

        Returns:
            The model's text, or that it refuses to answer the prompt.

        Raises:
            JudgeTransportError: it is no chat completion.
        """
        if not self.is_success:
            return self._refused()
        if self.body is None:
            return ChatReply(text="", finish="oversized", usage=None, attempts=1)
        return _chat_reply(_decoded(self.body))

    def _refused(self) -> ChatReply:
        """Return a refusal to answer the prompt; raise for any other status."""
        try:
            refusal = _decoded(self.body or b"")
        except JudgeTransportError:
            refusal = {}
        used = _usage(refusal)
        if self.status == 400 and _is_content_policy(_mapping(refusal.get("error"))):  # noqa: PLR2004
            return ChatReply(text="", finish="refused", usage=used, attempts=1)
        waits = (value for name, value in self.headers if name.lower() == "retry-after")
        raise status_error(
            self.status,
            about_model=_is_about_model(refusal),
            retry_after=retry_after_s(*waits),
            usage=used,
        )


def _decoded(body: bytes) -> dict[str, object]:
    try:
        # As it is read of a reply; and half a surrogate pair is the text's affair.
        decoded = decode(body.decode(errors="surrogatepass"), finite=True)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        decoded = None
    except SchemaError as error:
        raise transport_error(Reason.SERVER_ERROR, f"a success that is no JSON: {error}") from None
    if not isinstance(decoded, dict):
        raise transport_error(
            Reason.SERVER_ERROR, "a success that is no JSON object; check `api_base`"
        )
    return cast("dict[str, object]", decoded)


def _chat_reply(completion: dict[str, object]) -> ChatReply:
    used = _usage(completion)
    choice = _only(completion.get("choices"), usage=used)
    message = _mapping(choice.get("message"))
    content, refusal = message.get("content"), message.get("refusal")
    of_model = message.get("role", "assistant") == "assistant"
    is_whole = bool(message) and of_model and not completion.get("error")
    if not (is_whole and isinstance(content, str | None) and isinstance(refusal, str | None)):
        what = "a success without a chat completion"
        raise transport_error(Reason.SERVER_ERROR, what, usage=used)
    return ended(
        content,
        why=choice.get("finish_reason"),
        refusal=refusal,
        usage=used,
        answered_by=answerer(completion.get("model")),
    )


def _only(choices: object, *, usage: Usage | None) -> dict[str, object]:
    given = cast("list[object]", choices) if isinstance(choices, list) else []
    if len(given) > 1:
        what = f"{len(given)} choices where one was asked for"
        raise transport_error(Reason.SERVER_ERROR, what, usage=usage)
    return _mapping(given[0]) if given else {}


def _usage(completion: dict[str, object]) -> Usage | None:
    reported = _mapping(completion.get("usage"))
    if not reported:
        return None
    cached_tokens = _mapping(reported.get("prompt_tokens_details")).get("cached_tokens")
    return usage(reported.get, cached_tokens=cached_tokens)


def _is_content_policy(error: dict[str, object]) -> bool:
    message = error.get("message")
    # Some providers say it in words only.
    worded = isinstance(message, str) and "rejected as a result of" in message
    return worded or not _POLICY_CODES.isdisjoint(
        code for code in (error.get("code"), error.get("type")) if isinstance(code, str)
    )


def _is_about_model(refusal: dict[str, object]) -> bool:
    error = _mapping(refusal.get("error")) or refusal
    return any("model" in str(error.get(name)).lower() for name in ("message", "code", "param"))


def _mapping(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
