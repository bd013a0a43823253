"""Charts as SVG that takes its colours and type from the page around it.

Every role is drawn in a stand-in colour, which is then replaced by the page's variable of that
name, so one drawing serves the light page, the dark page and the printed one.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

if TYPE_CHECKING:
    import numpy.typing as npt

    from rubric_train_openrlhf.report.charts import Chart, Series

_Axes: TypeAlias = Any
"""matplotlib's own stubs leave most of an axes object unknown."""

_ROLES = ("muted", "grid", "page", "train", "heldout", *(f"c{i}" for i in range(1, 9)))
_STAND_IN = {role: f"#{0xAB0000 + 17 * i:06x}" for i, role in enumerate(_ROLES)}

_SIZES = {
    ("lead", "wide"): (1080, 300),
    ("lead", "narrow"): (350, 230),
    ("small", "wide"): (520, 210),
    ("small", "narrow"): (350, 190),
}
LEFT, RIGHT = 44, 10
"""Room beside the axes, in units of the drawing."""
_POINTS_PER_INCH = 72  # the SVG backend draws in points, which the page shows as CSS pixels
_FONT = 11.0
_MARKED_STEPS = 12
"""Lines of so few steps show each one."""

_STYLE = {
    "svg.fonttype": "none",  # text stays text: the page's font, selectable, searchable
    "font.size": _FONT,
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.7,
    "lines.solid_capstyle": "round",
    "path.simplify": True,
}


def svg(chart: Chart, *, width: str) -> Markup:
    """Draw a chart at the width of a coordinator or of a phone.

    Args:
        chart: the series.
        width: "wide" or "narrow".

    Returns:
        An `<svg>` element without colours of its own; ids are unique to the chart and width.
    """
    pixels = _SIZES[chart.size, width]
    with cast("Any", mpl).rc_context({**_STYLE, "svg.hashsalt": f"{chart.key}-{width}"}):
        figure = Figure(figsize=(pixels[0] / _POINTS_PER_INCH, pixels[1] / _POINTS_PER_INCH))
        canvas = cast("Any", FigureCanvasSVG(figure))
        axes: _Axes = cast("Any", figure).add_axes((0, 0, 1, 1))
        _frame(axes, pixels)
        _plot(axes, chart)
        _scale(axes, chart, ticks=8 if (chart.size, width) == ("lead", "wide") else 5)
        buffer = io.BytesIO()
        canvas.print_svg(buffer, metadata={"Date": None, "Creator": None})
    return Markup(_themed(buffer.getvalue().decode(), prefix=f"{chart.key}-{width}-"))  # noqa: S704


def step_limits(chart: Chart) -> tuple[float, float]:
    """Ends of the horizontal axis: the steps drawn, and a little room."""
    steps = [step for series in chart.series for step in series.steps]
    first, last = min(steps), max(steps)
    margin = 0.02 * (last - first) if last > first else 0.4
    return first - margin, last + margin


def _frame(axes: _Axes, pixels: tuple[int, int]) -> None:
    """Leave room for the labels, one rule at the foot and hairlines at the ticks."""
    top, bottom = 8, 24
    axes.set_position(
        (
            LEFT / pixels[0],
            bottom / pixels[1],
            1 - (LEFT + RIGHT) / pixels[0],
            1 - (top + bottom) / pixels[1],
        )
    )
    axes.patch.set_visible(False)
    axes.figure.patch.set_visible(False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_STAND_IN["muted"])
    axes.grid(axis="y", color=_STAND_IN["grid"], linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=_STAND_IN["muted"], pad=6)
    axes.tick_params(axis="x", length=3)


def _plot(axes: _Axes, chart: Chart) -> None:
    layers = [series for series in chart.series if series.style == "layer"]
    if layers:
        _plot_stack(axes, layers)
    for series in chart.series:
        if series.style == "line":
            _plot_line(axes, series)
        elif series.style == "dots":
            _plot_dots(axes, series)
            if chart.size == "lead":
                _ring_best(axes, series)


def _plot_stack(axes: _Axes, layers: list[Series]) -> None:
    colors = [_STAND_IN[layer.role] for layer in layers]
    steps = layers[0].steps
    if len(steps) == 1:
        bottom = 0.0
        for layer, color in zip(layers, colors, strict=True):
            axes.bar(steps, _finite(layer.values), bottom=bottom, width=0.3, color=color, alpha=0.8)
            bottom += layer.values[0]
        return
    axes.stackplot(
        steps, *(_finite(layer.values) for layer in layers), colors=colors, alpha=0.8, linewidth=0
    )


def _plot_line(axes: _Axes, series: Series) -> None:
    color = _STAND_IN[series.role]
    values = _finite(series.values)
    if series.spread:
        spread = _finite(series.spread)
        axes.fill_between(
            series.steps,
            np.maximum(values - spread, 0),
            values + spread,
            color=color,
            alpha=0.12,
            linewidth=0,
        )
    axes.plot(
        series.steps,
        values,
        color=color,
        linestyle=(0, (4, 2)) if series.is_dashed else "-",
        marker="o" if len(series.steps) <= _MARKED_STEPS else "",
        markersize=7 if len(series.steps) == 1 else 3.5,
        markeredgewidth=0,
    )


def _plot_dots(axes: _Axes, series: Series) -> None:
    axes.plot(
        series.steps,
        _finite(series.values),
        color=_STAND_IN[series.role],
        marker="o",
        markersize=6.5,
        markeredgecolor=_STAND_IN["page"],
        markeredgewidth=1,
        clip_on=False,
        zorder=3,
    )


def _ring_best(axes: _Axes, series: Series) -> None:
    values = _finite(series.values)
    if np.isnan(values).all():
        return
    best = int(np.nanargmax(values))
    axes.plot(
        series.steps[best],
        values[best],
        marker="o",
        markersize=15,
        markerfacecolor="none",
        markeredgecolor=_STAND_IN["heldout"],
        markeredgewidth=1.4,
        clip_on=False,
        zorder=4,
    )


def _scale(axes: _Axes, chart: Chart, *, ticks: int) -> None:
    """Start at zero, so that heights compare, and name whole steps."""
    limits = step_limits(chart)
    steps = MaxNLocator(nbins=ticks, steps=[1, 2, 5, 10], integer=True).tick_values(*limits)
    axes.set_xticks([int(s) for s in steps if s == int(s) and limits[0] <= s <= limits[1]])
    axes.set_xlim(*limits)
    locator = MaxNLocator(nbins=4, steps=[1, 2, 2.5, 5, 10])
    levels = locator.tick_values(*_extent(chart))
    axes.set_yticks(levels)
    axes.set_ylim(levels[0], levels[-1])
    axes.yaxis.set_major_formatter(FuncFormatter(_share if chart.is_share else _quantity))


def _extent(chart: Chart) -> tuple[float, float]:
    """From zero, or what is below it, to the highest value drawn; never empty."""
    drawn = [_finite(series.values) for series in chart.series if series.style != "layer"]
    drawn += [
        _finite(series.values) + _finite(series.spread) for series in chart.series if series.spread
    ]
    layers = [_finite(series.values) for series in chart.series if series.style == "layer"]
    drawn += [np.sum(layers, axis=0)] if layers else []
    values = np.concatenate([*drawn, [0.0]])
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if chart.ceiling is not None:
        high = min(high, chart.ceiling)
    return low, high if high > low else low + (0.01 if chart.is_share else 1.0)


def _finite(values: tuple[float, ...]) -> npt.NDArray[np.float64]:
    """The values with a gap for what cannot be drawn."""
    array = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(array), array, np.nan)


def _quantity(value: float, _position: int) -> str:
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"  # noqa: PLR2004
    return text.replace("-", "−")


def _share(value: float, _position: int) -> str:
    return f"{100 * value:.4g} %"


def _themed(text: str, *, prefix: str) -> str:
    """Keep the element alone, name the colours, and make ids unique on the page."""
    element = text[text.index("<svg") :]
    for role, color in _STAND_IN.items():
        element = element.replace(color, f"var(--{role})")
    element = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1">', element, count=1)
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    element = re.sub(r'<g id="[^"]*"', "<g", element)
    element = re.sub(r"<!--.*?-->", "", element, flags=re.DOTALL)
    element = re.sub(r"\n\s*", "\n", element)
    for attribute in (' id="', "url(#", 'xlink:href="#'):
        element = element.replace(attribute, f"{attribute}{prefix}")
    return element
