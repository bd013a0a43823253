"""`contains_all: a | b` and `contains_any: a | b`: whole words, as they are written.

Negation is not understood: "it does not diverge" contains "diverge". Use it for names and terms
that a right answer cannot do without, not for claims.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from rubric_judge.errors import VerificationError
from rubric_judge.verification.excerpts import head

_LONGEST_TEXT = 100_000
"""Characters of a response that phrases are looked for in."""


@dataclass(frozen=True, slots=True)
class ContainsCheck:
    """All, or any, of the phrases; all or nothing."""

    phrases: tuple[str, ...]
    every: bool


def read_contains(body: str, *, every: bool) -> ContainsCheck:
    """Read the phrases.

    Args:
        body: what follows the colon.
        every: whether all of them must occur.

    Returns:
        The check.

    Raises:
        VerificationError: a phrase is empty.
    """
    head = "contains_all" if every else "contains_any"
    return ContainsCheck(phrases=alternatives(body, head=head), every=every)


def alternatives(body: str, *, head: str) -> tuple[str, ...]:
    """Split words at `|`.

    Args:
        body: the words; backticks around one are dropped.
        head: what they belong to, for the error.

    Returns:
        The words in order.

    Raises:
        VerificationError: one of them is empty.
    """
    words = tuple(word.strip().strip("`").strip() for word in body.split("|"))
    if not all(words):
        raise VerificationError(
            f"`{head}` needs words with `|` between them, and none of them empty"
        )
    return words


def contains(check: ContainsCheck, text: str) -> bool:
    """Look for the phrases in a response.

    Args:
        check: the phrases; in one without a capital or an underscore, case does not matter.
        text: the response; its first 100,000 characters are read.

    Returns:
        Whether all, or any, of them occur as whole words.
    """
    text = head(text, _LONGEST_TEXT)
    found = (_pattern(phrase).search(text) is not None for phrase in check.phrases)
    return all(found) if check.every else any(found)


@lru_cache(maxsize=4096)
def _pattern(phrase: str) -> re.Pattern[str]:
    before = r"(?<!\w)" if re.match(r"\w", phrase) else ""
    after = r"(?!\w)" if re.match(r"\w", phrase[-1]) else ""
    spaced = r"\s+".join(map(re.escape, phrase.split()))
    # As in required elements: an identifier is a single word with a capital or an underscore.
    is_identifier = re.fullmatch(r"\S*[A-Z_]\S*", phrase) is not None
    return re.compile(before + spaced + after, re.NOFLAG if is_identifier else re.IGNORECASE)
