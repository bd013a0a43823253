"""Whether a number that stands in a text is what the text says: bare, and no guess among others.

    bare       nothing is attached that makes it another number: `5x`, `5!`, `5%`, `5k`, `√5`, `3,5`
    asserted   no comparison, operator, negation or alternative around it: `< 5`, `at least 5`,
               `2 · 5`, `not 5`, `5 is wrong`, `3 or 5`, `[3, 5]`, `3–5`

Wording is seen within four words of its own clause: this is no reader of English.
"""

from __future__ import annotations

import re

from rubric_judge.verification.units import is_known_unit

_LEADS = (
    r"approx|simeq|cong|sim|equiv|therefore|implies|Rightarrow|Longrightarrow|q?quad|boxed|fbox"
)
_ATTACHED_BEFORE = re.compile(
    r"(?:\d[,:'’]|[\w)\]]\(|(?<!\\boxed)(?<!\\fbox)\{|[|_–]|[√±]\s?"
    rf"|\\(?!(?:{_LEADS})(?![a-zA-Z]))[a-zA-Z]+\s?)\Z"
)
_ATTACHED_AFTER = re.compile(
    r"[\w!|]|[,:]\d|[-–]\w|\s?[%‰]|\s{1,2}(?i:percent|per cent|pct|ppm|ppb|hundred|dozen|squared"
    r"|cubed|factorial)\b"
)
_OPERATOR_AFTER = re.compile(
    r"\s?[\^×·÷+/√]\s?[\w(\\{]|\*[\w(]|\s\*\s?[\w(]"
    rf"|\s?\\(?!(?:{_LEADS}|text|mathrm|end|right)(?![a-zA-Z]))[a-zA-Z]+"
)
_OPERATOR_BEFORE = re.compile(
    r"(?:(?<![=-])>|[<≤≥≠≪≫∉+×·÷√±∓/^]|[<>!≤≥]=|[\w)\]}]\s?\*|(?<!\n)[-–](?=\s))\s*\Z"
)
_DENIED_AFTER = re.compile(
    r"\s*\(?(?:at (?:most|least)\b|(?:or|and) (?:more|less|fewer|above|below|up|higher|lower)\b"
    r"|(?:is|was|are|were|seems|would be|can|could)(?:n['’]t|not)?(?:\s\w+)?\s"
    r"(?:not|wrong|incorrect|false|impossible)\b|(?:is|was|are|were)n['’]t\b|cannot\b)",
    re.IGNORECASE,
)
_STATED = re.compile(r"(?:[=≈]|\b(?:is|are|was|were|be|equals))\s*\Z", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[.;!?,]\s|\n")
_WORD = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?")
_NEAR = 160
_UNSURE = frozenset((
    "not", "never", "cannot", "neither", "nor", "or", "either", "maybe", "perhaps",
    "possibly", "except", "unlike",
))  # fmt: skip
_COMPARED = frozenset((
    "than", "least", "most", "below", "under", "above", "over", "exceeds", "exceeding",
    "beyond", "through", "versus", "vs",
))  # fmt: skip
_COMPUTED = frozenset((
    "minus", "plus", "times", "twice", "half", "double", "negative", "log", "ln", "lg",
    "exp", "sin", "cos", "tan", "sqrt", "mod",
))  # fmt: skip
_JOINING = frozenset((
    "and", "or", "to", "through", "thru", "until", "till", "up", "vs", "versus", "by",
    "in", "of", "out", "then", "maybe", "perhaps", "possibly", "even", "alternatively",
    "else", "either", "bis", "plus", "minus", "times", "about", "approximately", "around",
    "roughly",
))  # fmt: skip
_SEPARATE = re.compile(r"[=≈]|(?<!\bvs)[.!?]\s|\n\s*\n|^:\s")
_RANGE = re.compile(
    r"\s?,?\s?\(?(?:[-–—~→]|\.\.\.?|…|(?:or|to|through|versus|vs)\b)\s*", re.IGNORECASE
)


def begins_bare(text: str, start: int) -> bool:
    """Return whether nothing before a number belongs to it: `√5`, `3,5`, `f(5)`."""
    return _ATTACHED_BEFORE.search(text[max(0, start - 20) : start]) is None


def ends_bare(text: str, end: int, *, has_unit: bool) -> bool:
    """Return whether nothing after a number, or after its unit, belongs to it: `5x`, `5!`, `5%`."""
    attached = None if has_unit else _ATTACHED_AFTER.match(text, end)
    return attached is None and _OPERATOR_AFTER.match(text, end) is None


def is_asserted(text: str, start: int, end: int, *, since: int) -> bool:
    """Return whether the words and signs around a quantity let it stand.

    Args:
        text: in the notation of `plain_numbers`.
        start: where the quantity starts.
        end: where it ends.
        since: where the number before it ends.

    Returns:
        False next to a comparison, an operator, a negation or an alternative.
    """
    before = text[max(since, start - _NEAR) : start]
    if _OPERATOR_BEFORE.search(before) or _DENIED_AFTER.match(text, end):
        return False
    clause = _CLAUSE_END.split(before)[-1]
    words = [word.lower() for word in _WORD.findall(clause)][-4:]
    if any(word in _UNSURE or word.endswith(("n't", "n’t")) for word in words):
        return False
    if _STATED.search(clause):
        return True
    compared = not _COMPARED.isdisjoint(words[-2:]) or words[-2:] == ["up", "to"]
    return not compared and _COMPUTED.isdisjoint(words[-1:])


def is_enumerated(gap: str) -> bool:
    """Return whether what stands between two numbers makes them a list, a range or a choice."""
    if _SEPARATE.search(gap):
        return False
    first, *others = [word.lower() for word in _WORD.findall(gap)] or [""]
    # "3 m to 5 m" has a unit before the word that joins.
    joined = _JOINING.issuperset(others)
    return joined and (not first or first in _JOINING or (bool(others) and is_known_unit(first)))


def is_joined(gap: str) -> bool:
    """Return whether a number and the next one are a range or a choice."""
    return _RANGE.fullmatch(gap) is not None


def fills_a_box(rest: str) -> bool:
    """Return whether no more than a noun stands behind the number of a box."""
    return re.fullmatch(r"[\s.,;)\]°']*|\s+[A-Za-z]{2}[A-Za-z\s]*[\s.)]*", rest) is not None
