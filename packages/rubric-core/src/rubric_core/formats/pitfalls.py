"""The wording of criteria with negative points: as a fault, or as its avoidance.

RaR asks its writers for pitfalls such as "Does not mention …", an omission and so a fault, and
"Recommends …", also a fault; its rows also hold "Does not recommend …", which a good answer meets.
"""

import re
from typing import Literal

from rubric_core.files import toml_beside

Pitfalls = Literal["avoidance", "failure", "worded"]
"""How negated texts are worded: all describe a good answer, all describe faults, or each as its
verb says."""

_SUBJECT = r"^\s*(?:[\w ]{0,30}:\s*)?(?:(?:the|an?) \w+\s+|it\s+)?"
_NEGATION = (
    r"(?:(?:does|do|did|should|must|can|will|is|are|has) ?n[o']t|(?:should|must) avoid|cannot|"
    r"never|avoids?(?: the)?|refrains? from|without|no)\b"
)
_NEGATED = re.compile(f"{_SUBJECT}{_NEGATION}", re.IGNORECASE)
_VERB = re.compile(rf"{_SUBJECT}{_NEGATION}\s+(?:\w+ly\s+)?(\w+)", re.IGNORECASE)
_VERBS = toml_beside(__file__, "pitfalls.toml")
_OMISSIONS = tuple(_VERBS["omissions"])
_COMMISSIONS = tuple(_VERBS["commissions"])


def is_negated(text: str) -> bool:
    """Return whether a text says that something is not done."""
    return _NEGATED.match(text) is not None


def is_avoidance(text: str, pitfalls: Pitfalls | None) -> bool | None:
    """Return whether a text with negative points describes a good answer.

    Args:
        text: the criterion's text.
        pitfalls: how negated texts are worded; None where that is not known.

    Returns:
        False for a fault, which a text without a negation always is; None where it is not clear.
    """
    if pitfalls == "failure" or not is_negated(text):
        return False
    match = _VERB.match(text)
    verb = match[1].lower() if match is not None else ""
    denies_fault = verb.startswith(_COMMISSIONS)
    denies_virtue = not denies_fault and verb.startswith(_OMISSIONS)
    match pitfalls:
        case None:
            return None
        case "avoidance":
            return None if denies_virtue else True
        case "worded":
            if denies_fault:
                return True
            return False if denies_virtue else None
