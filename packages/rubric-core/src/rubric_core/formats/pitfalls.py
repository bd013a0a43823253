"""Which way a criterion with negative points is worded: at a fault, or at its avoidance.

RaR asks its writers for pitfalls such as "Does not mention …", an omission and so a fault, and
"Recommends …", a fault too; its rows also hold "Does not recommend …", which a good answer meets.
"""

import re
from typing import Final, Literal

Pitfalls = Literal["avoidance", "failure", "worded"]
"""How the negated texts are worded: all as what a good answer does, all as faults, or each as its
verb says."""

_SUBJECT: Final = r"^\s*(?:[\w ]{0,30}:\s*)?(?:(?:the|an?) \w+\s+|it\s+)?"
_NEGATION: Final = (
    r"(?:(?:does|do|did|should|must|can|will|is|are|has) ?n[o']t|(?:should|must) avoid|cannot|"
    r"never|avoids?(?: the)?|refrains? from|without|no)\b"
)
_NEGATED: Final = re.compile(f"{_SUBJECT}{_NEGATION}", re.IGNORECASE)
_VERB: Final = re.compile(rf"{_SUBJECT}{_NEGATION}\s+(?:\w+ly\s+)?(\w+)", re.IGNORECASE)
_OMISSIONS: Final = (
    "mention",
    "includ",
    "address",
    "discuss",
    "acknowledg",
    "identif",
    "explain",
    "provid",
    "note",
    "noting",
    "consider",
    "recogni",
    "specif",
    "describ",
    "cover",
    "list",
    "cit",
    "defin",
    "account",
    "distinguish",
    "clarif",
    "emphasi",
    "highlight",
    "answer",
)
"""How the verbs begin without which an answer lacks something."""
_COMMISSIONS: Final = (
    "recommend",
    "suggest",
    "claim",
    "assum",
    "confus",
    "attribut",
    "blam",
    "impl",
    "assert",
    "overstat",
    "misstat",
    "advis",
    "prescrib",
    "endors",
    "contradict",
    "ignor",
    "overlook",
    "neglect",
    "omit",
    "mislead",
    "misrepresent",
    "misinterpret",
    "invent",
    "fabricat",
    "forget",
    "exaggerat",
    "conflat",
    "fail",
    "misidentif",
    "misattribut",
    "incorrect",
    "wrong",
)
"""How the verbs begin that a good answer leaves undone."""


def is_negated(text: str) -> bool:
    """Whether a text says what is not done."""
    return _NEGATED.match(text) is not None


def is_avoidance(text: str, pitfalls: Pitfalls | None) -> bool | None:
    """Return whether a text with negative points says what a good answer does.

    Args:
        text: of the criterion.
        pitfalls: how negated texts are worded; None where nobody has said.

    Returns:
        False for a fault, which a text without a negation always is; None where it cannot be told.
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
            return True if denies_fault else False if denies_virtue else None
