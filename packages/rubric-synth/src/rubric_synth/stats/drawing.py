"""Histograms as SVG whose colours and type are the page's own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from markupsafe import Markup, escape

from rubric_synth.stats.charts import counted

if TYPE_CHECKING:
    from rubric_synth.stats.charts import Distribution

_SIZES: Final = {"wide": (520, 190), "narrow": (340, 170)}
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 18, 18, 24
_GAP: Final = 1.5
_LEVELS: Final = 4
_TICK_ROOM: Final = 46
"""Room for one label, in units of the drawing."""


def svg(chart: Distribution, *, width: str) -> Markup:
    """Draw a histogram at the width of a desk or of a phone.

    Args:
        chart: Counts and labels.
        width: "wide" or "narrow".
    """
    across, high = _SIZES[width]
    drawing = _Drawing(chart, across, high)
    parts = [*drawing.levels(), *drawing.bars(), *drawing.ticks(), *drawing.mark()]
    return Markup('<svg viewBox="0 0 {} {}">{}</svg>').format(across, high, Markup().join(parts))


class _Drawing:
    def __init__(self, chart: Distribution, across: int, high: int) -> None:
        self._chart = chart
        self._edges = chart.histogram.edges
        self._foot = high - _BOTTOM
        self._width = across - _LEFT - _RIGHT
        self._step = _level_step(max(chart.histogram.counts))
        self._ceiling = self._step * max(1, math.ceil(max(chart.histogram.counts) / self._step))

    def levels(self) -> list[Markup]:
        parts: list[Markup] = []
        for number in range(round(self._ceiling / self._step) + 1):
            level = number * self._step
            y = self._y(level)
            parts.append(
                Markup('<line class="level" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
                    _LEFT, _LEFT + self._width, y, y
                )
            )
            parts.append(_text(_LEFT - 6, y + 3.5, f"{level:,.0f}", anchor="end"))
        return parts

    def bars(self) -> list[Markup]:
        histogram = self._chart.histogram
        parts: list[Markup] = []
        for index, count in enumerate(histogram.counts):
            left, right = self._x(self._edges[index]), self._x(self._edges[index + 1])
            y = self._y(count)
            label = f"{self._range(index)}: {counted(count, self._chart.unit)}"
            parts.append(
                Markup(
                    '<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
                    "<title>{}</title></rect>"
                ).format(
                    left + _GAP / 2,
                    y,
                    max(right - left - _GAP, 0.5),
                    max(self._foot - y, 0.0),
                    label,
                )
            )
        return parts

    def ticks(self) -> list[Markup]:
        """Label whole numbers under their bars, and all else at the edges."""
        histogram = self._chart.histogram
        middle = (self._edges[1] - self._edges[0]) / 2 if histogram.is_whole else 0.0
        places = self._edges[:-1] if histogram.is_whole else self._edges
        every = max(1, math.ceil(len(places) * _TICK_ROOM / self._width))
        shown = list(range(0, len(places), every))
        if histogram.has_tail:
            # The tail is named at its end, and what would touch that name is left out.
            shown = [i for i in shown if self._x(places[i]) < _LEFT + self._width - _TICK_ROOM]
        labels = [
            _text(self._x(places[i] + middle), self._foot + 16, self._label(places[i]))
            for i in shown
        ]
        if histogram.has_tail:
            tail = f"{self._label(self._edges[-2])}+"
            labels.append(_text(_LEFT + self._width, self._foot + 16, tail, anchor="end"))
        return labels

    def mark(self) -> list[Markup]:
        median = self._chart.marked
        if median is None:
            return []
        middle = 0.5 if self._chart.histogram.is_whole else 0.0
        x = self._x(min(max(median + middle, self._edges[0]), self._edges[-1]))
        anchor = "end" if x > _LEFT + 0.7 * self._width else "start"
        return [
            Markup('<line class="median" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>').format(
                x, x, _TOP - 8, self._foot
            ),
            _text(x + (-5 if anchor == "end" else 5), _TOP - 3, "median", anchor=anchor),
        ]

    def _range(self, index: int) -> str:
        histogram = self._chart.histogram
        low = self._label(self._edges[index])
        if histogram.has_tail and index == len(histogram.counts) - 1:
            return f"{low} and more"
        if histogram.is_whole:
            return low
        return f"{low} to {self._label(self._edges[index + 1])}"

    def _label(self, value: float) -> str:
        if self._chart.is_share:
            return f"{100 * value:.0f} %"
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"  # noqa: PLR2004

    def _x(self, value: float) -> float:
        low, high = self._edges[0], self._edges[-1]
        return _LEFT + self._width * (value - low) / (high - low)

    def _y(self, count: float) -> float:
        return self._foot - (self._foot - _TOP) * count / self._ceiling


def _text(x: float, y: float, text: str, *, anchor: str = "middle") -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, escape(text)
    )


def _level_step(highest: int) -> float:
    """Return 1, 2 or 5 times a power of ten, so that a few levels reach the highest count."""
    step = max(highest, 1) / _LEVELS
    power = 10.0 ** math.floor(math.log10(step))
    nice = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step)
    return max(nice, 1.0)
