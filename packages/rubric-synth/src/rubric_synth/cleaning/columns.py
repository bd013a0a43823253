"""Pieces of printed lines in the order of reading, by where they stand on the page.

A program may draw a page of two columns line by line across the gutter. What parts columns of prose
from the columns of a table: their lines go on from one to the next, in lower case.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from rubric_synth.cleaning.pages import Line

_MIN_ROWS: Final = 3
_MIN_WORDS: Final = 3
_CELL_WORDS: Final = 3
_MIN_CONTINUED: Final = 0.4
_MOST_CROSSING: Final = 0.25
_SAME_ROW: Final = 0.9


class Piece(NamedTuple):
    """Part of a printed line that a gap parts from what stands beside it."""

    text: str
    height: float
    top: float
    left: float
    right: float
    joins: bool
    """Whether it stands on the line of the piece before."""


_Row = list[Piece]


def reading_order(pieces: Sequence[Piece]) -> list[Line]:
    """Return the lines of a page, a column below the other where there are columns of prose."""
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
            shown = " | ".join(texts) if is_row else " ".join(texts)
            yield Line(shown, first.height, first.top, first.left, parts)
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
        for side, column in (
            ([piece for piece in row if piece.right <= gutter], left),
            ([piece for piece in row if piece.left >= gutter], right),
        ):
            if side:
                column.append(side)
    yield from _ordered(left)
    yield from _ordered(right)


def _gutter(rows: Sequence[_Row]) -> float | None:
    """Return where a gutter lies between two columns of prose that share their lines."""
    gaps = [(one.right, two.left) for row in rows for one, two in pairwise(row)]
    if len(gaps) < _MIN_ROWS:
        return None
    places = sorted(
        {(start + end) / 2 for start, end in gaps} | {end for _, end in gaps}
    )
    place = max(places, key=lambda x: sum(start <= x <= end for start, end in gaps))
    parted = [
        row for row in rows if any(a.right <= place <= b.left for a, b in pairwise(row))
    ]
    if len(parted) < _MIN_ROWS:
        return None
    top = max(row[0].top for row in parted)
    bottom = min(row[0].top for row in parted)
    crossing = sum(
        any(piece.left < place < piece.right for piece in row)
        for row in rows
        if bottom <= row[0].top <= top
    )
    sides = (
        [
            " ".join(piece.text for piece in row if piece.right <= place)
            for row in parted
        ],
        [
            " ".join(piece.text for piece in row if piece.left >= place)
            for row in parted
        ],
    )
    is_gutter = crossing <= _MOST_CROSSING * len(parted) and all(map(_is_prose, sides))
    return place if is_gutter else None


def _is_prose(lines: Sequence[str]) -> bool:
    words = median(len(line.split()) for line in lines)
    continued = sum(line[:1].islower() for line in lines)
    return words >= _MIN_WORDS and continued >= _MIN_CONTINUED * len(lines)


__all__ = ["Piece", "reading_order"]
