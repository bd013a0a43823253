"""Responses of a policy and their answers; neither torch nor transformers is loaded."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from rubric_core import Answer, Thought, Thoughts, answer_of_tokens
from rubric_core.schema.answer import Decode


class Completion(NamedTuple):
    """All that a policy wrote after a prompt."""

    text: str
    """Without special tokens, but for those that may be the marks of a thought."""
    answer: Answer
    """The part that is judged."""


def completion_of(
    token_ids: Sequence[int],
    decode: Decode,
    *,
    ends: Collection[int],
    thoughts: Thoughts,
    opened: bool,
) -> Completion:
    """Turn the tokens of a response into text, and tell the answer in it from the thought.

    Args:
        token_ids: all that the policy wrote.
        decode: the tokenizer.
        ends: tokens that end a response, none of which is text.
        thoughts: how thoughts are told from answers.
        opened: whether the prompt opened a thought.
    """
    answer = answer_of_tokens(token_ids, decode, thoughts, opened=opened)
    answer = answer._replace(text=answer.text.strip())
    if answer.thought is Thought.NONE:
        return Completion(answer.text, answer)
    has_end = bool(token_ids) and token_ids[-1] in ends
    own = token_ids[:-1] if has_end else token_ids
    return Completion(decode(own, skip_special=False).strip(), answer)
