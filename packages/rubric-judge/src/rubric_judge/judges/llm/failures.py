"""Replies that cannot be read: why, and what to do about the server."""

from rubric_core import KNOWN_TAGS, JudgeResult, Reason
from rubric_judge.models.chat import ChatReply

# A valid reply has a few thousand characters; one like this would only fill memory and files.
_LONGEST_REPLY_CHARS = 1_000_000
SEPARATED_THOUGHT = (
    "the server says that the reply begins with a thought (reasoning_content): switch thinking "
    "off, or, where it is off, start the server without a reasoning parser"
)
"""Detail of a verdict by probability whose first token is none of the answer."""
_EMPTY_REPLY_HINTS = {
    "reasoning": (
        "the reply is empty, its text stands in reasoning_content; start the server without a "
        "reasoning parser (vLLM: no --reasoning-parser), or let the model think (enable_thinking: "
        "true)"
    ),
    "tools": "the reply is empty: the model called a tool, and none was offered",
}
"""Explanations of an empty reply, by what stands in its place; at most 200 characters each."""
_THOUGHT_ENDS = tuple(tags.close for tags in KNOWN_TAGS if tags.counts != "pair")


def unreadable_failure(answer: ChatReply) -> JudgeResult | None:
    """Return the judgement for a reply that cannot be read; None for one to be read.

    Args:
        answer: what the server answered.

    Returns:
        An invalid result with the reason, and with what the server can be started with.
    """
    if answer.finish == "refused":
        return JudgeResult.invalid(Reason.REFUSED)
    if answer.finish == "truncated":
        detail = f"the reply was cut off at {len(answer.text)} characters; raise `max_tokens`"
        if answer.beside == "reasoning":
            detail = (
                "the reply was cut off while the model was still thinking; raise `max_tokens`, or "
                "let it think less"
            )
        return JudgeResult.invalid(Reason.TRUNCATED, detail=detail)
    if not answer.text and answer.beside:
        return JudgeResult.invalid(
            Reason.EMPTY, detail=_EMPTY_REPLY_HINTS[answer.beside]
        )
    detail = _parse_obstacle(answer)
    return JudgeResult.invalid(Reason.NOT_JSON, detail=detail) if detail else None


def unspoken_failure(answer: ChatReply) -> JudgeResult | None:
    """Return the judgement for a reply whose first token says nothing; None for one that is read.

    A reply of one token is cut off as a rule, and its text does not matter. Of a thought that the
    server keeps apart from the text, the log-probabilities are those of the thought.

    Args:
        answer: what the server answered.
    """
    if answer.finish == "refused":
        return JudgeResult.invalid(Reason.REFUSED)
    if answer.beside == "reasoning":
        return JudgeResult.invalid(Reason.NO_VERDICT, detail=SEPARATED_THOUGHT)
    if answer.finish == "oversized":
        return JudgeResult.unavailable(
            Reason.SERVER_ERROR,
            detail="the answer exceeds the size limit, where one word was asked for",
        )
    return None


def _parse_obstacle(answer: ChatReply) -> str:
    """Return why a text is not parsed; "" for one that is."""
    text = answer.text
    size = len(answer.text)
    if answer.finish == "oversized":
        return "the answer exceeds the size limit"
    if size > _LONGEST_REPLY_CHARS:
        return f"the reply has {size} characters, more than {_LONGEST_REPLY_CHARS}"
    if text.lstrip().startswith("<think>"):
        return (
            "the reply begins with <think>; start the server with a reasoning parser (vLLM: "
            "--reasoning-parser)"
        )
    # Within JSON, the tags may stand in a string.
    if not text.lstrip().startswith("{") and any(end in text for end in _THOUGHT_ENDS):
        return (
            "the end of a thought (</think>) stands before the JSON; start the server with a "
            "reasoning parser (vLLM: --reasoning-parser deepseek_r1; llama.cpp: --reasoning-format "
            "deepseek)"
        )
    return ""
