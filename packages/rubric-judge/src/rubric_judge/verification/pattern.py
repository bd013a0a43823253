"""`regex: PATTERN`: a regular expression that the response must match, under a time limit."""

from __future__ import annotations

from dataclasses import dataclass

from rubric_judge.errors import VerificationError
from rubric_judge.verification.excerpts import head
from rubric_judge.verification.pattern_size import compiled_size

__all__ = ["RegexCheck", "matches_pattern", "read_pattern"]

_LONGEST_TEXT = 20_000
"""Characters of a response that a pattern is run on; bounds the time of a single check."""

_LONGEST_PATTERN = 2_000
_LARGEST_PATTERN = 10_000
"""Items of a compiled pattern, of about a kilobyte each; `regex` keeps hundreds of patterns."""


@dataclass(frozen=True, slots=True)
class RegexCheck:
    """A pattern that the response must match; all or nothing."""

    pattern: str


def read_pattern(body: str, *, head: str = "regex:") -> RegexCheck:
    """Read the pattern.

    Args:
        body: a regular expression of the `regex` package.
        head: what it belongs to, for the error.

    Returns:
        The check.

    Raises:
        VerificationError: it is no pattern, or none whose size is bounded once it is compiled.
    """
    # Loaded when a rubric asks for it: most do not.
    import regex  # noqa: PLC0415

    if not body:
        raise VerificationError(f"`{head}` needs a pattern")
    if len(body) > _LONGEST_PATTERN:
        raise VerificationError(f"`{head}` is longer than {_LONGEST_PATTERN} characters")
    size = compiled_size(body)
    if size is None:
        raise VerificationError(
            f"`{head}` is no pattern, or one without a bound: close its groups and sets, which may "
            "not nest too deep, and leave out comments, fuzzy groups and the flags f, x and V1"
        )
    if size > _LARGEST_PATTERN:
        raise VerificationError(
            f"`{head}` repeats what repeats: above {_LARGEST_PATTERN} items once it is compiled; "
            "nest fewer of `+` and `{n}`"
        )
    try:
        regex.compile(body)
    except (RecursionError, OverflowError, MemoryError):
        raise VerificationError(
            f"`{head}` is no usable pattern: its {len(body)} characters nest too deep"
        ) from None
    except regex.error as error:
        raise VerificationError(
            f"`{head}` is no pattern: see its character {getattr(error, 'pos', 0)}"
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
