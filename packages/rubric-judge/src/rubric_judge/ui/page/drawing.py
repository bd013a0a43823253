"""Charts as SVG that take colours and type from their page."""

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from statistics import fmean
from typing import Literal

from markupsafe import Markup

from rubric_judge.ui.page.charts import (
    SMOOTHED_STEPS,
    Chart,
    Distribution,
    Series,
    nice_step,
)

Width = Literal["wide", "narrow"]
"""The width of a desktop, or that of a phone and of paper."""

_SIZES = {
    ("lead", "wide"): (1080, 300),
    ("lead", "narrow"): (350, 230),
    ("small", "wide"): (520, 210),
    ("small", "narrow"): (350, 190),
}
LEFT = 44
RIGHT = 12
TOP = 12
BOTTOM = 26
"""Margins around the axes, in units of the drawing."""
_LEVELS = 4
_MOST_POINTS = 400
"""Most points drawn of one line: more cannot be told apart."""
_MARKED_POINTS = 12
"""Lines with at most this many points show each of them."""
_CHARACTER = 7.0
"""Width of a digit of a label."""
_LABEL_ROOM = 46
_GAP = 1.5
"""Gap between bars."""
_Pair = tuple[float, float]


def svg(chart: Chart | Distribution, *, width: Width) -> Markup:
    """Draw a chart; the element has no colours, type or ids of its own."""
    if isinstance(chart, Chart):
        size = _SIZES[chart.size, width]
        drawing = _Curves(chart, size)
    else:
        size = _SIZES["small", width]
        drawing = _Bars(chart, size)
    parts = Markup().join(drawing.parts())
    return Markup('<svg viewBox="0 0 {} {}">{}</svg>').format(*size, parts)


def readings(chart: Chart) -> dict[str, object]:
    """Return what a pointer over a chart can ask for: values, positions, and where they lead."""
    low, high = chart.ends
    base, peak = _Axes(_SIZES[chart.size, "wide"], chart.ends, chart.extent).span
    series = [
        {
            "label": line.label,
            "role": line.role,
            "steps": list(line.steps),
            "values": [float(f"{value:.5g}") for value in line.values],
            **({"layer": True} if line.style == "layer" else {}),
            **({"link": line.link} if line.link else {}),
        }
        for line in chart.series
    ]
    return {
        "left": LEFT,
        "right": RIGHT,
        "top": TOP,
        "bottom": BOTTOM,
        "low": low,
        "high": high,
        "base": base,
        "peak": peak,
        "share": chart.is_share,
        "series": series,
    }


class _Axes:
    """A scale in each direction, with hairlines at its levels and a rule at the foot."""

    def __init__(
        self, size: _Pair, ends: _Pair, extent: _Pair, *, whole: bool = False
    ) -> None:
        """Span from a level at or below the least value to one at or above the greatest."""
        across, tall = size
        low, high = extent
        self.foot = tall - BOTTOM
        self.right = across - RIGHT
        self._ends = ends
        factors = (1, 2, 5, 10) if whole else (1, 2, 2.5, 5, 10)
        self._step = nice_step((high - low) / _LEVELS, factors)
        if whole:
            self._step = max(self._step, 1.0)
        self._base = self._step * math.floor(low / self._step + 1e-9)
        self._top = self._step * math.ceil(high / self._step - 1e-9)

    @property
    def span(self) -> tuple[float, float]:
        """Values at the foot and at the top."""
        return self._base, self._top

    def levels(self, *, is_share: bool = False) -> Iterator[Markup]:
        count = round((self._top - self._base) / self._step) + 1
        for number in range(count):
            level = self._base + number * self._step
            y = self.y(level)
            kind = "level" if number else "foot"
            yield _rule(LEFT, y, self.right, y, kind)
            label = _written(level, is_share=is_share)
            yield _text(LEFT - 6, y + 3.5, label, "end")

    def x(self, value: float) -> float:
        low, high = self._ends
        return LEFT + (self.right - LEFT) * (value - low) / (high - low)

    def y(self, value: float) -> float:
        inside = min(max(value, self._base), self._top)
        share = (inside - self._base) / (self._top - self._base)
        return self.foot - (self.foot - TOP) * share


class _Curves:
    def __init__(self, chart: Chart, size: _Pair) -> None:
        self._chart = chart
        self._axes = _Axes(size, chart.ends, chart.extent)
        self._ticks = 8 if size[0] > _SIZES["small", "wide"][0] else 5

    def parts(self) -> Iterator[Markup]:
        yield from self._axes.levels(is_share=self._chart.is_share)
        yield from self._steps()
        layers = [line for line in self._chart.series if line.style == "layer"]
        yield from self._stack(layers)
        for series in self._chart.series:
            if series.style != "layer":
                yield from self._curve(series)

    def _steps(self) -> Iterator[Markup]:
        low, high = self._chart.ends
        nice = nice_step((high - low) / self._ticks, (1, 2, 5, 10))
        apart = max(1, round(nice))
        first = math.ceil(low / apart) * apart
        for step in range(first, math.floor(high) + 1, apart):
            yield _text(self._axes.x(step), self._axes.foot + 17, f"{step:,}", "middle")

    def _stack(self, layers: Sequence[Series]) -> Iterator[Markup]:
        if not layers:
            return
        steps = layers[0].steps
        columns = zip(*(layer.values for layer in layers), strict=True)
        tops = [
            list(accumulate(map(_or_zero, column), initial=0.0)) for column in columns
        ]
        at = _thinned(len(steps))
        xs = [self._axes.x(steps[i]) for i in at]
        if len(xs) == 1:  # a layer without width would be invisible
            at = at * 2
            xs = [xs[0] - 24, xs[0] + 24]
        for number, series in enumerate(layers):
            above: list[tuple[float, float]] = []
            below: list[tuple[float, float]] = []
            for x, i in zip(xs, at, strict=True):
                above.append((x, self._axes.y(tops[i][number + 1])))
                below.append((x, self._axes.y(tops[i][number])))
            yield _shape("polygon", "layer", series.role, [*above, *reversed(below)])

    def _curve(self, series: Series) -> Iterator[Markup]:
        positions = _thinned(len(series.steps))
        groups = groupby(positions, lambda i: _is_drawn(series, i))
        for is_drawn, run in groups:
            if is_drawn:
                positions_of_run = list(run)
                yield from self._lines(series, positions_of_run)
                yield from self._marks(series, positions_of_run)

    def _lines(self, series: Series, run: list[int]) -> Iterator[Markup]:
        """Draw the band and the lines of one run of finite values."""
        kind = "curve dashed" if series.is_dashed else "curve"
        if series.style == "dots":
            kind = "link"
        if series.spread:
            above = [self._place(series, i, series.spread[i]) for i in run]
            below = [self._place(series, i, -series.spread[i]) for i in run]
            yield _shape("polygon", "band", series.role, [*above, *reversed(below)])
        if len(run) == 1:
            return
        if series.is_smoothed:
            smooth = [
                self._place(series, i, _mean_around(series, i) - series.values[i])
                for i in run
            ]
            yield _shape("polyline", f"{kind} smooth", series.role, smooth)
            kind = f"{kind} raw"
        places = [self._place(series, i) for i in run]
        yield _shape("polyline", kind, series.role, places)

    def _marks(self, series: Series, run: list[int]) -> Iterator[Markup]:
        """Draw the dots of one run of finite values, and the ring."""
        is_sparse = len(run) == 1 or len(series.steps) <= _MARKED_POINTS
        if series.style == "dots" or is_sparse:
            for i in run:
                yield self._dot(series, i)
        if series.style == "dots":
            for i in run:
                if series.steps[i] == self._chart.ringed:
                    yield self._ring(series, i)

    def _ring(self, series: Series, i: int) -> Markup:
        ring = '<circle class="ring" style="--mark:var(--{})" cx="{:.1f}" cy="{:.1f}" r="7"/>'
        return Markup(ring).format(series.role, *self._place(series, i))  # noqa: S704  # ours

    def _dot(self, series: Series, i: int) -> Markup:
        x, y = self._place(series, i)
        value = series.values[i]
        radius = 3.6 if series.style == "dots" else 2.4
        text = f"{100 * value:.1f} %" if self._chart.is_share else f"{value:.3f}"
        return Markup(
            '<circle class="dot" style="--mark:var(--{})" cx="{:.1f}" cy="{:.1f}" r="{}">'
            "<title>{}, step {:,}: {}</title></circle>"
        ).format(series.role, x, y, radius, series.label, series.steps[i], text)

    def _place(
        self, series: Series, i: int, beside: float = 0.0
    ) -> tuple[float, float]:
        return self._axes.x(series.steps[i]), self._axes.y(series.values[i] + beside)


class _Bars:
    def __init__(self, chart: Distribution, size: _Pair) -> None:
        self._chart = chart
        ends = (chart.edges[0], chart.edges[-1])
        extent = (0.0, max(*chart.counts, 1))
        self._axes = _Axes(size, ends, extent, whole=True)

    def parts(self) -> Iterator[Markup]:
        yield from self._axes.levels()
        chart = self._chart
        axes = self._axes
        for index, count in enumerate(chart.counts):
            left = axes.x(chart.edges[index])
            right = axes.x(chart.edges[index + 1])
            bar = Markup(
                '<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
                "<title>{}: {:,} {}</title></rect>"
            ).format(
                left + _GAP / 2, axes.y(count), max(right - left - _GAP, 0.5),
                axes.foot - axes.y(count), self._range(index), count, chart.noun[count != 1],
            )  # fmt: skip
            if chart.links and count:
                label = f"{self._range(index)}: {count:,} {chart.noun[count != 1]}"
                link = Markup('<a href="{}" aria-label="{}">{}</a>')
                bar = link.format(chart.links[index], label, bar)
            yield bar
        yield from self._labels()
        if chart.marked is not None:
            yield from self._median(chart.marked)

    def _labels(self) -> Iterator[Markup]:
        """Label whole numbers below their bars, and all other values at the edges."""
        chart = self._chart
        axes = self._axes
        shift = 0.0
        places = chart.edges
        if chart.is_whole:
            shift = (chart.edges[1] - chart.edges[0]) / 2
            places = chart.edges[:-1]
        every = max(1, math.ceil(len(places) * _LABEL_ROOM / (axes.right - LEFT)))
        tail = f"{self._label(chart.edges[-2])}+" if chart.has_tail else ""
        for place in places[::every]:
            # The tail is labelled at its end; a label that would touch that one is left out.
            label = self._label(place)
            x = axes.x(place + shift)
            end = x + (len(label) / 2 + 1 + len(tail)) * _CHARACTER
            if not tail or end < axes.right:
                yield _text(x, axes.foot + 17, label, "middle")
        if tail:
            yield _text(axes.right, axes.foot + 17, tail, "end")

    def _median(self, median: float) -> Iterator[Markup]:
        axes = self._axes
        edges = self._chart.edges
        centre = median + 0.5 if self._chart.is_whole else median
        x = axes.x(min(max(centre, edges[0]), edges[-1]))
        yield _rule(x, TOP - 8, x, axes.foot, "median")
        if x > LEFT + 0.7 * (axes.right - LEFT):
            yield _text(x - 5, TOP - 3, "median", "end")
        else:
            yield _text(x + 5, TOP - 3, "median", "start")

    def _range(self, index: int) -> str:
        chart = self._chart
        low = self._label(self._chart.edges[index])
        if chart.has_tail and index == len(chart.counts) - 1:
            return f"{low} and more"
        if chart.is_whole:
            return low
        return f"{low} to {self._label(chart.edges[index + 1])}"

    def _label(self, value: float) -> str:
        return _written(value, is_share=self._chart.is_share)


def _is_drawn(series: Series, i: int) -> bool:
    if not math.isfinite(series.values[i]):
        return False
    return not series.spread or math.isfinite(series.spread[i])


def _mean_around(series: Series, i: int) -> float:
    """Return the mean of the finite values in a window around a finite value."""
    reach = max(1, len(series.values) // SMOOTHED_STEPS)
    window = filter(math.isfinite, series.values[max(0, i - reach) : i + reach + 1])
    return fmean(window)


def _or_zero(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _thinned(count: int) -> list[int]:
    """Return evenly spaced positions, including both ends."""
    if count <= _MOST_POINTS:
        return list(range(count))
    return [round(i * (count - 1) / (_MOST_POINTS - 1)) for i in range(_MOST_POINTS)]


def _written(value: float, *, is_share: bool) -> str:
    if is_share:
        return f"{100 * value:.4g} %".replace("-", "−")
    is_long = abs(value) >= 1000  # noqa: PLR2004  # four digits
    text = f"{value:,.0f}" if is_long else f"{value:.4g}"
    return text.replace("-", "−")


def _shape(
    tag: str, kind: str, role: str, places: Sequence[tuple[float, float]]
) -> Markup:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    shape = f'<{tag} class="{kind}" style="--mark:var(--{{}})" points="{{}}"/>'
    return Markup(shape).format(role, points)  # noqa: S704  # ours


def _rule(x: float, y: float, to_x: float, to_y: float, kind: str) -> Markup:
    line = '<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>'
    return Markup(line).format(kind, x, y, to_x, to_y)  # noqa: S704  # ours


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, text
    )
