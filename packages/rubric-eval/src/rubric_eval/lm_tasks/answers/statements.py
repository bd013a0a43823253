r"""Where a response states an answer: `\boxed{…}`, `#### …`, "the answer is …"."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rubric_core.files import toml_beside
from rubric_core.rewriting import patterns

EXTRACTION: Final = "5"
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
    counts, with the inner commands taken away; of boxes that are listed, all of them as one. Behind
    a box, words count only where they conclude.

    Args:
        response: the response.
        is_cut: whether it is known to be cut: then its last word is not read, of which there may
            be more, as in "the answer is $150,0", nor a statement that it goes on to doubt.
    """
    response = _PATTERNS["cut_word"].sub("", response) if is_cut else response
    boxes = _boxes(response)
    inside = [(box.start, box.start + len(box.text)) for box in boxes]
    last_box = max((start for start, _ in inside), default=len(response))
    ends = [
        (match.end(), match)
        for match in _PATTERNS["marker"].finditer(response)
        if not (is_cut and _PATTERNS["doubted"].match(response, match.end()))
    ]
    marked = [
        Statement(end, _first_line(response, end), is_boxed=False)
        for end, found in ends
        if not any(start <= found.start() < end for start, end in inside)
        and (found.start() < last_box or _concludes(response, found))
    ]
    stated = [
        statement
        for statement in marked
        if statement.text
        and not _PATTERNS["denied"].match(statement.text)
        and not _PATTERNS["boxed"].match(statement.text)
    ]
    called = [
        Statement(match.start(1), match.group(1), is_boxed=False)
        for match in _PATTERNS["called"].finditer(response)
    ]
    found = [one for one in (*stated, *called, *_listed(response, boxes)) if one.text]
    return sorted(found, key=lambda one: one.start)


def _concludes(response: str, marker: re.Match[str]) -> bool:
    is_sentence = _PATTERNS["concluding"].search(marker.group()) is not None
    return (
        is_sentence
        or _PATTERNS["heading"].search(response[: marker.start()]) is not None
    )


def last_line(response: str) -> str:
    """Return the last line that is not empty, and says more than farewell."""
    lines = (line.strip() for line in reversed(response.splitlines()))
    return next(
        (line for line in lines if line and not _PATTERNS["farewell"].match(line)), ""
    )


def _listed(response: str, boxes: Sequence[Statement]) -> list[Statement]:
    """Take boxes together that only commas, "and" and "or" part."""
    found: list[Statement] = []
    end = 0
    for box in boxes:
        text = unbox(box.text)
        between = response[end : response.rfind("\\", 0, box.start)] if found else ""
        is_next = _PATTERNS["and"].fullmatch(between) and _PATTERNS["separator"].search(
            between
        )
        end = box.start + len(box.text)
        end += response[end : end + 1] == "}"
        if is_next and text and found[-1].text:
            before = found.pop()
            text = (
                before.text
                if text in before.text.split(", ")
                else f"{before.text}, {text}"
            )
            found.append(Statement(before.start, text, is_boxed=True))
        else:
            found.append(Statement(box.start, text, is_boxed=True))
    return found


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
    while (match := _PATTERNS["box"].search(text, position)) is not None:
        start = position = match.end()
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
    for match in _PATTERNS["brace"].finditer(text, opening):
        depth += {"{": 1, "}": -1}.get(match.group(), 0)
        if depth == 0:
            return match.start()
    return None


def _first_line(text: str, start: int) -> str:
    """Return the line at `start`, or the whole formula that begins there."""
    for opening, closing in (("$$", "$$"), (r"\[", r"\]")):
        if text.startswith(opening, start):
            end = text.find(closing, start + len(opening))
            return "" if end < 0 else text[start : end + len(closing)]
    return text[start:].split("\n", 1)[0].strip()
