"""Why a model stopped, as servers say it, and what its answer is then."""

from __future__ import annotations

from rubric_core import Answerer, Reason, Usage
from rubric_judge.chat import ChatReply, Finish
from rubric_judge.failures import transport_error

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
