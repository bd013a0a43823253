"""`regex: PATTERN`: a regular expression that the response must match, under a time limit."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import partial

from rubric_judge.checks.phrases import head
from rubric_judge.errors import VerificationError

_DEEPEST = 20
_UNREAD = re.compile(r"\(\?(?:[a-zA-Z0-9-]*(?:x|f|V1)|#|\(DEFINE)")
"""Constructs that change how the rest is read: verbose mode, nested sets, full case folding,
comments, and definitions; a repetition after one applies to what stands before it."""
_TOKEN = re.compile(
    r"""
      (?P<flags>  \(\?[a-zA-Z0-9-]+\) )
    | (?P<open>   \((?:\?:?)? )
    | (?P<close>  \) )
    | (?P<repeat> (?: [*?] | (?P<loop>\+) | \{ (?: (?P<fewest>[0-9]+) (?:,[0-9]*)? | ,[0-9]* ) \} )
                  [?+]? )
    | (?P<brace>  \{ )
    | (?P<set>    \[ \^?+ \]?+ (?: \\. | \[:\^?[a-zA-Z]+:\] | \[(?![:.=]) | [^\\\[\]] )*+ \] )
    | (?P<item>   \\. | [^\\\[] )
    """,
    re.DOTALL | re.VERBOSE,
)


def compiled_size(pattern: str) -> int | None:
    """Return at least as many items as a pattern is compiled to.

    Args:
        pattern: a regular expression of the `regex` package, valid or not.

    Returns:
        The number; None for what cannot be counted: groups more than 20 deep or not closed, sets
        that are not closed, fuzzy groups, and what `_UNREAD` lists.
    """
    if _UNREAD.search(pattern):
        return None
    around: list[int] = []  # sizes of the open groups, each without what is in the next
    size = last = 0  # of the innermost group; of what a repetition would repeat here
    at = 0
    while token := _TOKEN.match(pattern, at):
        at = token.end()
        match token.lastgroup:
            case "open":
                around.append(size)
                size = last = 0
            case "close" if around:
                last = size + 1
                size = around.pop() + last
            case "repeat":
                # It is written out the fewest times, and once more as a loop.
                size += last * (1 if token["loop"] else int(token["fewest"] or 0))
                last = 1  # nothing repeats a repetition
            case "flags":  # a repetition after them is of what stands before them
                size = size + 1
                last = max(last, 1)
            case "brace" if last > 1:
                return None  # of a fuzzy group, which may be repeated
            case "brace" | "set" | "item":
                size = size + 1
                last = 1
            case _:
                return None
        if len(around) > _DEEPEST:
            return None
    return size if at == len(pattern) and not around else None


_LONGEST_TEXT = 20_000
"""Characters of a response that a pattern is run on; bounds the time of a single check."""

_LONGEST_PATTERN = 2_000
_LARGEST_PATTERN = 10_000
"""Items of a compiled pattern, of about a kilobyte each; `regex` keeps hundreds of patterns."""


_NEARLY = 0.9
_SHORTEST_S = 1e-4


@dataclass(frozen=True)
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
        VerificationError: it is not a valid pattern, or its compiled size is not bounded.
    """
    # Loaded when a rubric asks for it: most do not.
    import regex

    unusable = partial(VerificationError.of, head)
    if not body:
        raise unusable("needs a pattern")
    if len(body) > _LONGEST_PATTERN:
        raise unusable(f"is longer than {_LONGEST_PATTERN} characters")
    size = compiled_size(body)
    if size is None:
        raise unusable(
            "is no pattern, or one without a bound: close its groups and sets, which may not "
            "nest too deep, and leave out comments, fuzzy groups and the flags f, x and V1"
        )
    if size > _LARGEST_PATTERN:
        raise unusable(
            f"repeats what repeats: above {_LARGEST_PATTERN} items once it is compiled; nest "
            "fewer of `+` and `{n}`"
        )
    try:
        regex.compile(body)
    except (RecursionError, OverflowError, MemoryError):
        raise unusable(
            f"is no usable pattern: its {len(body)} characters nest too deep"
        ) from None
    except regex.error as error:
        raise unusable(
            f"is no pattern: see its character {getattr(error, 'pos', 0)}"
        ) from None
    return RegexCheck(pattern=body)


def matches_pattern(pattern: str, text: str, *, time_left: ProcessorTime) -> bool:
    """Search a pattern in the first 20,000 characters of a response.

    Args:
        pattern: a regular expression of the `regex` package.
        text: the response.
        time_left: for this search and others.

    Returns:
        Whether it occurs.

    Raises:
        TimeoutError: the search takes longer: a pattern that backtracks.
    """
    return time_left.occurs(pattern, head(text, _LONGEST_TEXT))


class ProcessorTime:
    """Processor time that searches may take together.

    `regex` counts the processor time of the whole process, so that busy threads beside a search
    would end it: it is tried again, with twice the time, until it had what it is allowed.
    """

    def __init__(self, seconds: float, *, tries: int = 8) -> None:
        """Start with nothing spent.

        Args:
            seconds: of the processor.
            tries: at most so many times for one search.
        """
        self._left_s = seconds
        self._tries = tries

    def occurs(self, pattern: str, text: str) -> bool:
        """Search a pattern in a text.

        Raises:
            TimeoutError: it takes longer than what is left.
        """
        import regex

        for attempt in range(self._tries):
            started_s = time.thread_time()
            try:
                # `concurrent`: without the interpreter's lock, so that other threads go on.
                match = regex.search(
                    pattern, text, timeout=self._left_s * 2**attempt, concurrent=True
                )
            except TimeoutError:
                if time.thread_time() - started_s >= _NEARLY * self._left_s:
                    break
            else:
                spent_s = time.thread_time() - started_s
                self._left_s = max(_SHORTEST_S, self._left_s - spent_s)
                return match is not None
        raise TimeoutError
