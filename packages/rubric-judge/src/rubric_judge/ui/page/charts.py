"""Curves, stacks, bars and histograms to draw, each with the samples that its points lead to."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

SMOOTHED_STEPS = 20
"""Lines with this many steps are also drawn smooth: the mean of a window of a tenth of them."""


@dataclass(frozen=True)
class Series:
    """One line, row of dots or layer of a stack."""

    label: str
    role: str
    """A colour of the page: `main`, `other`, or `c1` … `c8` for parts of a whole."""
    steps: tuple[int, ...]
    values: tuple[float, ...]
    """Values at the steps; a value that is not finite is a gap."""
    style: Literal["line", "dots", "layer"] = "line"
    spread: tuple[float, ...] = ()
    """Half height of a band around the line."""
    link: str = ""
    """Address that a point leads to, with `AT_STEP` for its step; empty where it leads nowhere."""

    @property
    def is_dashed(self) -> bool:
        """Lines of the later colours are dashed, for readers who see few colours."""
        return self.style == "line" and self.role in {"c5", "c6", "c7", "c8"}

    @property
    def is_smoothed(self) -> bool:
        """Whether it is drawn smooth, with the line itself faint behind."""
        return self.style == "line" and len(self.steps) >= SMOOTHED_STEPS


@dataclass(frozen=True)
class Chart:
    """Series over steps, from zero up; the series make its legend."""

    key: str
    title: str
    caption: str
    series: tuple[Series, ...]
    size: Literal["lead", "small"] = "small"
    ceiling: float | None = None
    """Upper end of the axis, if the quantity has one."""
    is_share: bool = False
    """Whether the axis is in per cent."""
    ringed: int | None = None
    """Step of the dot that is ringed."""
    quantity: str = ""
    """Quantity that other charts of the page show too: `on_one_scale` gives all of them the same
    vertical axis."""
    limits: tuple[float, float] | None = None
    """Ends of what the vertical axis has to hold; its own values unless given."""

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the horizontal axis: the steps drawn, with a margin."""
        steps = [step for series in self.series for step in series.steps]
        first = min(steps)
        last = max(steps)
        margin = 0.02 * (last - first) if last > first else 0.4
        return first - margin, last + margin

    @property
    def extent(self) -> tuple[float, float]:
        """Zero, or the lowest value below it, and the highest value; never equal."""
        if self.limits is not None:
            return self.limits
        drawn: list[float] = []
        for line in self.series:
            if line.style != "layer":
                drawn += line.values
            for value, spread in zip(line.values, line.spread, strict=False):
                drawn.append(value + spread)
        layers = [line.values for line in self.series if line.style == "layer"]
        for column in zip(*layers, strict=True):
            drawn.append(sum(filter(math.isfinite, column)))
        finite = [0.0, *filter(math.isfinite, drawn)]
        low = min(finite)
        high = max(finite)
        if self.ceiling is not None:
            high = min(high, self.ceiling)
        if high > low:
            return low, high
        return low, low + (0.01 if self.is_share else 1.0)


def on_one_scale(charts: Iterable[Chart]) -> tuple[Chart, ...]:
    """Give charts of one quantity the same vertical axis, which holds the values of all of them."""
    charts = tuple(charts)
    extents: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for chart in charts:
        extents[chart.quantity].append(chart.extent)
    scaled: list[Chart] = []
    for chart in charts:
        limits = chart.limits
        if chart.quantity:
            lows, highs = zip(*extents[chart.quantity], strict=True)
            limits = min(lows), max(highs)
        scaled.append(replace(chart, limits=limits))
    return tuple(scaled)


@dataclass(frozen=True)
class Bar:
    """One bar with its name."""

    name: str
    shown: str
    """The value as text."""
    share: float
    """Length of the bar, in [0, 1]."""
    note: str = ""
    role: str = "main"
    low: float | None = None
    high: float | None = None
    """Upper end of the interval; `low` is the other."""
    link: str = ""
    """Address that its name leads to."""


Share = tuple[str, tuple[float | None, float | None, float | None], str]
"""A name, the share with the ends of its interval, and a note."""


@dataclass(frozen=True)
class Bars:
    """Bars below each other, on one scale."""

    title: str
    caption: str
    bars: tuple[Bar, ...]
    left: str = ""
    """Note of what is left out."""

    @classmethod
    def of_shares(
        cls, title: str, caption: str, shares: Iterable[Share], *, role: str
    ) -> Self:
        """Draw the shares that are known, in percent."""
        bars: list[Bar] = []
        for name, (share, low, high), note in shares:
            if share is not None:
                text = f"{100 * share:.1f} %"
                bars.append(Bar(name, text, share, note, role, low, high))
        return cls(title, caption, tuple(bars))

    def linked(self, links: Mapping[str, str]) -> Self:
        """Return the bars with the addresses that they lead to, by their names."""
        bars = (replace(bar, link=links.get(bar.name, bar.link)) for bar in self.bars)
        return replace(self, bars=tuple(bars))


@dataclass(frozen=True)
class Distribution:
    """A histogram and its numbers."""

    title: str
    caption: str
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    """Counts from each edge up to the next."""
    noun: tuple[str, str]
    """Singular and plural noun of what is counted."""
    numbers: tuple[tuple[str, str], ...] = ()
    """Numbers below the drawing, with their names."""
    marked: float | None = None
    """Place of the median."""
    is_share: bool = False
    has_tail: bool = False
    """Whether the last count includes all values above its lower edge."""
    is_whole: bool = False
    """Whether each count is that of one whole number."""
    links: tuple[str, ...] = ()
    """Address that each bar leads to; none where they lead nowhere."""


def nice_step(step: float, factors: Sequence[float]) -> float:
    """Round up to the next product of one of the factors and a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(
        factor * power for factor in factors if factor * power >= step * (1 - 1e-9)
    )
