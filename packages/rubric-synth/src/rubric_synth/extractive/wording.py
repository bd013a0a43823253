"""Turning facts into readable sentences: verbs, lists and a stable choice between phrasings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rubric_synth.language import lower_first

if TYPE_CHECKING:
    from collections.abc import Sequence

VERBS: Final = frozenset(
    """accumulate add adjust advance allocate analyze append apply approximate array assemble assert assign
    bin bind bound break broadcast build calculate call cast change check choose clean clip close cluster
    combine compare compile compute concatenate conjugate construct continue convert convolve copy
    correlate count create customize cut decimate decode decompose deconvolve define delete derive design
    detect determine diagonalize differentiate discretize divide do downsample draw drop dump encode
    enforce ensure estimate evaluate exclude execute expand export extend extract factor factorize fail
    fill filter find fit flatten flip format generate get give group guess implement import indicate
    initialize insert instantiate integrate interpolate interpret invert iterate join keep label
    linearize list load locate look mark mask match maximize measure merge minimize modify move multiply
    normalize obtain open optimize order pack pad parse partition perform permute pick plot predict
    prepare print process produce project propagate provide put query raise randomly read rebuild
    reconstruct rectify recursively reduce reflect register remove rename repeat replace represent
    resample reseed reset reshape restore retrieve reverse roll rotate round run safely sample save scale
    scan search select send separate set shift show shuffle simulate skip slice smooth solve sort
    split squeeze stack standardize store sum suppress swap take test trace transform translate
    transpose traverse trim truncate try unpack unwrap update upsample use validate verify view
    warn whiten wrap write yield zoom""".split()
)
"""Verbs that open the summary of a function, in their base form."""
_RETURN_VERBS: Final = frozenset({"return", "returns", "give", "gives", "yield", "yields"})
_FRAMES: Final = frozenset({"for", "if", "given", "when", "is", "are", "does", "as", "in", "like", "similar", "it"})


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
    verb = _base_form(head.lower().rstrip(","))
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


def _base_form(word: str) -> str:
    """Return the base form of a verb that begins a summary, or "" for any other word."""
    candidates = [word, word.removesuffix("s"), word.removesuffix("es")]
    if word.endswith("ies"):
        candidates.append(word.removesuffix("ies") + "y")
    return next((candidate for candidate in candidates if candidate in VERBS), "")


def _after_subject(rest: str, form: str) -> str:
    for noun in (form, "function", "routine", "class", "method", "object", "module"):
        if rest.lower().startswith(f"{noun} "):
            return rest[len(noun) + 1 :]
    return rest
