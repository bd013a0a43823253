"""Turning facts into readable sentences: verbs, lists and a stable choice between phrasings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rubric_synth.extractive.cues import VERBS
from rubric_synth.language import lower_first

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet


def base_form(word: str, verbs: AbstractSet[str]) -> str:
    """Return the base form of a verb in the first or third person, or "" for any other word."""
    candidates = [word, word.removesuffix("s"), word.removesuffix("es")]
    if word.endswith("ies"):
        candidates.append(word.removesuffix("ies") + "y")
    return next((candidate for candidate in candidates if candidate in verbs), "")


_RETURN_VERBS: Final = frozenset({"return", "returns", "give", "gives", "yield", "yields"})
_FRAMES: Final = frozenset(
    {"for", "if", "given", "when", "is", "are", "does", "as", "in", "like", "similar", "it"}
)


def purpose_sentence(name: str, form: str, summary: str, proper: frozenset[str]) -> str:
    """Say what an object is for, from the first sentence of its documentation.

    Args:
        name: Bare name of the object.
        form: Function, class or method.
        summary: The sentence, without its period.
        proper: Words that keep their capital.
    """
    plain = lower_first(summary, proper)
    subject = f"The {form} `{name}`"
    head, _, rest = summary.partition(" ")
    verb = base_form(head.lower().rstrip(","), VERBS)
    if head.lower() in _RETURN_VERBS and rest:
        return f"{subject} gives {rest}."
    if verb:
        comma = "," if head.endswith(",") else ""
        return f"{subject} is used to {verb}{comma} {rest}."
    if head.lower() == "this":
        return f"{subject} {_after_subject(rest, form)}."
    if head.lower() in _FRAMES:
        return f"{subject} does the following: {plain}."
    has_article = head.lower() in {"a", "an", "the"}
    if form == "class":
        return f"{subject} is {'' if has_article else 'used as '}{plain}."
    return f"{subject} gives {'' if has_article else 'the '}{plain}."


def listed(parts: Sequence[str], *, last: str = "and") -> str:
    """Join parts as prose: `a`, `a and b`, `a, b and c`."""
    if len(parts) < 2:  # noqa: PLR2004 - nothing to join
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def choose(options: Sequence[str], key: str) -> str:
    """Choose one option by a hexadecimal hash: the same key always gives the same option."""
    return options[int(key[:8], 16) % len(options)]


def _after_subject(rest: str, form: str) -> str:
    for noun in (form, "function", "routine", "class", "method", "object", "module"):
        if rest.lower().startswith(f"{noun} "):
            return rest[len(noun) + 1 :]
    return rest
