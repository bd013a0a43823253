"""`regex: PATTERN`: a regular expression that the response must match, under a time limit."""

from __future__ import annotations

from dataclasses import dataclass

from rubric_judge.errors import VerificationError
from rubric_judge.verification.excerpts import head

__all__ = ["RegexCheck", "matches_pattern", "read_pattern"]

_LONGEST_TEXT = 20_000
"""Characters of a response that a pattern is run on; bounds the time of a single check."""


_LONGEST_PATTERN = 20_000


@dataclass(frozen=True, slots=True)
class RegexCheck:
    """A pattern that the response must match; all or nothing."""

    pattern: str


def read_pattern(body: str) -> RegexCheck:
    """Read the pattern.

    Args:
        body: a regular expression of the `regex` package.

    Returns:
        The check.

    Raises:
        VerificationError: it is no pattern.
    """
    # Loaded when a rubric asks for it: most do not.
    import regex  # noqa: PLC0415

    if not body:
        raise VerificationError("`regex:` needs a pattern")
    if len(body) > _LONGEST_PATTERN:
        raise VerificationError(f"`regex:` is longer than {_LONGEST_PATTERN} characters")
    try:
        regex.compile(body)
    except (RecursionError, OverflowError, MemoryError):
        raise VerificationError(
            f"`regex:` is no usable pattern: its {len(body)} characters nest too deep"
        ) from None
    except regex.error as error:
        raise VerificationError(
            f"`regex:` is no pattern: see its character {getattr(error, 'pos', 0)}"
        ) from None
    return RegexCheck(pattern=body)


def matches_pattern(pattern: str, text: str, *, timeout_s: float) -> bool:
    """Search a pattern in the first 20,000 characters of a response.

    Args:
        pattern: a regular expression of the `regex` package.
        text: the response.
        timeout_s: longest time for the search.

    Returns:
        Whether it occurs.

    Raises:
        TimeoutError: the search took longer: a pattern that backtracks.
    """
    import regex  # noqa: PLC0415

    # `concurrent`: without the interpreter's lock, so that an event loop goes on meanwhile.
    found = regex.search(pattern, head(text, _LONGEST_TEXT), timeout=timeout_s, concurrent=True)
    return found is not None
