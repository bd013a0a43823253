r"""Where a response states an answer: `\boxed{…}`, `#### …`, "the answer is …"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_BOX: Final = re.compile(r"\\(?:boxed|fbox|framebox)\s*")
_MARKER: Final = re.compile(
    r"(?:(?:\banswers?|\b(?:correct|right)\s+(?:option|choice))\b[\s*_]*(?:\([^()\n]{0,40}\)[\s*_]*)?"
    r"(?:\bis\b|\bare\b|:|=)|^\s*####)[\s*_:]*",
    re.IGNORECASE | re.MULTILINE,
)
_CONCLUDING: Final = re.compile(r"\b(?:is|are)\b|####", re.IGNORECASE)
_HEADING: Final = re.compile(
    r"(?:^|[.!?]\s)[\s*_#>]*(?:(?:so|thus|hence|therefore|the|my|final|correct)\b[\s,*_]*)*\Z",
    re.IGNORECASE | re.MULTILINE,
)
"""What may stand before "answer:" where it concludes, unlike in "check the answer: 6*7"."""
_BOXED: Final = re.compile(r"(?:[\s$*_]|\\[(\[])*\\(?:boxed|fbox|framebox)(?![a-zA-Z])")
"""A box behind words is the statement, where it is one."""
_DENIED: Final = re.compile(r"(?:not|n't|never|neither)\b", re.IGNORECASE)
_BARE: Final = re.compile(r"[^\s$\\{}]{1,40}")


@dataclass(frozen=True)
class Statement:
    """One answer that a response states."""

    start: int
    """Where its text begins."""

    text: str
    """As it is written; for a marker, the rest of its line."""

    is_boxed: bool


def statements(response: str) -> list[Statement]:
    r"""Return the answers that a response states, in its order.

    A box without its closing brace is none: the response was cut. Of nested boxes the outermost
    counts, with the inner commands taken away. Behind a box, words count only where they conclude.
    """
    boxes = _boxes(response)
    inside = [(box.start, box.start + len(box.text)) for box in boxes]
    last_box = max((start for start, _ in inside), default=len(response))
    marked = [
        Statement(found.end(), _first_line(response, found.end()), is_boxed=False)
        for found in _MARKER.finditer(response)
        if not any(start <= found.start() < end for start, end in inside)
        and (found.start() < last_box or _concludes(response, found))
    ]
    stated = [
        one
        for one in marked
        if one.text and not _DENIED.match(one.text) and not _BOXED.match(one.text)
    ]
    unboxed = [Statement(box.start, unbox(box.text), is_boxed=True) for box in boxes]
    found = [one for one in (*stated, *unboxed) if one.text]
    return sorted(found, key=lambda one: one.start)


def _concludes(response: str, marker: re.Match[str]) -> bool:
    is_sentence = _CONCLUDING.search(marker.group()) is not None
    return is_sentence or _HEADING.search(response[: marker.start()]) is not None


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
    while (found := _BOX.search(text, position)) is not None:
        start = found.end()
        if text[start : start + 1] == "{":
            end = closing_brace(text, start)
            if end is None:
                position = start + 1
                continue
            boxes.append(Statement(start + 1, text[start + 1 : end], is_boxed=True))
            position = end + 1
            continue
        bare = _BARE.match(text, start)
        position = start if bare is None else bare.end()
        if bare is not None:
            boxes.append(Statement(start, bare.group().rstrip(".,;"), is_boxed=True))
    return boxes


def closing_brace(text: str, opening: int) -> int | None:
    r"""Return where the brace at `opening` closes; `\{` and `\}` are no braces."""
    depth = 0
    position = opening
    while position < len(text):
        match text[position]:
            case "\\":
                position += 1
            case "{":
                depth += 1
            case "}":
                depth -= 1
                if depth == 0:
                    return position
            case _:
                pass
        position += 1
    return None


def _first_line(text: str, start: int) -> str:
    """Return the line at `start`, or the whole formula that begins there."""
    for opening, closing in (("$$", "$$"), (r"\[", r"\]")):
        if text.startswith(opening, start):
            end = text.find(closing, start + len(opening))
            return "" if end < 0 else text[start : end + len(closing)]
    return text[start:].split("\n", 1)[0].strip()
