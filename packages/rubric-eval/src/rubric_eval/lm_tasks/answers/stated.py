r"""Where a response states an answer: `\boxed{…}`, `#### …`, "the answer is …"."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rubric_core.files import toml_beside
from rubric_core.rewriting import patterns

EXTRACTION: Final = "4"
"""Version of the rules by which answers are read and compared."""

_PATTERNS: Final = patterns(toml_beside(__file__, "patterns.toml")["stated"])


@dataclass(frozen=True)
class Statement:
    """One answer that a response states."""

    start: int
    """Where its text begins."""

    text: str
    """As it is written; for a marker, the rest of its line."""

    is_boxed: bool


def statements(response: str, *, is_cut: bool = False) -> list[Statement]:
    r"""Return the answers that a response states, in its order.

    A box without its closing brace is none: the response was cut. Of nested boxes the outermost
    counts, with the inner commands taken away. Behind a box, words count only where they conclude.

    Args:
        response: the response.
        is_cut: whether it is known to be cut: then its last word is not read, of which there may
            be more, as in "the answer is $150,0".
    """
    response = _PATTERNS["cut_word"].sub("", response) if is_cut else response
    boxes = _boxes(response)
    inside = [(box.start, box.start + len(box.text)) for box in boxes]
    last_box = max((start for start, _ in inside), default=len(response))
    marked = [
        Statement(found.end(), _first_line(response, found.end()), is_boxed=False)
        for found in _PATTERNS["marker"].finditer(response)
        if not any(start <= found.start() < end for start, end in inside)
        and (found.start() < last_box or _concludes(response, found))
    ]
    stated = [
        one
        for one in marked
        if one.text
        and not _PATTERNS["denied"].match(one.text)
        and not _PATTERNS["boxed"].match(one.text)
    ]
    unboxed = [Statement(box.start, unbox(box.text), is_boxed=True) for box in boxes]
    found = [one for one in (*stated, *unboxed) if one.text]
    return sorted(found, key=lambda one: one.start)


def _concludes(response: str, marker: re.Match[str]) -> bool:
    is_sentence = _PATTERNS["concluding"].search(marker.group()) is not None
    return is_sentence or _PATTERNS["heading"].search(response[: marker.start()]) is not None


def last_line(response: str) -> str:
    """Return the last line that is not empty."""
    return next((line.strip() for line in reversed(response.splitlines()) if line.strip()), "")


def unbox(text: str) -> str:
    r"""Take `\boxed{…}` commands off their contents, however deep."""
    while (box := next(iter(_boxes(text)), None)) is not None:
        command = text.rfind("\\", 0, box.start)
        end = box.start + len(box.text)
        closing = end + 1 if text[end : end + 1] == "}" else end
        text = f"{text[:command]}{box.text}{text[closing:]}"
    return text.strip()


def _boxes(text: str) -> list[Statement]:
    boxes: list[Statement] = []
    position = 0
    while (found := _PATTERNS["box"].search(text, position)) is not None:
        start = position = found.end()
        if text.startswith("{", start):
            end = closing_brace(text, start)
            position = start + 1 if end is None else end + 1
            if end is not None:
                boxes.append(Statement(start + 1, text[start + 1 : end], is_boxed=True))
        elif bare := _PATTERNS["bare"].match(text, start):
            position = bare.end()
            boxes.append(Statement(start, bare.group().rstrip(".,;"), is_boxed=True))
    return boxes


def closing_brace(text: str, opening: int) -> int | None:
    r"""Return where the brace at `opening` closes; `\{` and `\}` are no braces."""
    depth = 0
    for found in _PATTERNS["brace"].finditer(text, opening):
        depth += {"{": 1, "}": -1}.get(found.group(), 0)
        if depth == 0:
            return found.start()
    return None


def _first_line(text: str, start: int) -> str:
    """Return the line at `start`, or the whole formula that begins there."""
    for opening, closing in (("$$", "$$"), (r"\[", r"\]")):
        if text.startswith(opening, start):
            end = text.find(closing, start + len(opening))
            return "" if end < 0 else text[start : end + len(closing)]
    return text[start:].split("\n", 1)[0].strip()


def stated_letter(response: str, choices: Sequence[str], *, is_cut: bool = False) -> str | None:
    r"""Return the letter A to D that a response ends on.

    The last statement that names a choice counts: `\boxed{B}`, "the answer is (B)", "Answer: B", or
    the text of exactly one choice in a letter's place. The article "a" is no letter: without
    parentheses a letter is a capital that nothing of a phrase follows. With no statement at all, a
    last line that is a letter alone counts, or the one letter of which it says "B is correct",
    unless the response was cut before it came to a statement. A letter goes before a text that
    contradicts it.

    Args:
        response: the response.
        choices: texts of A, B, C and D, in this order.
        is_cut: whether it is known to be cut.
    """
    stated = statements(response, is_cut=is_cut)
    for one in reversed(stated):
        text = _PATTERNS["lead"].sub("", _undress(one.text), count=1)
        if _PATTERNS["several"].match(text):
            return None
        found = _alone(text) if one.is_boxed else None
        found = found or _letter(text) or _choice(one.text, choices)
        if found is not None:
            return found
    if is_cut:
        return None
    if alone := _alone(_undress(last_line(response))):
        return alone
    called = {first or second for first, second in _PATTERNS["correct"].findall(_undress(response))}
    return called.pop() if len(called) == 1 and not stated else None


def _letter(text: str) -> str | None:
    found = _PATTERNS["letter"].match(text)
    return next(part for part in found.groups() if part).upper() if found else None


def _alone(text: str) -> str | None:
    alone = _PATTERNS["alone"].fullmatch(text.strip())
    return alone.group(1).upper() if alone else None


def _choice(text: str, choices: Sequence[str]) -> str | None:
    """Return the letter of the one choice that the text is, letter by letter without its dress."""
    given = _bare(text)
    same = [index for index, choice in enumerate(choices) if _bare(choice) == given]
    return "ABCD"[same[0]] if len(same) == 1 and given else None


def _undress(text: str) -> str:
    text = re.sub(r"\\([()])", r"\1", text)  # \(B\) is a letter in a formula
    return _PATTERNS["spaces"].sub(" ", _PATTERNS["dress"].sub("", text)).strip()


def _bare(text: str) -> str:
    undressed = _PATTERNS["dress"].sub("", text)
    return _PATTERNS["spaces"].sub("", undressed).strip().rstrip(".").casefold()
