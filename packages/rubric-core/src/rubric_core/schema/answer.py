"""The answer of a completion: the text after the mark that closes its last thought.

A reasoning model writes a thought before its answer. Only the answer is judged, shown, compared and
measured; a thought that does not end is no answer. Every adapter, backend and evaluation uses this
module for the split.

Source: docs/answer.md.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from typing import Annotated, Literal, NamedTuple, Protocol

from pydantic import Field, StringConstraints

from rubric_core.schema.sealed import Sealed

_Tag = Annotated[str, StringConstraints(strict=True, min_length=1)]


class Thought(StrEnum):
    """Whether a completion holds a thought beside its answer."""

    NONE = "none"
    """No thought: the whole completion is the answer."""

    CLOSED = "closed"
    """A thought that ends: the text after it is the answer."""

    UNCLOSED = "unclosed"
    """A thought that does not end: there is no answer, and the completion counts as cut."""


class Unanswered(StrEnum):
    """Reasons why there is nothing to judge. The completion earns 0, and no judge is asked."""

    EMPTY = "empty_answer"
    """The answer is empty or white space alone."""

    UNCLOSED_THOUGHT = "unclosed_thought"
    """The thought does not end."""


class ThoughtTags(Sealed):
    """The marks around the thoughts of a family of models.

    A mark within an inline code span, between backticks of one line, is a mention of it.
    """

    open: _Tag
    """The mark that begins a thought."""

    close: _Tag
    """The mark that ends a thought."""

    opened: bool = False
    """Whether the prompt ends with `open`, so that each completion begins in a thought."""

    counts: Literal["anywhere", "first", "pair", "glued"] = Field(
        default="anywhere", repr=False
    )
    """Where the marks count. "anywhere": a close alone ends a thought, for a chat template may have
    opened it. "first": only where the completion begins with `open`, as the words are also ones
    that an answer may hold. "pair": as "first", and a thought without its close does not count.
    "glued": as "pair", but where a capital letter follows `open` directly, as in no word, it is a
    thought.
    """


_GRANITE_LEADS = ("Here is", "Here's")

KNOWN_TAGS = (
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
    *(  # Granite 3.2, with the short forms that it also writes
        ThoughtTags(
            open=f"{thought_lead} my thought process:",
            close=f"{response_lead} my response:",
            counts="pair",
        )
        for thought_lead in _GRANITE_LEADS
        for response_lead in _GRANITE_LEADS
    ),
    # Formats that training recipes teach to policies
    ThoughtTags(open="<thinking>", close="</thinking>", counts="first"),
    ThoughtTags(open="<thought>", close="</thought>", counts="first"),
    ThoughtTags(open="<reasoning>", close="</reasoning>", counts="first"),
)
"""The families that are recognised without a setting."""

Thoughts = Literal["cut", "opened", "kept"] | ThoughtTags
"""How a policy's thoughts are separated from its answers.

"cut", the default: by `KNOWN_TAGS`. "opened": the same, and every completion begins in a thought,
as the chat template opens it in the prompt. "kept": the whole completion is judged. Or the tags of
a family that `KNOWN_TAGS` does not hold.
"""


class Answer(NamedTuple):
    """The answer of a completion."""

    text: str
    """The text to judge; empty for a thought that does not end."""

    thought: Thought = Thought.NONE
    """Whether a thought stood before the text."""

    close: str = ""
    """The closing mark in front of the text; empty without one."""

    @property
    def unanswered(self) -> Unanswered | None:
        """Why there is nothing to judge; None where there is an answer."""
        return unanswered(self.text, self.thought)


def unanswered(text: str, thought: Thought) -> Unanswered | None:
    """Return why an answer's text is nothing to judge, or None."""
    if text and not text.isspace():
        return None
    if thought is Thought.UNCLOSED:
        return Unanswered.UNCLOSED_THOUGHT
    return Unanswered.EMPTY


def answer_of(
    completion: str, thoughts: Thoughts = "cut", *, opened: bool = False
) -> Answer:
    """Return the answer of a completion.

    Args:
        completion: all that the policy wrote after its prompt, marks included.
        thoughts: how thoughts are separated from answers.
        opened: whether the prompt opened a thought: see `opens_thought`.

    Returns:
        The text after the last close, without white space around it; without a thought the
        completion as it is; and an empty text for a thought that does not end.
    """
    start, close = _answer_start(completion, thoughts, opened=opened)
    if start is None:
        return Answer("", Thought.UNCLOSED, close)
    if not close:
        return Answer(completion)
    return Answer(completion[start:].strip(), Thought.CLOSED, close)


class Decode(Protocol):
    """A function that turns tokens into text, as a tokenizer does."""

    def __call__(self, token_ids: Sequence[int], /, *, skip_special: bool) -> str:
        """Return the text of the tokens, without special ones if `skip_special`."""
        ...


def answer_of_tokens(
    token_ids: Sequence[int],
    decode: Decode,
    thoughts: Thoughts = "cut",
    *,
    opened: bool = False,
) -> Answer:
    """Return the answer of a completion that is given as tokens.

    The marks of many models are special tokens, which decoding for display drops: the cut is made
    before that.

    Args:
        token_ids: all that the policy wrote after its prompt.
        decode: the tokenizer.
        thoughts: as for `answer_of`.
        opened: as for `answer_of`.

    Returns:
        As `answer_of`, with special tokens left out of the text.
    """
    whole = decode(token_ids, skip_special=False)
    start, close = _answer_start(whole, thoughts, opened=opened)
    if start is None:
        return Answer("", Thought.UNCLOSED, close)
    if not close:
        return Answer(decode(token_ids, skip_special=True))
    # Search for the fewest tokens that hold the close in front of the answer.
    closes = whole.count(close, 0, start)
    low = 1
    high = len(token_ids)
    while low < high:
        middle = (low + high) // 2
        if decode(token_ids[:middle], skip_special=False).count(close) >= closes:
            high = middle
        else:
            low = middle + 1
    # The last token of the mark may also hold the first letters of the answer.
    first_letters = decode(token_ids[:low], skip_special=False).rpartition(close)[2]
    text = first_letters + decode(token_ids[low:], skip_special=True)
    return Answer(text.strip(), Thought.CLOSED, close)


def opens_thought(prompt: str, thoughts: Thoughts = "cut") -> bool:
    """Return whether a policy's prompt ends with the opening of a thought.

    Args:
        prompt: as the model reads it, with the chat template's marks.
        thoughts: as for `answer_of`.
    """
    return thoughts != "kept" and opened_tags(prompt, thoughts) is not None


def opened_tags(prompt: str, thoughts: Thoughts = "cut") -> ThoughtTags | None:
    """Return the family whose thought a prompt opens at its end, or None."""
    prompt = prompt.rstrip()
    for tags in families(thoughts):
        if prompt.endswith(tags.open):
            return tags
    return None


def closes_thought(prompt: str, thoughts: Thoughts = "cut") -> bool:
    """Return whether a policy's prompt ends with a closed, empty thought.

    Chat templates switch thinking off in this way.

    Args:
        prompt: as the model reads it, with the chat template's marks.
        thoughts: as for `answer_of`.
    """
    prompt = prompt.rstrip()
    for tags in families(thoughts):
        if tags.counts == "anywhere" and prompt.endswith(tags.close):
            return True
    return False


def _answer_start(
    completion: str, thoughts: Thoughts, *, opened: bool
) -> tuple[int | None, str]:
    """Return where the answer begins (None if a thought does not end), and the close before it."""
    if thoughts == "kept":
        return 0, ""
    known = families(thoughts)
    rest = completion
    close = ""
    for tags in known:
        answer = _after_last_close(rest, tags, opened=opened)
        if answer is not None:
            rest = answer
            close = tags.close
    in_thought = _begins_in_thought(thoughts, opened=opened) and not close
    if in_thought or any(_opens(rest, tags) for tags in known):
        return None, close
    return len(completion) - len(rest), close


def unopened(thoughts: Thoughts) -> Thoughts:
    """Return how thoughts are separated in a text that no prompt has begun."""
    if isinstance(thoughts, ThoughtTags):
        return thoughts.model_copy(update={"opened": False})
    if thoughts == "opened":
        return "cut"
    return thoughts


def families(thoughts: Thoughts) -> tuple[ThoughtTags, ...]:
    """Return the families of marks that a setting looks for."""
    if isinstance(thoughts, ThoughtTags):
        return (thoughts,)
    return KNOWN_TAGS


def _begins_in_thought(thoughts: Thoughts, *, opened: bool) -> bool:
    if isinstance(thoughts, ThoughtTags):
        return opened or thoughts.opened
    return opened or thoughts == "opened"


@cache
def _mark_or_code(tag: str) -> re.Pattern[str]:
    # A code span is passed over as a whole. A fence of three backticks is not a code span: a
    # thought may end within a fence, or an answer begin with one, with the mark next to it.
    return re.compile(f"(?<!`)`(?!`)[^`\\n]*(?<!`)`(?!`)|({re.escape(tag)})")


def _ends_of(tag: str, text: str) -> list[int]:
    """Return the end of each occurrence of a mark, mentions in code spans left out."""
    if tag not in text:  # the usual case, and this check is far faster than the search
        return []
    return [match.end() for match in _mark_or_code(tag).finditer(text) if match[1]]


def _after_last_close(text: str, tags: ThoughtTags, *, opened: bool) -> str | None:
    """Return the text after the last close, or None where no thought ends."""
    counts = tags.counts == "anywhere" or opened or text.lstrip().startswith(tags.open)
    if not counts:
        return None
    ends = _ends_of(tags.close, text)
    if not ends:
        return None
    return text[ends[-1] :]


def _opens(text: str, tags: ThoughtTags) -> bool:
    """Return whether a text opens a thought with one family's mark."""
    match tags.counts:
        case "anywhere":
            return bool(_ends_of(tags.open, text))
        case "first":
            return text.lstrip().startswith(tags.open)
        case "pair":
            return False
        case "glued":
            stripped = text.lstrip()
            next_letter = stripped[len(tags.open) :][:1]
            return stripped.startswith(tags.open) and next_letter.isupper()
