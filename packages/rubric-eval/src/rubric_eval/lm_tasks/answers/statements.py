r"""Search for the answers that a response states: `\boxed{…}`, `#### …`, "the answer is …"."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rubric_core.files import toml_beside
from rubric_core.rewriting import patterns

EXTRACTION_VERSION = "5"
"""Version of the rules by which answers are read and compared."""

_PATTERNS = patterns(toml_beside(__file__, "patterns.toml")["stated"])


@dataclass(frozen=True)
class Statement:
    """One answer that a response states."""

    start: int
    """Offset of its text in the response."""

    text: str
    """Text as written; after a marker, the rest of its line."""

    is_boxed: bool


def statements(response: str, *, is_cut: bool = False) -> list[Statement]:
    r"""Return the answers that a response states, in order of appearance.

    A box without its closing brace does not count: the response was cut. Of nested boxes the
    outermost counts, without the inner commands; boxes in a list count as one. After a box, a
    marker such as "the answer is" counts only in a concluding phrase.

    Args:
        response: the response.
        is_cut: whether it is known to be cut. Then its last word is not read, since it may be
            incomplete, as in "the answer is $150,0", nor a statement that it goes on to doubt.
    """
    if is_cut:
        response = _PATTERNS["cut_word"].sub("", response)
    boxes = _boxes(response)
    candidates = _marked(response, boxes, is_cut=is_cut)
    for match in _PATTERNS["called"].finditer(response):
        statement = Statement(match.start(1), match.group(1), is_boxed=False)
        candidates.append(statement)
    candidates += _joined_boxes(response, boxes)
    nonempty = [statement for statement in candidates if statement.text]
    return sorted(nonempty, key=lambda statement: statement.start)


def _marked(
    response: str,
    boxes: Sequence[Statement],
    *,
    is_cut: bool,
) -> list[Statement]:
    """Return the statements after markers such as "the answer is" that are outside of boxes."""
    spans = [(box.start, box.start + len(box.text)) for box in boxes]
    last_box = max((box.start for box in boxes), default=len(response))
    marked: list[Statement] = []
    for marker in _PATTERNS["marker"].finditer(response):
        end = marker.end()
        if is_cut and _PATTERNS["doubted"].match(response, end):
            continue
        if any(opens <= marker.start() < closes for opens, closes in spans):
            continue
        if marker.start() >= last_box and not _concludes(response, marker):
            continue
        text = _first_line(response, end)
        if _PATTERNS["denied"].match(text):
            continue
        if _PATTERNS["boxed"].match(text):
            continue
        marked.append(Statement(end, text, is_boxed=False))
    return marked


def _concludes(response: str, marker: re.Match[str]) -> bool:
    """Return whether a marker concludes by its own words, or begins a sentence or a line."""
    if _PATTERNS["concluding"].search(marker.group()):
        return True
    before = response[: marker.start()]
    return _PATTERNS["heading"].search(before) is not None


def last_line(response: str) -> str:
    """Return the last line that is neither empty nor a mere farewell."""
    for line in reversed(response.splitlines()):
        text = line.strip()
        if text and not _PATTERNS["farewell"].match(text):
            return text
    return ""


def _joined_boxes(response: str, boxes: Sequence[Statement]) -> list[Statement]:
    """Join boxes that are separated only by commas, "and" and "or"."""
    joined: list[Statement] = []
    end = 0
    for box in boxes:
        text = unbox(box.text)
        command = response.rfind("\\", 0, box.start)
        between = response[end:command] if joined else ""
        is_next = _separates(between)
        end = box.start + len(box.text)
        if response.startswith("}", end):
            end += 1
        start = box.start
        if is_next and text and joined[-1].text:
            previous = joined.pop()
            start = previous.start
            if text in previous.text.split(", "):
                text = previous.text
            else:
                text = f"{previous.text}, {text}"
        joined.append(Statement(start, text, is_boxed=True))
    return joined


def _separates(text: str) -> bool:
    """Return whether a text between two boxes makes them items of one list."""
    if not _PATTERNS["and"].fullmatch(text):
        return False
    return _PATTERNS["separator"].search(text) is not None


def unbox(text: str) -> str:
    r"""Remove `\boxed{…}` commands around their contents, however deep."""
    boxes = _boxes(text)
    while boxes:
        box = boxes[0]
        command = text.rfind("\\", 0, box.start)
        end = box.start + len(box.text)
        closing = end + 1 if text.startswith("}", end) else end
        text = f"{text[:command]}{box.text}{text[closing:]}"
        boxes = _boxes(text)
    return text.strip()


def _boxes(text: str) -> list[Statement]:
    boxes: list[Statement] = []
    position = 0
    while (match := _PATTERNS["box"].search(text, position)) is not None:
        start = match.end()
        position = start
        if text.startswith("{", start):
            position = start + 1
            end = closing_brace(text, start)
            if end is not None:
                content = text[start + 1 : end]
                boxes.append(Statement(start + 1, content, is_boxed=True))
                position = end + 1
            continue
        bare = _PATTERNS["bare"].match(text, start)
        if bare:
            content = bare.group().rstrip(".,;")
            boxes.append(Statement(start, content, is_boxed=True))
            position = bare.end()
    return boxes


def closing_brace(text: str, opening: int) -> int | None:
    r"""Return the place at which the brace at `opening` closes; `\{` and `\}` are not counted."""
    depth = 0
    for match in _PATTERNS["brace"].finditer(text, opening):
        brace = match.group()
        if brace == "{":
            depth += 1
        elif brace == "}":
            depth -= 1
        if depth == 0:
            return match.start()
    return None


def _first_line(text: str, start: int) -> str:
    """Return the line at `start`, or the whole formula that begins there."""
    for opening, closing in (("$$", "$$"), (r"\[", r"\]")):
        if text.startswith(opening, start):
            end = text.find(closing, start + len(opening))
            if end < 0:
                return ""
            return text[start : end + len(closing)]
    line, _, _ = text[start:].partition("\n")
    return line.strip()
