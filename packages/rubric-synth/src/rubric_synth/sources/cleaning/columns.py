"""Pieces of printed lines in the order of reading, by their places on the page.

A program may draw a page of two columns line by line across the gutter. Columns of prose differ
from the columns of a table in that their lines go on from one to the next, in lower case.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from rubric_synth.sources.cleaning.pages import Line

_MIN_ROWS = 3
_MIN_WORDS = 3
_CELL_WORDS = 3
_MIN_CONTINUED = 0.4
_MOST_CROSSING = 0.25
_SAME_ROW = 0.9


class Piece(NamedTuple):
    """Part of a printed line that a gap parts from the text beside it."""

    text: str
    height: float
    top: float
    left: float
    right: float
    joins: bool
    """Whether it is on the line of the piece before."""


_Row = list[Piece]


def reading_order(pieces: Sequence[Piece]) -> list[Line]:
    """Return the lines of a page, one column below the other where there are columns of prose."""
    return list(_ordered(_rows(pieces)))


def _rows(pieces: Sequence[Piece]) -> list[_Row]:
    rows: list[_Row] = []
    for piece in pieces:
        if rows and (piece.joins or _is_beside(rows[-1][-1], piece)):
            rows[-1].append(piece)
        else:
            rows.append([piece])
    return rows


def _is_beside(last: Piece, piece: Piece) -> bool:
    """Tell whether a piece stands to the right of another, on its line."""
    height = min(last.height, piece.height)
    is_level = abs(last.top - piece.top) < _SAME_ROW * height
    return is_level and last.right <= piece.left


def _ordered(rows: Sequence[_Row]) -> Iterator[Line]:
    gutter = _gutter(rows)
    if gutter is None:
        yield from map(_line_of, rows)
        return
    left: list[_Row] = []
    right: list[_Row] = []
    for row in rows:
        if any(piece.left < gutter < piece.right for piece in row):
            yield from _ordered(left)
            yield from _ordered(right)
            left = []
            right = []
            yield from _ordered([row])
            continue
        left_pieces = [piece for piece in row if piece.right <= gutter]
        if left_pieces:
            left.append(left_pieces)
        right_pieces = [piece for piece in row if piece.left >= gutter]
        if right_pieces:
            right.append(right_pieces)
    yield from _ordered(left)
    yield from _ordered(right)


def _line_of(row: _Row) -> Line:
    """Join the pieces of a line; those of the row of a table are parted by bars."""
    first = row[0]
    texts = [piece.text for piece in row if piece.text]
    text = " ".join(texts)
    parts = min(2, len(texts))
    if len(texts) > 2:  # noqa: PLR2004 - a line may have a gap
        words = median(len(text.split()) for text in texts)
        if words <= _CELL_WORDS:
            text = " | ".join(texts)
            parts = len(texts)
    return Line(text, first.height, first.top, first.left, parts)


def _gutter(rows: Sequence[_Row]) -> float | None:
    """Return the place of a gutter between two columns of prose that share their lines."""
    gaps = [(left.right, right.left) for row in rows for left, right in pairwise(row)]
    if len(gaps) < _MIN_ROWS:
        return None
    middles = {(start + end) / 2 for start, end in gaps}
    ends = {end for _, end in gaps}

    def gaps_at(place: float) -> int:
        return sum(start <= place <= end for start, end in gaps)

    place = max(sorted(middles | ends), key=gaps_at)
    split_rows = [row for row in rows if _has_gap_at(row, place)]
    if len(split_rows) < _MIN_ROWS:
        return None
    top = max(row[0].top for row in split_rows)
    bottom = min(row[0].top for row in split_rows)
    crossing = 0
    for row in rows:
        if bottom <= row[0].top <= top:
            crossing += any(piece.left < place < piece.right for piece in row)
    if crossing > _MOST_CROSSING * len(split_rows):
        return None
    left_lines: list[str] = []
    right_lines: list[str] = []
    for row in split_rows:
        left = [piece.text for piece in row if piece.right <= place]
        right = [piece.text for piece in row if piece.left >= place]
        left_lines.append(" ".join(left))
        right_lines.append(" ".join(right))
    if _is_prose(left_lines) and _is_prose(right_lines):
        return place
    return None


def _has_gap_at(row: _Row, place: float) -> bool:
    return any(left.right <= place <= right.left for left, right in pairwise(row))


def _is_prose(lines: Sequence[str]) -> bool:
    words = median(len(line.split()) for line in lines)
    continued = sum(line[:1].islower() for line in lines)
    if words < _MIN_WORDS:
        return False
    return continued >= _MIN_CONTINUED * len(lines)


__all__ = ["Piece", "reading_order"]
