"""Tables in a terminal: all commands print theirs here.

A column has the width of its longest cell where the terminal is wide enough. Where it is not,
headers are broken between words, then texts, then figures; names are broken after their marks
(`_`, `/`, `-`), and inside a word only where nothing else fits.
"""

import re
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from rubric_judge.ui.page.tables import Table

Printed = str | Text
"""A cell: words as they are, or with a style."""

_GAPS = (2, 1)
"""Blanks between two columns: 1 where words would have to be broken otherwise."""
_LEAST = 7
"""Width that a column keeps, however narrow the terminal."""
_FIGURE = re.compile(r"[+−-]?[$<~±]?\d.*|[–-]|", re.DOTALL)
"""Matches cells of figures; a column of them is aligned on the right."""
_SENTENCE = re.compile(r"[a-z]{3,} [a-z]{3,} [a-z]{2,}", re.IGNORECASE)
_PIECE = re.compile(r"[^_/.:@,=-]*[_/.:@,=-]+|[^_/.:@,=-]+")
"""Matches the pieces of a name, each with the marks after it."""


def print_cells(
    stdout: Console,
    title: str,
    header: Sequence[str],
    rows: Iterable[Sequence[Printed]],
    *,
    is_ruled: bool = False,
) -> None:
    """Print a table, its title above it and an empty line below.

    Args:
        stdout: where to print it; its width is that of the table at most.
        title: left out where it is empty.
        header: left out where all of it is empty.
        rows: cells of each row; without any, nothing is printed.
        is_ruled: whether a line stands between two rows.
    """
    cells = [list(row) for row in rows]
    if not cells:
        return
    columns = [list(column) for column in zip(*cells, strict=True)]
    are_figures = [_are_figures(column) for column in columns]
    widths, gap = _widths(header, columns, are_figures, stdout.width)
    table = RichTable(
        box=SIMPLE_HEAD, pad_edge=False, show_edge=False, show_header=any(header)
    )
    table.padding = (0, gap - 1, 0, 0)  # the box has a blank between two columns
    table.show_lines = is_ruled
    for name, width, is_figure in zip(header, widths, are_figures, strict=True):
        table.add_column(
            "\n".join(_lines(name, width)),
            justify="right" if is_figure else "left",
            width=width,
            overflow="fold",
        )
    for row in cells:
        table.add_row(*map(_wrapped, row, widths))
    if title:
        stdout.print(title, style="italic")
    stdout.print(table)
    stdout.print()


def print_table(stdout: Console, table: Table) -> None:
    """Print a table as its page writes it; without rows nothing is printed."""
    print_cells(stdout, table.title, table.header, table.texts)


def _wrapped(cell: Printed, width: int) -> Printed:
    if isinstance(cell, Text):
        return cell
    return "\n".join(_lines(cell, width))


def _are_figures(column: Sequence[Printed]) -> bool:
    """Tell whether all cells of a column begin like figures, and none is a sentence."""
    texts = [str(cell) for cell in column]
    if not any(any(char.isdigit() for char in text) for text in texts):
        return False
    return all(_FIGURE.fullmatch(text) and not _SENTENCE.search(text) for text in texts)


def _widths(
    header: Sequence[str],
    columns: Sequence[Sequence[Printed]],
    are_figures: Sequence[bool],
    terminal: int,
) -> tuple[list[int], int]:
    """Return the width of each column, and the blanks between two of them."""
    whole = [max(map(_longest_line, column)) for column in columns]
    wanted = list(map(max, whole, map(len, header)))
    between = len(columns) - 1
    if sum(wanted) <= terminal - _GAPS[0] * between:
        return wanted, _GAPS[0]
    words = [max(map(_longest_word, column)) for column in columns]
    heads = list(map(_longest_word, header))
    pieces = [max(map(_longest_piece, column)) for column in columns]
    # What may be broken, step by step: headers; texts between words; figures; names at marks.
    steps = (
        list(map(max, whole, heads)),
        [
            max(whole[at] if is_figure else words[at], heads[at])
            for at, is_figure in enumerate(are_figures)
        ],
        [
            max(whole[at] if is_figure else pieces[at], heads[at])
            for at, is_figure in enumerate(are_figures)
        ],
        list(map(max, pieces, heads)),
    )
    for gap in _GAPS:
        available = terminal - gap * between
        for broken in steps:
            least = list(map(min, broken, wanted))
            if sum(least) <= available:
                return _filled(least, wanted, available), gap
    gap = _GAPS[-1]
    available = terminal - gap * between
    least = [min(_LEAST, width) for width in wanted]
    if sum(least) <= available:
        return _filled(least, wanted, available), gap
    return least, gap


def _filled(least: list[int], wanted: Sequence[int], available: int) -> list[int]:
    """Share out what is left, one column after the other, the narrowest first."""
    widths = least
    for _ in range(available - sum(widths)):
        narrow = [at for at, width in enumerate(widths) if width < wanted[at]]
        if not narrow:
            break
        widths[min(narrow, key=widths.__getitem__)] += 1
    return widths


def _lines(text: str, width: int) -> list[str]:
    """Break a text between words, a long word after its marks, and else where it must."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        if len(paragraph) <= width:
            lines.append(paragraph)
            continue
        words = paragraph.lstrip(" ")
        line = paragraph[: len(paragraph) - len(words)]
        for word in words.split(" "):
            joined = f"{line} {word}" if line.strip() else f"{line}{word}"
            if len(joined) <= width:
                line = joined
                continue
            if line.strip():
                lines.append(line)
            line = ""
            for piece in _PIECE.findall(word):
                if len(line) + len(piece) > width and line:
                    lines.append(line)
                    line = ""
                line += piece
                while len(line) > width:
                    lines.append(line[:width])
                    line = line[width:]
        lines.append(line)
    return lines


def _longest_line(cell: Printed) -> int:
    return max(map(len, str(cell).split("\n")))


def _longest_word(cell: Printed) -> int:
    return max(map(len, str(cell).split()), default=0)


def _longest_piece(cell: Printed) -> int:
    return max(map(len, _PIECE.findall(str(cell).replace(" ", "_"))), default=0)
