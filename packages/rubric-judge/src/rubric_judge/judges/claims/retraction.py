"""Retractions: what an answer says of its own text, so that what stands before it is taken back."""

import re

_WRONG = r"(?:wrong|false|incorrect|untrue|a mistake|not (?:true|right|correct))"
_SAID = (
    r"(?:this|that|it|all of (?:this|that)|the above|what i said|my (?:first )?answer)"
)
_AT_THE_START = re.compile(r"\s*not\s+\S")
"""A small "not" before the whole answer, which prose begins with a capital."""
_TAKES_BACK = re.compile(
    rf"\((?:{_SAID} (?:is|was) |which (?:is|was) )?{_WRONG}\)"
    rf"|\\text\s*\{{\s*(?:is|was) {_WRONG}\s*\}}"
    rf"|,\s+but {_SAID} (?:is|was) {_WRONG}\s*(?=[.!\n]|$)"
    rf"|(?:^|[.!?\n])[^\S\n]*(?:(?:on reflection|actually|wait|sorry|no),?\s+)?"
    rf"{_SAID} (?:is|was) {_WRONG}\s*(?=[.!\n]|$)",
    re.IGNORECASE,
)


def kept_text(text: str) -> str:
    """Return what an answer does not take back: all, or what follows its last retraction.

    "A. B. (this is wrong)" and "not A. B." keep nothing, "A. On reflection that was a mistake. B."
    keeps B. A belief that an answer reports and corrects belongs before what it says itself.

    Args:
        text: the answer.
    """
    if ends := [match.end() for match in _TAKES_BACK.finditer(text)]:
        return text[ends[-1] :]
    return "" if _AT_THE_START.match(text) else text
