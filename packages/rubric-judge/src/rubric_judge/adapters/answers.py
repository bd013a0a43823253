"""The answer of a completion that a stack hands over as tokens, by `rubric_core.answer_of_tokens`.

Texts and messages: `rubric_core.traces.messages`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from rubric_core import Answer, Thoughts, answer_of_tokens
from rubric_core.schema.answer import Decode
from rubric_core.traces.messages import readable


def answer_behind(
    token_ids: Sequence[int], tokenizer: Any, thoughts: Thoughts, *, opened: bool
) -> Answer:
    """Return the answer of a completion given as tokens.

    Args:
        token_ids: all tokens that the policy wrote.
        tokenizer: one of transformers, or one that decodes as it does.
        thoughts: way to tell thoughts from answers.
        opened: whether the prompt opened a thought.
    """
    decode = partial(_decoded, tokenizer)
    answer = answer_of_tokens(
        list(token_ids), cast("Decode", decode), thoughts, opened=opened
    )
    return answer._replace(text=readable(answer.text))


def decoded(token_ids: Sequence[int], tokenizer: Any) -> str:
    """Return tokens as most stacks show them: without the special ones."""
    return _decoded(tokenizer, token_ids, skip_special=True)


def _decoded(tokenizer: Any, token_ids: Sequence[int], /, *, skip_special: bool) -> str:
    return tokenizer.decode(list(token_ids), skip_special_tokens=skip_special)
