"""The tokens of each turn in a conversation that a chat template writes."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from rubric_core.data.end_tokens import end_tokens
from rubric_core.errors import SchemaError

NOT_WRITTEN = -1
"""The turn of tokens that the policy did not write."""


class TurnTokens(NamedTuple):
    """The tokens of a conversation, and the turn of the policy that each is of."""

    token_ids: list[int]
    """Shape [T]."""
    turn_T: list[int]
    """Shape [T]: 1 for tokens of the first turn and so on, −1 for those of no turn."""

    @property
    def mask_T(self) -> list[int]:
        """Shape [T]: 1 for tokens that the policy writes, as loss masks have it."""
        return [int(turn != NOT_WRITTEN) for turn in self.turn_T]


def turn_tokens(
    tokenizer: Any,
    messages: Sequence[Mapping[str, object]],
    *,
    prompt: int = 0,
    tools: Sequence[object] | None = None,
    ends: Sequence[str] = (),
    **arguments: object,
) -> TurnTokens:
    """Return the tokens of a conversation with the turns that they are of.

    A turn begins behind the generation prompt of the messages before it and ends with its end
    token: calls of tools are part of it, results of tools and the template's own text are not.

    Args:
        tokenizer: a fast tokenizer of transformers, with a chat template.
        messages: as the template takes them.
        prompt: how many of the first were given: assistants' messages among them are no turns.
        tools: the tools that the template describes.
        ends: texts that end a turn beside the tokenizer's own, such as a token after calls.
        arguments: further arguments of the template.

    Raises:
        SchemaError: the template writes a turn otherwise once other messages follow, so that the
            conversation does not hold what the policy wrote; most drop the thoughts of turns
            before the last question.
        Exception: any error that the template raises, a program that came with the model.
    """

    def render(count: int, *, generation: bool = False) -> str:
        text = tokenizer.apply_chat_template(
            list(messages[:count]),
            tools=tools,
            add_generation_prompt=generation,
            tokenize=False,
            **arguments,
        )
        return cast("str", text)

    whole = render(len(messages))
    closings = (*ends, *_end_texts(tokenizer))
    spans: list[tuple[int, int]] = []
    for place, message in enumerate(messages):
        if place < prompt or message.get("role") != "assistant":
            continue
        before = render(place, generation=True)
        end = _end_in(whole, render(place + 1), closings)
        if end is None or not whole.startswith(before) or end < len(before):
            raise SchemaError(
                f"messages.{place} is turn {len(spans) + 1}, and the chat template writes it "
                "otherwise in the whole conversation: use the tokens that were sampled, or a "
                "template that keeps what stands before (most drop thoughts)",
                field=f"messages.{place}",
            )
        spans.append((len(before), end))
    encoded = tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
    turn_T = [_turn_at(begin, spans) for begin, _ in encoded["offset_mapping"]]
    return TurnTokens(list(encoded["input_ids"]), turn_T)


def _turn_at(begin: int, spans: Sequence[tuple[int, int]]) -> int:
    """Return the turn in whose span a token begins."""
    for number, (start, end) in enumerate(spans, start=1):
        if start <= begin < end:
            return number
    return NOT_WRITTEN


def _end_in(whole: str, written: str, closings: Sequence[str]) -> int | None:
    """Return where a turn ends in a conversation: behind its end token, or else its last text.

    Args:
        whole: the conversation.
        written: the conversation as far as the turn; a template may close it in another way.
        closings: the texts of end tokens.

    Returns:
        None where the conversation does not begin as it was written.
    """
    text = written.rstrip()
    closing = next(filter(text.endswith, closings), "")
    if not closing:
        return len(written) if whole.startswith(written) else None
    inner = text.removesuffix(closing)
    if inner.rstrip().endswith(tuple(closings)):
        return _end_in(whole, inner, closings)  # a conversation's end behind the turn's
    if whole.startswith(text):
        return len(text)
    if not whole.startswith(inner):
        return None
    rest = whole[len(inner) :]
    return len(inner) + len(next(filter(rest.startswith, closings), ""))


def _end_texts(tokenizer: Any) -> list[str]:
    ids = end_tokens(tokenizer).ids
    return [cast("str", tokenizer.convert_ids_to_tokens(token)) for token in ids]
