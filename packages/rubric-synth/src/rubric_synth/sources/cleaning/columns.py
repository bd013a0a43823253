"""Pieces of printed lines in the order of reading, by their places on the page.

A program may draw a page of two columns line by line across the gutter. Columns of prose differ
from the columns of a table in that their lines go on from one to the next, in lower case.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from rubric_synth.sources.cleaning.pages import Line

_MIN_ROWS: Final = 3
_MIN_WORDS: Final = 3
_CELL_WORDS: Final = 3
_MIN_CONTINUED: Final = 0.4
_MOST_CROSSING: Final = 0.25
_SAME_ROW: Final = 0.9


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
        last = rows[-1][-1] if rows else None
        is_beside = (
            last is not None
            and abs(last.top - piece.top) < _SAME_ROW * min(last.height, piece.height)
            and last.right <= piece.left
        )
        if rows and (piece.joins or is_beside):
            rows[-1].append(piece)
        else:
            rows.append([piece])
    return rows


def _ordered(rows: Sequence[_Row]) -> Iterator[Line]:
    gutter = _gutter(rows)
    if gutter is None:
        for row in rows:
            first = row[0]
            texts = [piece.text for piece in row if piece.text]
            is_row = (
                len(texts) > 2  # noqa: PLR2004 - a line may have a gap
                and median(len(text.split()) for text in texts) <= _CELL_WORDS
            )
            parts = len(texts) if is_row else min(2, len(texts))
            text = " | ".join(texts) if is_row else " ".join(texts)
            yield Line(text, first.height, first.top, first.left, parts)
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
        if left_pieces := [piece for piece in row if piece.right <= gutter]:
            left.append(left_pieces)
        if right_pieces := [piece for piece in row if piece.left >= gutter]:
            right.append(right_pieces)
    yield from _ordered(left)
    yield from _ordered(right)


def _gutter(rows: Sequence[_Row]) -> float | None:
    """Return the place of a gutter between two columns of prose that share their lines."""
    gaps: list[tuple[float, float]] = []
    for row in rows:
        gaps.extend((left.right, right.left) for left, right in pairwise(row))
    if len(gaps) < _MIN_ROWS:
        return None
    middles = {(start + end) / 2 for start, end in gaps}
    ends = {end for _, end in gaps}

    def gaps_at(place: float) -> int:
        return sum(start <= place <= end for start, end in gaps)

    place = max(sorted(middles | ends), key=gaps_at)
    parted = [row for row in rows if _has_gap_at(row, place)]
    if len(parted) < _MIN_ROWS:
        return None
    top = max(row[0].top for row in parted)
    bottom = min(row[0].top for row in parted)
    crossing = 0
    for row in rows:
        if bottom <= row[0].top <= top:
            crossing += any(piece.left < place < piece.right for piece in row)
    if crossing > _MOST_CROSSING * len(parted):
        return None
    left_lines: list[str] = []
    right_lines: list[str] = []
    for row in parted:
        left_lines.append(" ".join(piece.text for piece in row if piece.right <= place))
        right_lines.append(" ".join(piece.text for piece in row if piece.left >= place))
    return place if _is_prose(left_lines) and _is_prose(right_lines) else None


def _has_gap_at(row: _Row, place: float) -> bool:
    return any(left.right <= place <= right.left for left, right in pairwise(row))


def _is_prose(lines: Sequence[str]) -> bool:
    words = median(len(line.split()) for line in lines)
    continued = sum(line[:1].islower() for line in lines)
    return words >= _MIN_WORDS and continued >= _MIN_CONTINUED * len(lines)


__all__ = ["Piece", "reading_order"]
