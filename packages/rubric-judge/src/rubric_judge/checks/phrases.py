"""`contains_all: a | b` and `contains_any: a | b`: whole words, as they are written.

Negation is not understood: "it does not diverge" contains "diverge". Use it for names and terms
that a right answer cannot do without, not for claims.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from rubric_judge.errors import VerificationError

_FIRST_SPACE = re.compile(r"\s")
_LAST_SPACE = re.compile(r"(?s).*(?=\s)")
_IDENTIFIER = re.compile(r"\S*[A-Z_]\S*")

_LONGEST_TEXT = 100_000
"""Characters of a response that phrases are looked for in."""


def head(text: str, longest: int) -> str:
    """Return what stands before the last white space of the first characters.

    Args:
        text: any text.
        longest: most characters; a text that is no longer comes back whole.

    Returns:
        Whole words; nothing where a single word is longer.
    """
    if len(text) <= longest:
        return text
    whole = _LAST_SPACE.match(text, 0, longest + 1)
    return whole[0] if whole else ""


def tail(text: str, longest: int) -> str:
    """Return what follows the first white space of the last characters.

    Args:
        text: any text.
        longest: most characters; a text that is no longer comes back whole.

    Returns:
        Whole words; nothing where a single word is longer.
    """
    if len(text) <= longest:
        return text
    space = _FIRST_SPACE.search(text, len(text) - longest - 1)
    return text[space.end() :] if space else ""


@dataclass(frozen=True)
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
    return ContainsCheck(
        alternatives(body, head=f"contains_{'all' if every else 'any'}"), every
    )


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
        check: the phrases.
        text: the response; its first 100,000 characters are read.

    Returns:
        Whether all, or any, of them occur as whole words.
    """
    text = head(text, _LONGEST_TEXT)
    matches = (
        phrase_pattern(phrase).search(text) is not None for phrase in check.phrases
    )
    return all(matches) if check.every else any(matches)


def is_identifier(term: str) -> bool:
    """Return whether a term is a single word with a capital or an underscore: its case matters."""
    return _IDENTIFIER.fullmatch(term) is not None


@lru_cache(maxsize=4096)
def phrase_pattern(phrase: str) -> re.Pattern[str]:
    """Return the pattern of a phrase as whole words, with any space between them."""
    before = r"(?<!\w)" if re.match(r"\w", phrase) else ""
    after = r"(?!\w)" if re.match(r"\w", phrase[-1]) else ""
    spaced = r"\s+".join(map(re.escape, phrase.split()))
    return re.compile(
        before + spaced + after, 0 if is_identifier(phrase) else re.IGNORECASE
    )
