"""What counts as the answer of a completion: what stands behind the last close of a thought.

A reasoning model writes a thought before its answer. Only the answer is judged, shown, compared and
measured; a thought that does not end is no answer. Every adapter, backend and evaluation asks here.

Source: docs/answer.md.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from typing import Annotated, Final, Literal, NamedTuple, Protocol, TypeAlias

from pydantic import Field, StringConstraints

from rubric_core.schema.sealed import Sealed

_Tag = Annotated[str, StringConstraints(strict=True, min_length=1)]


class Thought(StrEnum):
    """What a completion holds beside its answer."""

    NONE = "none"
    """No thought: all of it is the answer."""

    CLOSED = "closed"
    """A thought that ends: what stands behind it is the answer."""

    UNCLOSED = "unclosed"
    """A thought that does not end: there is no answer, and the completion counts as cut."""


class Unanswered(StrEnum):
    """Why there is nothing to judge. Such a completion earns 0, and no judge is asked."""

    EMPTY = "empty_answer"
    """The answer has no text but white space."""

    UNCLOSED_THOUGHT = "unclosed_thought"
    """The thought does not end."""


class ThoughtTags(Sealed):
    """The marks around the thoughts of a family of models.

    A mark within an inline code span, between backticks of one line, is a mention of it.
    """

    open: _Tag
    """Begins a thought."""

    close: _Tag
    """Ends it."""

    opened: bool = False
    """Whether the prompt ends with `open`, so that each completion begins in a thought."""

    counts: Literal["anywhere", "first", "pair", "glued"] = Field(
        default="anywhere", repr=False
    )
    """Where the marks count. "anywhere": a close alone ends a thought, for a chat template may have
    opened it. "first": only where the completion begins with `open`, as the words are also ones
    that an answer may hold. "pair": as "first", and a thought without its close is none. "glued":
    as "pair", but where a capital letter follows `open` directly, as in no word, it is a thought.
    """


KNOWN_TAGS: Final = (
    # Qwen 3, DeepSeek R1, GLM, Kimi K2, MiniMax M2, Nemotron, SmolLM3, Olmo 3, ERNIE, Step and more
    ThoughtTags(open="<think>", close="</think>"),
    ThoughtTags(open="<mm:think>", close="</mm:think>"),  # MiniMax M3
    ThoughtTags(open="<seed:think>", close="</seed:think>"),  # Seed OSS
    ThoughtTags(open="[THINK]", close="[/THINK]"),  # Magistral
    ThoughtTags(open="<longcat_think>", close="</longcat_think>"),  # LongCat
    ThoughtTags(
        open="<|START_THINKING|>", close="<|END_THINKING|>"
    ),  # Command A Reasoning
    ThoughtTags(
        open="<|begin_of_thought|>", close="<|end_of_thought|>"
    ),  # Sky-T1, OpenThinker
    ThoughtTags(open="<|inner_prefix|>", close="<|inner_suffix|>"),  # Apertus
    ThoughtTags(open="<|think|>", close="<|begin|>assistant<|content|>"),  # Solar Open
    ThoughtTags(open="◁think▷", close="◁/think▷"),  # Kimi-VL
    ThoughtTags(open="<|channel>thought", close="<channel|>"),  # Gemma 4
    ThoughtTags(  # gpt-oss: all channels before the final one
        open="<|channel|>analysis<|message|>", close="<|channel|>final<|message|>"
    ),
    ThoughtTags(  # gpt-oss, whose final channel says that it holds JSON
        open="<|channel|>analysis<|message|>",
        close="<|channel|>final <|constrain|>json<|message|>",
    ),
    # gpt-oss, decoded without its special tokens
    ThoughtTags(open="analysis", close="assistantfinal json", counts="glued"),
    ThoughtTags(open="analysis", close="assistantfinal", counts="glued"),
    *(  # Granite 3.2, and what it shortens the words to
        ThoughtTags(
            open=f"{one} my thought process:",
            close=f"{two} my response:",
            counts="pair",
        )
        for one in ("Here is", "Here's")
        for two in ("Here is", "Here's")
    ),
    # Formats that policies are trained to by recipes
    ThoughtTags(open="<thinking>", close="</thinking>", counts="first"),
    ThoughtTags(open="<thought>", close="</thought>", counts="first"),
    ThoughtTags(open="<reasoning>", close="</reasoning>", counts="first"),
)
"""The families that are told without a setting."""

Thoughts: TypeAlias = Literal["cut", "opened", "kept"] | ThoughtTags
"""How a policy's thoughts are told from its answers.

"cut", the default: by `KNOWN_TAGS`. "opened": the same, and every completion begins in a thought,
as the chat template opens it in the prompt. "kept": the whole completion is judged. Or the tags of
a family that is not known.
"""


class Answer(NamedTuple):
    """The answer of a completion."""

    text: str
    """What is judged; empty for a thought that does not end."""

    thought: Thought = Thought.NONE
    """What stood before it."""

    close: str = ""
    """The mark that it stands behind; empty without one."""

    @property
    def unanswered(self) -> Unanswered | None:
        """Why there is nothing to judge; None where there is an answer."""
        return unanswered(self.text, self.thought)


def unanswered(text: str, thought: Thought) -> Unanswered | None:
    """Return why an answer's text is nothing to judge, or None."""
    if text and not text.isspace():
        return None
    return (
        Unanswered.UNCLOSED_THOUGHT if thought is Thought.UNCLOSED else Unanswered.EMPTY
    )


def answer_of(
    completion: str, thoughts: Thoughts = "cut", *, opened: bool = False
) -> Answer:
    """Return the answer of a completion.

    Args:
        completion: all that the policy wrote after its prompt, marks included.
        thoughts: how thoughts are told from answers.
        opened: whether the prompt opened a thought: see `opens_thought`.

    Returns:
        The text behind the last close, without white space around it; without a thought the
        completion as it is; and an empty text for a thought that does not end.
    """
    begins, close = _begins(completion, thoughts, opened=opened)
    if begins is None:
        return Answer("", Thought.UNCLOSED, close)
    return (
        Answer(completion[begins:].strip(), Thought.CLOSED, close)
        if close
        else Answer(completion)
    )


class Decode(Protocol):
    """Turns tokens into text, as a tokenizer does."""

    def __call__(self, token_ids: Sequence[int], /, *, skip_special: bool) -> str:
        """Return the text of some tokens, special ones left out where that is asked for."""
        ...


def answer_of_tokens(
    token_ids: Sequence[int],
    decode: Decode,
    thoughts: Thoughts = "cut",
    *,
    opened: bool = False,
) -> Answer:
    """Return the answer of a completion that is there as tokens.

    The marks of many models are special tokens, which vanish where tokens become a text to show:
    the cut is made before they do.

    Args:
        token_ids: all that the policy wrote after its prompt.
        decode: the tokenizer.
        thoughts: as for `answer_of`.
        opened: as for `answer_of`.

    Returns:
        As `answer_of`, with special tokens left out of the text.
    """
    whole = decode(token_ids, skip_special=False)
    begins, close = _begins(whole, thoughts, opened=opened)
    if begins is None:
        return Answer("", Thought.UNCLOSED, close)
    if not close:
        return Answer(decode(token_ids, skip_special=True))
    # The fewest tokens that hold the close that the answer stands behind.
    closes = whole.count(close, 0, begins)
    low = 1
    high = len(token_ids)
    while low < high:
        middle = (low + high) // 2
        if decode(token_ids[:middle], skip_special=False).count(close) >= closes:
            high = middle
        else:
            low = middle + 1
    # The token that ends the mark may go on with the answer's first letters.
    begun = decode(token_ids[:low], skip_special=False).rpartition(close)[2]
    text = begun + decode(token_ids[low:], skip_special=True)
    return Answer(text.strip(), Thought.CLOSED, close)


def opens_thought(prompt: str, thoughts: Thoughts = "cut") -> bool:
    """Return whether what a policy is asked ends with the opening of a thought.

    Args:
        prompt: as the model reads it, with the chat template's marks.
        thoughts: as for `answer_of`.
    """
    return thoughts != "kept" and opened_tags(prompt, thoughts) is not None


def opened_tags(prompt: str, thoughts: Thoughts = "cut") -> ThoughtTags | None:
    """Return the family whose thought a prompt opens at its end, or None."""
    end = prompt.rstrip()
    return next((tags for tags in families(thoughts) if end.endswith(tags.open)), None)


def closes_thought(prompt: str, thoughts: Thoughts = "cut") -> bool:
    """Return whether what a policy is asked ends with a thought that has ended: an empty one.

    So chat templates switch thinking off.

    Args:
        prompt: as the model reads it, with the chat template's marks.
        thoughts: as for `answer_of`.
    """
    end = prompt.rstrip()
    return any(
        end.endswith(tags.close)
        for tags in families(thoughts)
        if tags.counts == "anywhere"
    )


def _begins(
    completion: str, thoughts: Thoughts, *, opened: bool
) -> tuple[int | None, str]:
    """Return where the answer begins, None for a thought that does not end, and its close."""
    if thoughts == "kept":
        return 0, ""
    known = families(thoughts)
    rest = completion
    close = ""
    for tags in known:
        behind = _behind_last_close(rest, tags, opened=opened)
        if behind is not None:
            rest = behind
            close = tags.close
    in_thought = _begins_in_thought(thoughts, opened=opened) and not close
    if in_thought or any(_opens(rest, tags) for tags in known):
        return None, close
    return len(completion) - len(rest), close


def unopened(thoughts: Thoughts) -> Thoughts:
    """Return how thoughts are told in a text that no prompt has begun."""
    if isinstance(thoughts, ThoughtTags):
        return thoughts.model_copy(update={"opened": False})
    return "cut" if thoughts == "opened" else thoughts


def families(thoughts: Thoughts) -> tuple[ThoughtTags, ...]:
    """Return the families of marks that a setting looks for."""
    return (thoughts,) if isinstance(thoughts, ThoughtTags) else KNOWN_TAGS


def _begins_in_thought(thoughts: Thoughts, *, opened: bool) -> bool:
    is_set = (
        thoughts.opened if isinstance(thoughts, ThoughtTags) else thoughts == "opened"
    )
    return opened or is_set


@cache
def _mark_or_code(tag: str) -> re.Pattern[str]:
    # A code span is passed over as a whole. Fences, of three backticks, are none: a thought that
    # ends within one, or an answer that begins with one, has its mark beside them.
    return re.compile(f"(?<!`)`(?!`)[^`\\n]*(?<!`)`(?!`)|({re.escape(tag)})")


def _ends_of(tag: str, text: str) -> list[int]:
    """Return where a mark ends, each time that it is not only mentioned."""
    if tag not in text:  # of nearly all families, and far faster found
        return []
    return [match.end() for match in _mark_or_code(tag).finditer(text) if match[1]]


def _behind_last_close(text: str, tags: ThoughtTags, *, opened: bool) -> str | None:
    """Return what stands behind the last close, or None where no thought ends."""
    counts = tags.counts == "anywhere" or opened or text.lstrip().startswith(tags.open)
    ends = _ends_of(tags.close, text) if counts else []
    return text[ends[-1] :] if ends else None


def _opens(text: str, tags: ThoughtTags) -> bool:
    match tags.counts:
        case "anywhere":
            return bool(_ends_of(tags.open, text))
        case "first":
            return text.lstrip().startswith(tags.open)
        case "pair":
            return False
        case "glued":
            begun = text.lstrip()
            return begun.startswith(tags.open) and begun[len(tags.open) :][:1].isupper()
