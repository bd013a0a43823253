"""A page of a PDF, character by character as PDFium sees it, as pieces of printed lines.

A piece ends where the line does, and where a gap parts it from the text beside it. Raised and
lowered text is written as plain characters. A character that its font gives no Unicode for stands
as a code of that font until `Fonts` has seen all pages: only then can the character be known.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from ctypes import addressof, c_double, create_string_buffer
from importlib import import_module
from itertools import pairwise
from math import hypot
from typing import Any, NamedTuple

from rubric_core.rewriting import patterns
from rubric_synth.sources.cleaning.scripts import lowered, raised
from rubric_synth.tables import read_table

UNKNOWN = "\ufffd"
"""Replacement for a character that cannot be known."""
NOTE = "\x03"
"""Mark at the beginning of a note below the text."""
_HYPHEN = "\x02"
_TABLE = read_table("fonts")
_NAMES = patterns(_TABLE["names"])


_CODES: dict[str, dict[int, str]] = {
    name: {int(code, 16): text for code, text in row.items()}
    for name, row in _TABLE["codes"].items()
}
_ASCII_OF_OT1 = frozenset(_CODES["OT1_ascii"])
_FIRST_PRIVATE = 0xF0000
_MOST_FONTS = 255
_SMALL = 0.88  # share of the height of the line
_RAISED = 0.12
_LOWERED = 0.05
_SAME_HEIGHT = 0.01
_SAME_LINE = 0.6
_SPACE = 0.15
_MAY_STAND_HIGH = re.compile(r"[\w+−*†‡§¶∗′,.()/\[\]∞°–-]")
_WIDE_GAP = 0.9
_MOST_SCRIPT_CHARS = 12
_MOST_MARK_CHARS = 3

Piece = tuple[str, float, float, float, float, bool]
"""Text, height of letters, top, left, right, and whether it is on the line of the piece before."""


class Fonts:
    """The fonts of a document, and the characters that their codes without Unicode stand for."""

    def __init__(self) -> None:
        """Begin without a font."""
        self._numbers: dict[int, int] = {}
        self._names: list[str] = []
        self._codes: list[Counter[int]] = []

    def private(
        self,
        textpage: Any,
        index: int,
        code: int,
    ) -> str:
        """Return a private character that stands for a code of a font until all pages are seen."""
        pdfium: Any = import_module("pypdfium2.raw")

        text_object: Any = pdfium.FPDFText_GetTextObject(textpage, index)
        font: Any = None
        if text_object:
            font = pdfium.FPDFTextObj_GetFont(text_object)
        key = addressof(font.contents) if font else 0
        if key not in self._numbers:
            if len(self._names) == _MOST_FONTS:
                return UNKNOWN
            self._numbers[key] = len(self._names)
            self._names.append(_font_name(pdfium, font) if font else "")
            self._codes.append(Counter())
        number = self._numbers[key]
        self._codes[number][code] += 1
        return chr(_FIRST_PRIVATE + 256 * number + code)

    def table(self) -> dict[int, str]:
        """Return the text for each private character, `UNKNOWN` where it cannot be known."""
        table: dict[int, str] = {}
        for number, codes in enumerate(self._codes):
            name = self._names[number]
            encoding = _encoding(name, frozenset(codes))
            # A sign of mathematics is not a letter of the word that it stands beside.
            unknown = f" {UNKNOWN} " if _NAMES["symbols"].search(name) else UNKNOWN
            for code in codes:
                default = chr(code) if code in _ASCII_OF_OT1 else unknown
                private = _FIRST_PRIVATE + 256 * number + code
                table[private] = encoding.get(code, default)
        return table


def _font_name(pdfium: Any, font: Any) -> str:
    size = pdfium.FPDFFont_GetBaseFontName(font, None, 0)
    buffer = create_string_buffer(max(1, size))
    pdfium.FPDFFont_GetBaseFontName(font, buffer, size)
    return buffer.value.decode(errors="replace").rpartition("+")[2]


def _encoding(name: str, codes: frozenset[int]) -> Mapping[int, str]:
    """Return the text for each code of a font; empty where no encoding fits."""
    unmapped = codes - _ASCII_OF_OT1
    ot1 = {**_CODES["OT1"], **_CODES["OT1_ascii"]}
    by_name = {
        "T1": _CODES["T1"],
        "OT1": {**_CODES["OT1_accented"], **ot1},
        "extension": _CODES["extension"],
        "symbols": {},
    }
    for kind, encoding in by_name.items():
        if _NAMES[kind].search(name):
            return encoding
    if not unmapped:
        return {}
    upper = _CODES["cp1252"] if name else _CODES["bullet"]
    for encoding in (ot1, _CODES["T1"], upper):
        if unmapped <= encoding.keys():
            return encoding
    return {}


class _Char(NamedTuple):
    text: str
    left: float
    right: float
    top: float
    bottom: float
    size: float
    """Size of its font, as printed."""
    base: float
    """Height of the line that it is written on."""


def pieces(textpage: Any, fonts: Fonts) -> list[Piece]:
    """Return the pieces of a page's lines, in the order in which they were drawn."""
    lines = list(_lines(textpage, fonts))
    scripts = list(map(_scripts, lines))
    marks = {mark for mark in map(_leading_mark, lines, scripts) if mark is not None}
    return [
        piece
        for line, kinds in zip(lines, scripts, strict=True)
        for piece in _line_pieces(line, kinds, marks)
    ]


def _lines(textpage: Any, fonts: Fonts) -> Iterator[list[_Char]]:
    line: list[_Char] = []
    has_ended = False
    for char in _chars(textpage, fonts):
        if char is None:
            has_ended = True
            continue
        last = _last_visible(line) if has_ended else None
        if last is not None:
            if not _goes_on(last, char):
                yield line
                line = []
            elif char.left - last.right > _SPACE * last.size:
                line.append(last._replace(text=" ", left=last.right))
        line.append(char)
        has_ended = False
    if line:
        yield line


def _last_visible(line: list[_Char]) -> _Char | None:
    for char in reversed(line):
        if not char.text.isspace():
            return char
    return None


def _goes_on(last: _Char, char: _Char) -> bool:
    """Tell a new line from a raised or lowered character, for which PDFium begins one too."""
    is_level = abs(char.base - last.base) < _SAME_LINE * max(last.size, char.size)
    is_behind = char.left > last.right - _SPACE * last.size
    return is_level and is_behind and last.text != _HYPHEN


def _chars(textpage: Any, fonts: Fonts) -> Iterator[_Char | None]:
    """Yield the characters of a page, None where PDFium ends a line."""
    pdfium: Any = import_module("pypdfium2.raw")  # the library of this process alone
    last: _Char | None = None
    for index in range(textpage.count_chars()):
        code = pdfium.FPDFText_GetUnicode(textpage, index)
        if code in {0x0A, 0x0D} and pdfium.FPDFText_IsGenerated(textpage, index) == 1:
            yield None
            continue
        text = _text_of(textpage, index, code, fonts)
        if not text:
            continue
        left, bottom, right, top = textpage.get_charbox(index, loose=True)
        is_space = text.isspace()
        is_alike = is_space
        if last is not None and not is_space:
            growth = last.top - last.bottom - top + bottom
            is_alike = abs(growth) < _SAME_HEIGHT
        if last is not None and is_alike:
            size = last.size
            base = bottom + last.base - last.bottom
        else:
            size, base = _measured(pdfium, textpage, index)
        char = _Char(text, left, right, top, bottom, size, base)
        if not is_space:
            last = char
        yield char


def _measured(
    pdfium: Any,
    textpage: Any,
    index: int,
) -> tuple[float, float]:
    """Return the size of a character's font as printed, and the height of its line."""
    left = c_double()
    base = c_double()
    pdfium.FPDFText_GetCharOrigin(textpage, index, left, base)
    identity = (1, 0, 0, 1, 0, 0)
    matrix = pdfium.FS_MATRIX(*identity)
    pdfium.FPDFText_GetMatrix(textpage, index, matrix)
    scale = hypot(matrix.c, matrix.d)
    size = scale * pdfium.FPDFText_GetFontSize(textpage, index)
    return size, base.value


def _text_of(
    textpage: Any,
    index: int,
    code: int,
    fonts: Fonts,
) -> str:
    """Return the text of a character, "" for an invisible one."""
    if code == 0:
        return ""
    if code == ord(_HYPHEN):
        pdfium: Any = import_module("pypdfium2.raw")
        if pdfium.FPDFText_IsHyphen(textpage, index) == 1:
            return _HYPHEN
    is_control = code < 0x20 or 0x7F <= code < 0xA0  # noqa: PLR2004 - bounds of ASCII and Latin-1
    if is_control or code in _ASCII_OF_OT1:
        return fonts.private(textpage, index, code)
    return chr(code)


def _scripts(line: list[_Char]) -> list[int]:
    """Return for each character whether it is raised (1), lowered (-1) or neither (0)."""
    weights = Counter[float]()
    for char in line:
        weights[round(char.size, 1)] += not char.text.isspace()
    full = max(weights, key=lambda size: (weights[size] * size, size), default=0.0)
    kinds: list[int] = []
    base = next((char.base for char in line if char.size >= _SMALL * full), 0.0)
    for char in line:
        shift = char.base - base
        kind = 0
        if char.text.isspace():
            kind = kinds[-1] if kinds else 0
        elif char.size >= _SMALL * full:
            base = char.base
        elif _MAY_STAND_HIGH.match(char.text):
            if shift > _RAISED * full:
                kind = 1
            elif shift < -_LOWERED * full:
                kind = -1
        kinds.append(kind)
    return kinds


def _leading_mark(line: list[_Char], kinds: list[int]) -> str | None:
    """Return the raised mark that a line begins with."""
    end = next((place for place, kind in enumerate(kinds) if kind != 1), len(kinds))
    mark = "".join(char.text for char in line[:end]).strip()
    if mark and end < len(line) and len(mark) <= _MOST_MARK_CHARS:
        return mark
    return None


def _line_pieces(
    line: list[_Char],
    kinds: list[int],
    marks: set[str],
) -> Iterator[Piece]:
    visible = [place for place, char in enumerate(line) if not char.text.isspace()]
    bounds = visible[:1]
    for before, place in pairwise(visible):
        gap = line[place].left - line[before].right
        if gap > _WIDE_GAP * line[place].size:
            bounds.append(place)
    bounds.append(len(line))
    for start, following in pairwise(bounds):
        end = max(place for place in visible if place < following)
        text, *places = _piece(line, kinds, marks, start, end)
        joins = start != visible[0]
        if not joins and _leading_mark(line, kinds) is not None:
            text = NOTE + text
        height, top, left, right = places
        yield text, height, top, left, right, joins


def _piece(
    line: list[_Char],
    kinds: list[int],
    marks: set[str],
    start: int,
    end: int,
) -> tuple[str, float, float, float, float]:
    text = ""
    place = start
    while place <= end:
        stop = place
        while stop <= end and kinds[stop] == kinds[place]:
            stop += 1
        run = "".join(char.text for char in line[place:stop])
        next_chars = line[stop : min(stop + 3, end + 1)]
        after = "".join(char.text for char in next_chars)
        text = _with(text, run, after, kinds[place], marks)
        place = stop
    full: list[_Char] = []
    for place in range(start, end + 1):
        char = line[place]
        if kinds[place] == 0 and not char.text.isspace():
            full.append(char)
    full = full or [line[start]]
    # The height of most letters: the first letter may have another font.
    heights = Counter(round(char.top - char.bottom, 1) for char in full)
    height = heights.most_common(1)[0][0]
    left = line[start].left
    right = line[end].right
    top = full[0].top
    places = (round(top, 1), round(left, 1), round(right, 1))
    return text.strip(), height, *places


def _with(
    before: str,
    run: str,
    after: str,
    kind: int,
    marks: set[str],
) -> str:
    """Return the text of a piece with one more run of characters at its end."""
    bare = run.strip()
    if not kind or not bare or len(bare) > _MOST_SCRIPT_CHARS:
        return before + run
    space = " " if run[-1:].isspace() else ""
    base = before.rstrip()
    after = space or after
    if kind < 0:
        return base + lowered(base, bare, after=after) + space
    if bare in marks and not base.endswith("10"):
        return base + space
    gap = before[len(base) :]
    script = raised(base, bare, after=after, gap=gap)
    return base + script + space


__all__ = ["NOTE", "UNKNOWN", "Fonts", "Piece", "pieces"]
