"""The column of weights in a table: numbers that are all written one way."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rubric_core.errors import RubricFileError
from rubric_core.formats.columns import Header, shortened
from rubric_core.formats.draft import Points
from rubric_core.formats.options import ImportOptions
from rubric_core.formats.pitfalls import is_avoidance
from rubric_core.formats.spreadsheets import Cell
from rubric_core.formats.totals import is_sum

_NUMBER = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*(%?)")
_COMMA_NUMBER = re.compile(r"([+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+))\s*(%?)")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}\s*%?")
"""A number that is a thousand times larger where commas are the decimal marks."""


@dataclass
class WeightColumn:
    """The numbers of a column of weights, read row by row."""

    path: Path
    header: Header
    options: ImportOptions
    comma_decimals: bool
    percents: set[bool] = field(default_factory=set[bool])
    """Whether weights have a percent sign, of all weights so far."""
    weights: list[float] = field(default_factory=list[float])

    def read(self, cells: Sequence[Cell], number: int) -> float | None:
        """Return a row's number, None where the cell is blank.

        Raises:
            RubricFileError: no number, or one that is written another way than those before.
        """
        value = self.header.cell(cells, "weight")
        if value == "":
            return None
        is_percent = False
        if isinstance(value, str):
            pattern = _COMMA_NUMBER if self.comma_decimals else _NUMBER
            match = pattern.fullmatch(value)
            if match is None:
                raise self._error(number, self._no_number(value, number))
            if self.comma_decimals and _THOUSANDS.fullmatch(value):
                raise self._error(
                    number,
                    f"the weight of row {number} is {value!r}, in which the point may be one of "
                    "thousands or a decimal one: write it without, or with a decimal comma",
                )
            value = float(match[1].replace(",", "."))
            is_percent = bool(match[2])
        self.percents.add(is_percent)
        if not math.isfinite(value):
            raise self._error(number, f"the weight of row {number} is {value!r}")
        if len(self.percents) > 1:
            raise self._error(
                number,
                f"the weight of row {number} is {value:g}{'%' if is_percent else ''}, and "
                "others in the column are written the other way: write all with a percent "
                "sign or none",
            )
        return value

    def weighted(self, points: Points, weight: float, number: int) -> Points:
        """Return a criterion with its weight, which counts as one of the column from now on.

        Raises:
            RubricFileError: a negative one, whose criterion may be a fault or its avoidance.
        """
        avoidance = False
        if weight < 0:
            is_met = is_avoidance(points.text, self.options.pitfalls)
            if is_met is None:
                raise self._error(
                    number,
                    f"the weight of row {number} is {weight:g}, and its criterion says what "
                    "is not done, which may be a fault or its avoidance: say `--pitfalls "
                    "worded` (by the verb), `failure` (a fault) or `avoidance` (a good "
                    "answer does it), or write a weight ≥ 0 and what a good answer does",
                )
            avoidance = is_met
        self.weights.append(weight)
        return replace(points, points=weight, avoidance=avoidance)

    def adds_up(self, weight: float, above: Sequence[Points]) -> bool:
        """Return whether a weight without a criterion is the sum of those above it.

        Args:
            weight: the number.
            above: the criteria of its question.
        """
        own = [points.points for points in above]
        return is_sum(weight, own) or is_sum(weight, self.weights)

    def _no_number(self, value: str, number: int) -> str:
        (column,) = self.header.columns["weight"]
        problem = (
            f"the weight of row {number} is {shortened(value)!r}, which is no number: write "
            f"one, or say which column is the weight, by `--column weight=NAME` in place of "
            f"{column.shown}"
        )
        if _COMMA_NUMBER.fullmatch(value):
            problem += (
                "; a decimal comma is read only where semicolons separate the cells"
            )
        return problem

    def _error(self, number: int, problem: str) -> RubricFileError:
        return RubricFileError(problem, path=self.path, line=number)
