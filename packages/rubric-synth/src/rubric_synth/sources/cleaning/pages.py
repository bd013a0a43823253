"""Conversion of printed lines to Markdown: headings and paragraphs, without what print alone needs.

Running heads, page numbers, tables of contents and the list of references go; words that were
parted at the end of a line are whole again.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, zip_longest
from statistics import median
from typing import NamedTuple

from rubric_synth.sources.cleaning.markup import without_ligatures
from rubric_synth.tables import patterns, phrase, word_set

PARTED = "\x02"
"""Mark of the place where the end of a line parted a word."""
NOTE = "\x03"
"""Mark at the beginning of a line that begins with a raised sign, as notes do."""

_EDGE_LINES = 2
_SHORT_PRINT_PAGES = 4
_HEADING_SCALE = 1.12
_NOTE_SCALE = 0.95
_PARAGRAPH_GAP = 1.35
_MAX_HEADING_CHARS = 120
_MAX_PAGE_NUMBER_CHARS = 60
_TABLE_PARTS = 3
_MIN_LETTERS = 3
_MIN_NUMBERED = 3
_MOST_LABEL_WORDS = 6
_SAME_HEIGHT = 0.15
_CHAPTER_SCALE = 1.3
_MIN_TITLE_LETTERS = 0.7
_MIN_LETTER_FRAC = 0.5
_MIN_LINE_LETTERS = 0.25
_PATTERNS = patterns("pages")
_COMPOUND_ENDS = word_set("compound_ends")
_COMPOUND_STARTS = word_set("compound_starts")
_PREFIXES = word_set("prefixes")
_NAMED_HEADING = phrase("paper_heading")
_REFERENCES = phrase("references_heading")
_PARTED_WORD = re.compile(rf"\b(\w+)(?:{PARTED}|-\n)(\w+)")


class Line(NamedTuple):
    """One printed line."""

    text: str
    height: float
    """Height of its first letter, in points."""
    top: float
    """Distance of its top from the lower edge of the page."""
    left: float
    """Distance from the left edge."""
    parts: int = 1
    """Number of pieces that gaps part: a row of a table has several."""


class _Measures(NamedTuple):
    """Usual measures of the lines of one print."""

    height: float
    gap: float
    chars: float
    numbered: frozenset[float] = frozenset()
    """Heights of numbered headings, where a print has several of them."""


def pages_to_markdown(
    pages: Sequence[Sequence[Line]], *, outline: Iterable[str] = ()
) -> str:
    """Return the running text of a print.

    Args:
        pages: Lines of each page, in the order of reading.
        outline: Headings that the file names itself.
    """
    if not any(pages):
        return ""
    usual = _measures(pages)
    lines = [
        line
        for page in _without_running_lines(pages, usual)
        for line in _without_notes(page, usual)
        if not _PATTERNS["contents_line"].search(line.text[-200:])
        and _letter_frac(line.text) >= _MIN_LINE_LETTERS
    ]
    outline_keys = frozenset(_key(title) for title in outline)
    numbered = _numbered_heights(lines, usual)
    usual = usual._replace(numbered=numbered)
    blocks = _blocks(lines, usual, outline_keys)
    body = _without_references(blocks)
    text = "\n\n".join(block for block in body if _is_text(block))
    return without_ligatures(_whole_words(text))


def _without_running_lines(
    pages: Sequence[Sequence[Line]], usual: _Measures
) -> list[list[Line]]:
    """Drop lines that come back at the edges of pages; a title is taller and stays."""
    tallest = _HEADING_SCALE * usual.height
    edges: list[set[Line]] = []
    repeats: Counter[str] = Counter()
    for page in pages:
        ordered = sorted(page, key=lambda line: line.top)
        outermost = (*ordered[:_EDGE_LINES], *ordered[-_EDGE_LINES:])
        edge = {line for line in outermost if line.height < tallest}
        edges.append(edge)
        keys = {_key(line.text) for line in edge}
        repeats.update(keys)
    least = 2 if len(pages) <= _SHORT_PRINT_PAGES else 3

    def is_running(line: Line) -> bool:
        if _is_page_number(line.text):
            return True
        return repeats[_key(line.text)] >= least

    bodies: list[list[Line]] = []
    for page, edge in zip(pages, edges, strict=True):
        running = {line for line in edge if is_running(line)}
        body = [line for line in page if line not in running]
        bodies.append(body)
    return bodies


def _is_page_number(text: str) -> bool:
    if len(text) > _MAX_PAGE_NUMBER_CHARS:
        return False
    return _PATTERNS["page_number"].fullmatch(text) is not None


def _without_notes(page: Sequence[Line], usual: _Measures) -> Iterator[Line]:
    """Drop the notes below the text: small lines from the first that begins with a mark."""
    in_notes = False
    for line in page:
        is_small = line.height < _NOTE_SCALE * usual.height
        in_notes = is_small and (in_notes or line.text.startswith(NOTE))
        if not in_notes:
            yield line._replace(text=line.text.removeprefix(NOTE))


def _key(text: str) -> str:
    """Return a running line without what changes from page to page: numbers and case."""
    without_numbers = re.sub(r"\d+|\b[ivxlc]+\b", "#", text.casefold())
    return " ".join(without_numbers.split())


def _measures(pages: Sequence[Sequence[Line]]) -> _Measures:
    lines = [line for page in pages for line in page]
    heights: Counter[float] = Counter()
    for line in lines:
        heights[round(line.height * 2) / 2] += len(line.text)
    height, _ = heights.most_common(1)[0]
    drops = (above.top - below.top for page in pages for above, below in pairwise(page))
    gaps = [gap for gap in drops if 0 < gap < 4 * height]
    chars = median(len(line.text) for line in lines)
    return _Measures(height, median(gaps or [height]), chars)


def _blocks(
    lines: Sequence[Line],
    usual: _Measures,
    outline_keys: frozenset[str],
) -> list[str]:
    """Return headings, list items and paragraphs; a paragraph keeps its lines."""
    blocks: list[list[str]] = []
    before: Line | None = None
    heading_height = 0.0
    is_open = False  # whether the last block is a paragraph that may go on
    is_numbered = False  # whether a numbered heading came: the title stands before it
    tallest = 0.0  # height of the tallest heading so far
    for line, after in zip_longest(lines, lines[1:]):
        bullet = _PATTERNS["bullet"].match(line.text)
        is_heading = _is_heading(line, before, usual, outline_keys)
        is_heading = is_heading and not _goes_on(line, after, usual)
        tallest = max(tallest, line.height) if is_heading else tallest
        is_numbered = is_numbered or (is_heading and line.height in usual.numbered)
        is_title = not is_numbered and line.height >= tallest
        is_label = is_heading and not is_title and _is_label(line, usual, outline_keys)
        is_heading = is_heading and not is_label
        is_close = before and 0 < before.top - line.top <= 2.0 * line.height
        if is_heading and is_close and heading_height == line.height:
            blocks[-1][0] += f" {line.text}"
        elif is_heading:
            blocks.append([f"## {line.text}"])
        elif is_label or line.parts >= _TABLE_PARTS:
            blocks.append([f"| {line.text} |"])
        else:
            text = f"- {line.text[bullet.end() :]}" if bullet else line.text
            if is_open and before and not bullet and not _begins(line, before, usual):
                blocks[-1].append(text)
            else:
                blocks.append([text])
        is_open = not (is_heading or is_label) and line.parts < _TABLE_PARTS
        heading_height = line.height if is_heading else 0.0
        before = line
    return ["\n".join(block) for block in blocks]


def _is_heading(
    line: Line,
    before: Line | None,
    usual: _Measures,
    outline_keys: frozenset[str],
) -> bool:
    text = line.text
    if _is_row(line) or len(text) > _MAX_HEADING_CHARS:
        return False
    if sum(map(str.isalpha, text)) < _MIN_LETTERS:
        return False
    is_tall = line.height >= _HEADING_SCALE * usual.height
    is_listed = bool(outline_keys) and _key(text) in outline_keys
    if is_tall or is_listed or _NAMED_HEADING.fullmatch(text):
        return True
    if before is not None:
        is_close = 0 < _gap(before, line, usual) <= _PARAGRAPH_GAP * usual.gap
        if is_close:
            return False
    return _PATTERNS["numbered_heading"].match(text) is not None


def _numbered_heights(lines: Sequence[Line], usual: _Measures) -> frozenset[float]:
    """Return the heights of numbered headings that are taller than text, if there are enough."""
    heights = [
        line.height
        for line in lines
        if line.height >= _HEADING_SCALE * usual.height
        and _PATTERNS["numbered_heading"].match(line.text)
    ]
    if len(heights) < _MIN_NUMBERED:
        return frozenset()
    return frozenset(heights)


def _is_label(
    line: Line,
    usual: _Measures,
    outline_keys: frozenset[str],
) -> bool:
    """Tell the large print of a figure from a heading, in a print that numbers its headings."""
    is_short = len(line.text.split()) <= _MOST_LABEL_WORDS
    is_tall = line.height >= _HEADING_SCALE * usual.height
    if not (usual.numbered and is_tall and is_short):
        return False
    if any(abs(line.height - height) <= _SAME_HEIGHT for height in usual.numbered):
        return False
    if _key(line.text) in outline_keys:
        return False
    if _NAMED_HEADING.fullmatch(line.text):
        return False
    is_chapter = line.height >= _CHAPTER_SCALE * max(usual.numbered)
    is_worded = _letter_frac(line.text) >= _MIN_TITLE_LETTERS
    return not (is_chapter and is_worded)


def _goes_on(line: Line, after: Line | None, usual: _Measures) -> bool:
    """Tell a numbered point of a list, whose sentence goes on in the next line."""
    if after is None:
        return False
    if not _PATTERNS["numbered_heading"].match(line.text):
        return False
    is_close = 0 < _gap(line, after, usual) <= _PARAGRAPH_GAP * usual.gap
    is_alike = abs(line.height - usual.height) <= _SAME_HEIGHT
    if not is_close or not is_alike:
        return False
    if after.text[:1].islower():
        return True
    return len(line.text) >= usual.chars


def _is_row(line: Line) -> bool:
    """Tell the row of a table; after the number of a heading there may be a gap."""
    first = line.text.partition(" ")[0]
    is_numbered = line.parts == 2 and any(map(str.isdigit, first))  # noqa: PLR2004 - number, title
    return line.parts > 1 and not is_numbered


def _begins(line: Line, before: Line, usual: _Measures) -> bool:
    """Tell whether a line begins a paragraph."""
    gap = _gap(before, line, usual)
    has_ended = _PATTERNS["sentence_end"].search(before.text) is not None
    if gap <= 0:  # the next column or page
        return has_ended and not line.text[:1].islower()
    if gap > _PARAGRAPH_GAP * usual.gap:
        return True
    is_indented = line.left > before.left + 0.8 * usual.height
    if not has_ended:
        return False
    return is_indented or len(before.text) < 0.75 * usual.chars


def _gap(above: Line, below: Line, usual: _Measures) -> float:
    """Return the distance of two lines; a line with parted words stands for several."""
    return above.top - below.top - above.text.count(PARTED) * usual.gap


def _without_references(blocks: Sequence[str]) -> Iterator[str]:
    """Drop the list of references with its heading."""
    in_references = False
    for place, block in enumerate(blocks):
        if block.startswith("## "):
            match = _REFERENCES.fullmatch(block.removeprefix("## "))
            in_references = match is not None and place > len(blocks) // 2
        if not in_references:
            yield block


def _is_text(block: str) -> bool:
    """Tell text from the numbers and single letters of a figure."""
    letters = sum(map(str.isalpha, block))
    if letters < _MIN_LETTERS:
        return False
    return _letter_frac(block) >= _MIN_LETTER_FRAC


def _letter_frac(text: str) -> float:
    characters = "".join(text.split())
    letters = sum(map(str.isalpha, characters))
    return letters / max(1, len(characters))


def _whole_words(text: str) -> str:
    """Join the halves of parted words; a hyphen stays where the print has it elsewhere."""
    without_parted = _PARTED_WORD.sub(" ", text).lower()
    seen = Counter(_PATTERNS["word"].findall(without_parted))

    def whole(parts: re.Match[str]) -> str:
        first = parts[1]
        second = parts[2]
        are_capitals = first.isupper() and second.isupper()
        hyphenated = f"{first}-{second}"
        joined = f"{first}{second}"
        begins_name = second[:1].isupper() and not are_capitals
        if begins_name or first[-1:].isdigit():
            return hyphenated
        apart = seen[hyphenated.lower()]
        together = seen[joined.lower()]
        if apart > together:
            return hyphenated
        if together:
            return joined
        are_words = seen[first.lower()] and seen[second.lower()]
        last_part = first.rpartition("-")[2].lower()
        if are_words or _names_compound(last_part, second.lower(), seen):
            return hyphenated
        return joined

    return _PARTED_WORD.sub(whole, text).replace(PARTED, "-")


def _names_compound(
    first: str,
    second: str,
    seen: Counter[str],
) -> bool:
    """Tell "long-term" from "gravi-tational" by words that usually make compounds."""
    if second in _COMPOUND_ENDS:
        return first not in _PREFIXES and len(first) >= _MIN_LETTERS
    return first in _COMPOUND_STARTS and bool(seen[second])
