"""How large a pattern becomes when it is compiled: what it repeats is written out.

`((a{9}){9}){9}` becomes a thousand copies and `((a+)+)+` a copy beside each loop, so that a few
dozen characters take all the memory there is. Counted on the text, in one pass.
"""

from __future__ import annotations

import re

_DEEPEST = 20
_UNREAD = re.compile(r"\(\?(?:[a-zA-Z0-9-]*(?:x|f|V1)|#|\(DEFINE)")
"""What would make the rest read otherwise: verbose mode, nested sets, full case folding, comments,
and definitions: a repetition behind one is of what stands before it."""
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
_MOST_DIGITS = 9


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
                size += last * (_copies(token) - 1)
                last = 1  # nothing repeats a repetition
            case "flags":  # a repetition behind them is of what stands before them
                size, last = size + 1, max(last, 1)
            case "brace" if last > 1:
                return None  # of a fuzzy group, which may be repeated
            case "brace" | "set" | "item":
                size, last = size + 1, 1
            case _:
                return None
        if len(around) > _DEEPEST:
            return None
    return size if at == len(pattern) and not around else None


def _copies(repeat: re.Match[str]) -> int:
    """Return how often the repeated thing is written out: the fewest times, and once as a loop."""
    if repeat["loop"]:
        return 2
    digits = repeat["fewest"] or "0"
    return 1 + (int(digits) if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS)
