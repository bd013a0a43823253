"""Charts as SVG whose colours and type are the page's own: curves, stacks and histograms."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from statistics import fmean
from typing import Final, Literal, Self, TypeAlias

from markupsafe import Markup

Width = Literal["wide", "narrow"]
"""Of a desk, or of a phone and of paper."""

_SIZES: Final = {
    ("lead", "wide"): (1080, 300),
    ("lead", "narrow"): (350, 230),
    ("small", "wide"): (520, 210),
    ("small", "narrow"): (350, 190),
}
LEFT = 44
RIGHT = 12
TOP = 12
BOTTOM = 26
"""Room around the axes, in units of the drawing."""
_LEVELS: Final = 4
_MOST_POINTS: Final = 400
"""Of one line: more cannot be told apart."""
_MARKED_POINTS: Final = 12
"""Lines of so few points show each one."""
_SMOOTHED_STEPS: Final = 20
"""Lines of so many steps are drawn smooth too: the mean of a window of about a tenth of them."""
_LABEL_ROOM: Final = 46
_GAP: Final = 1.5
"""Between bars."""
_Pair: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """One line, row of dots or layer of a stack."""

    label: str
    role: str
    """A colour of the page: `main`, `other`, or `c1` … `c8` for parts of a whole."""
    steps: tuple[int, ...]
    values: tuple[float, ...]
    """What is not finite is a gap."""
    style: Literal["line", "dots", "layer"] = "line"
    spread: tuple[float, ...] = ()
    """Half height of a band around the line."""

    @property
    def is_dashed(self) -> bool:
        """Lines of the later colours are dashed, for readers who see few colours."""
        return self.style == "line" and self.role in {"c5", "c6", "c7", "c8"}

    @property
    def is_smoothed(self) -> bool:
        """Whether it is drawn smooth, with the line itself faint behind."""
        return self.style == "line" and len(self.steps) >= _SMOOTHED_STEPS


@dataclass(frozen=True)
class Chart:
    """Series over steps, from zero up; its legend is made of the series."""

    key: str
    title: str
    caption: str
    series: tuple[Series, ...]
    size: Literal["lead", "small"] = "small"
    ceiling: float | None = None
    """Upper end of the axis where the quantity has one."""
    is_share: bool = False
    """Whether the axis is in per cent."""
    ringed: int | None = None
    """Step of the dot that is ringed."""

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the horizontal axis: the steps drawn, and a little room."""
        steps = [step for series in self.series for step in series.steps]
        first = min(steps)
        last = max(steps)
        margin = 0.02 * (last - first) if last > first else 0.4
        return first - margin, last + margin

    def readings(self) -> dict[str, object]:
        """What a pointer over the chart can ask for: the values, and where the steps lie."""
        low, high = self.ends
        series = [
            {
                "label": one.label,
                "role": one.role,
                "steps": list(one.steps),
                "values": [float(f"{value:.5g}") for value in one.values],
            }
            for one in self.series
        ]
        place = {"left": LEFT, "right": RIGHT, "low": low, "high": high}
        return {**place, "share": self.is_share, "series": series}


@dataclass(frozen=True)
class Bar:
    """One bar with its name."""

    name: str
    shown: str
    """The value in words."""
    share: float
    """Length, in [0, 1]."""
    note: str = ""
    role: str = "main"
    low: float | None = None
    high: float | None = None
    """Ends of its interval."""


Share: TypeAlias = tuple[str, tuple[float | None, float | None, float | None], str]
"""A name, the share with the ends of its interval, and a note."""


@dataclass(frozen=True)
class Bars:
    """Bars under each other, on one scale."""

    title: str
    caption: str
    bars: tuple[Bar, ...]
    left: str = ""
    """What is not shown."""

    @classmethod
    def of_shares(
        cls, title: str, caption: str, shares: Iterable[Share], *, role: str
    ) -> Self:
        """Draw those shares that are known, in percent."""
        bars = (
            Bar(name, f"{100 * share:.1f} %", share, note, role, low, high)
            for name, (share, low, high), note in shares
            if share is not None
        )
        return cls(title, caption, tuple(bars))


@dataclass(frozen=True)
class Distribution:
    """A histogram and its numbers."""

    title: str
    caption: str
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    """From each edge up to the next."""
    noun: tuple[str, str]
    """Of what is counted: of one, and of more."""
    numbers: tuple[tuple[str, str], ...] = ()
    """Beneath the drawing, by name."""
    marked: float | None = None
    """Where the median is."""
    is_share: bool = False
    has_tail: bool = False
    """Whether the last count holds all that lies above its lower edge."""
    is_whole: bool = False
    """Whether each count is of one whole number."""


def svg(chart: Chart | Distribution, *, width: Width) -> Markup:
    """Draw a chart; the element has no colours, type or ids of its own."""
    size = _SIZES[chart.size if isinstance(chart, Chart) else "small", width]
    drawn = _Curves(chart, size) if isinstance(chart, Chart) else _Bars(chart, size)
    parts = Markup().join(drawn.parts())
    return Markup('<svg viewBox="0 0 {} {}">{}</svg>').format(*size, parts)


class _Axes:
    """A scale in each direction, hairlines at its levels, and a rule at the foot."""

    def __init__(
        self, size: _Pair, ends: _Pair, extent: _Pair, *, whole: bool = False
    ) -> None:
        """Reach from a level below the least value to one above the greatest."""
        (across, tall), (low, high) = size, extent
        self.foot = tall - BOTTOM
        self.right = across - RIGHT
        self._ends = ends
        self._step = nice_step(
            (high - low) / _LEVELS, (1, 2, 5, 10) if whole else (1, 2, 2.5, 5, 10)
        )
        self._step = max(self._step, 1.0) if whole else self._step
        self._base = self._step * math.floor(low / self._step + 1e-9)
        self._top = self._step * math.ceil(high / self._step - 1e-9)

    def levels(self, *, is_share: bool = False) -> Iterator[Markup]:
        for number in range(round((self._top - self._base) / self._step) + 1):
            level = self._base + number * self._step
            yield _rule(
                LEFT,
                self.y(level),
                self.right,
                self.y(level),
                "level" if number else "foot",
            )
            yield _text(
                LEFT - 6, self.y(level) + 3.5, _written(level, is_share=is_share), "end"
            )

    def x(self, value: float) -> float:
        low, high = self._ends
        return LEFT + (self.right - LEFT) * (value - low) / (high - low)

    def y(self, value: float) -> float:
        inside = min(max(value, self._base), self._top)
        return self.foot - (self.foot - TOP) * (inside - self._base) / (
            self._top - self._base
        )


class _Curves:
    def __init__(self, chart: Chart, size: _Pair) -> None:
        self._chart = chart
        self._axes = _Axes(size, chart.ends, self._extent())
        self._ticks = 8 if size[0] > _SIZES["small", "wide"][0] else 5

    def parts(self) -> Iterator[Markup]:
        yield from self._axes.levels(is_share=self._chart.is_share)
        yield from self._steps()
        yield from self._stack(
            [one for one in self._chart.series if one.style == "layer"]
        )
        for series in self._chart.series:
            if series.style != "layer":
                yield from self._curve(series)

    def _extent(self) -> tuple[float, float]:
        """From zero, or what is below it, to the highest value drawn; never empty."""
        series = self._chart.series
        drawn = [
            value for one in series if one.style != "layer" for value in one.values
        ]
        drawn += [
            v + s
            for one in series
            for v, s in zip(one.values, one.spread, strict=False)
        ]
        layers = [one.values for one in series if one.style == "layer"]
        drawn += [
            sum(filter(math.isfinite, column)) for column in zip(*layers, strict=True)
        ]
        finite = [0.0, *filter(math.isfinite, drawn)]
        low = min(finite)
        high = max(finite)
        if self._chart.ceiling is not None:
            high = min(high, self._chart.ceiling)
        return low, high if high > low else low + (
            0.01 if self._chart.is_share else 1.0
        )

    def _steps(self) -> Iterator[Markup]:
        low, high = self._chart.ends
        apart = max(1, round(nice_step((high - low) / self._ticks, (1, 2, 5, 10))))
        for step in range(math.ceil(low / apart) * apart, math.floor(high) + 1, apart):
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
        if len(xs) == 1:  # a layer without width would be unseen
            at = at * 2
            xs = [xs[0] - 24, xs[0] + 24]
        for number, series in enumerate(layers):
            above = [
                (x, self._axes.y(tops[i][number + 1]))
                for x, i in zip(xs, at, strict=True)
            ]
            below = [
                (x, self._axes.y(tops[i][number])) for x, i in zip(xs, at, strict=True)
            ]
            yield _shape("polygon", "layer", series.role, [*above, *reversed(below)])

    def _curve(self, one: Series) -> Iterator[Markup]:
        runs = [
            list(run)
            for is_drawn, run in groupby(
                _thinned(len(one.steps)), lambda i: _is_drawn(one, i)
            )
            if is_drawn
        ]
        kind = (
            "link"
            if one.style == "dots"
            else "curve dashed"
            if one.is_dashed
            else "curve"
        )
        for run in runs:
            if one.spread:
                above = [self._place(one, i, one.spread[i]) for i in run]
                below = [self._place(one, i, -one.spread[i]) for i in run]
                yield _shape("polygon", "band", one.role, [*above, *reversed(below)])
            if len(run) > 1 and one.is_smoothed:
                beside = [_mean_around(one, i) - one.values[i] for i in run]
                smooth = [
                    self._place(one, i, shift)
                    for i, shift in zip(run, beside, strict=True)
                ]
                yield _shape("polyline", f"{kind} smooth", one.role, smooth)
            if len(run) > 1:
                drawn = f"{kind} raw" if one.is_smoothed else kind
                yield _shape(
                    "polyline", drawn, one.role, [self._place(one, i) for i in run]
                )
            if one.style == "dots" or len(run) == 1 or len(one.steps) <= _MARKED_POINTS:
                yield from (self._dot(one, i) for i in run)
            ringed = [
                i
                for i in run
                if one.style == "dots" and one.steps[i] == self._chart.ringed
            ]
            yield from (self._ring(one, i) for i in ringed)

    def _ring(self, one: Series, i: int) -> Markup:
        ring = '<circle class="ring" style="--mark:var(--{})" cx="{:.1f}" cy="{:.1f}" r="7"/>'
        return Markup(ring).format(one.role, *self._place(one, i))  # noqa: S704  # ours

    def _dot(self, one: Series, i: int) -> Markup:
        (x, y), value = self._place(one, i), one.values[i]
        shown = f"{100 * value:.1f} %" if self._chart.is_share else f"{value:.3f}"
        return Markup(
            '<circle class="dot" style="--mark:var(--{})" cx="{:.1f}" cy="{:.1f}" r="{}">'
            "<title>{}, step {:,}: {}</title></circle>"
        ).format(
            one.role,
            x,
            y,
            3.6 if one.style == "dots" else 2.4,
            one.label,
            one.steps[i],
            shown,
        )

    def _place(self, one: Series, i: int, beside: float = 0.0) -> tuple[float, float]:
        return self._axes.x(one.steps[i]), self._axes.y(one.values[i] + beside)


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
            yield Markup(
                '<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
                "<title>{}: {:,} {}</title></rect>"
            ).format(
                left + _GAP / 2, axes.y(count), max(right - left - _GAP, 0.5),
                axes.foot - axes.y(count), self._range(index), count, chart.noun[count != 1],
            )  # fmt: skip
        yield from self._labels()
        if chart.marked is not None:
            yield from self._median(chart.marked)

    def _labels(self) -> Iterator[Markup]:
        """Label whole numbers under their bars, and all else at the edges."""
        chart = self._chart
        axes = self._axes
        middle = (chart.edges[1] - chart.edges[0]) / 2 if chart.is_whole else 0.0
        places = chart.edges[:-1] if chart.is_whole else chart.edges
        every = max(1, math.ceil(len(places) * _LABEL_ROOM / (axes.right - LEFT)))
        for place in places[::every]:
            # The tail is named at its end, and what would touch that name is left out.
            if not chart.has_tail or axes.x(place) < axes.right - _LABEL_ROOM:
                yield _text(
                    axes.x(place + middle), axes.foot + 17, self._label(place), "middle"
                )
        if chart.has_tail:
            yield _text(
                axes.right, axes.foot + 17, f"{self._label(chart.edges[-2])}+", "end"
            )

    def _median(self, median: float) -> Iterator[Markup]:
        axes = self._axes
        edges = self._chart.edges
        x = axes.x(min(max(median + 0.5 * self._chart.is_whole, edges[0]), edges[-1]))
        anchor = "end" if x > LEFT + 0.7 * (axes.right - LEFT) else "start"
        yield _rule(x, TOP - 8, x, axes.foot, "median")
        yield _text(x + (-5 if anchor == "end" else 5), TOP - 3, "median", anchor)

    def _range(self, index: int) -> str:
        chart = self._chart
        low = self._label(self._chart.edges[index])
        if chart.has_tail and index == len(chart.counts) - 1:
            return f"{low} and more"
        return (
            low if chart.is_whole else f"{low} to {self._label(chart.edges[index + 1])}"
        )

    def _label(self, value: float) -> str:
        return _written(value, is_share=self._chart.is_share)


def _is_drawn(one: Series, i: int) -> bool:
    return math.isfinite(one.values[i]) and (
        not one.spread or math.isfinite(one.spread[i])
    )


def _mean_around(one: Series, i: int) -> float:
    """Return the mean of the finite values in a window around a place, which is one of them."""
    reach = max(1, len(one.values) // _SMOOTHED_STEPS)
    window = filter(math.isfinite, one.values[max(0, i - reach) : i + reach + 1])
    return fmean(window)


def _or_zero(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _thinned(count: int) -> list[int]:
    """Return evenly spaced positions, the ends among them."""
    if count <= _MOST_POINTS:
        return list(range(count))
    return [round(i * (count - 1) / (_MOST_POINTS - 1)) for i in range(_MOST_POINTS)]


def _written(value: float, *, is_share: bool) -> str:
    if is_share:
        return f"{100 * value:.4g} %".replace("-", "−")
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}").replace("-", "−")  # noqa: PLR2004  # four digits


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


def nice_step(step: float, factors: Sequence[float]) -> float:
    """Round up to one of the factors times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(
        factor * power for factor in factors if factor * power >= step * (1 - 1e-9)
    )
