"""Curves as SVG whose colours and type are the page's own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from markupsafe import Markup, escape

_SIZES: Final = {"wide": (520, 230), "narrow": (350, 200)}
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 10, 26
_LEVELS: Final = 4
_STEPS: Final = 5
_MOST_POINTS: Final = 400
"""Of one line: more cannot be told apart."""


@dataclass(frozen=True)
class Curve:
    """One line, or one row of dots."""

    label: str
    role: str
    """Names its colour."""

    steps: tuple[int, ...]
    values: tuple[float, ...]
    style: Literal["line", "dots"] = "line"
    spread: tuple[float, ...] = ()
    """Half height of a band around the line."""


@dataclass(frozen=True)
class Chart:
    """Curves over steps, from zero up."""

    title: str
    caption: str
    curves: tuple[Curve, ...]
    is_share: bool = False
    """Whether the axis is in per cent."""

    ringed: int | None = None
    """Step of the dot that is ringed."""


def svg(chart: Chart, *, width: Literal["wide", "narrow"]) -> Markup:
    """Draw a chart at the width of a desk or of a phone."""
    across, high = _SIZES[width]
    drawing = _Drawing(chart, across, high)
    parts = [*drawing.levels(), *drawing.steps()]
    for curve in chart.curves:
        parts += drawing.dots(curve) if curve.style == "dots" else drawing.line(curve)
    return Markup('<svg viewBox="0 0 {} {}">{}</svg>').format(across, high, Markup().join(parts))


class _Drawing:
    def __init__(self, chart: Chart, across: int, high: int) -> None:
        self._chart = chart
        self._foot, self._width = high - _BOTTOM, across - _LEFT - _RIGHT
        steps = [step for curve in chart.curves for step in curve.steps]
        first, last = min(steps), max(steps)
        margin = 0.02 * (last - first) if last > first else 0.5
        self._first, self._last = first - margin, last + margin
        tops = [
            value + (curve.spread[at] if curve.spread else 0.0)
            for curve in chart.curves
            for at, value in enumerate(curve.values)
        ]
        highest = min(max(tops, default=0.0), 1.0) or 0.01
        self._level = _nice(highest / _LEVELS)
        self._top = self._level * math.ceil(highest / self._level - 1e-9)

    def levels(self) -> list[Markup]:
        parts: list[Markup] = []
        for number in range(round(self._top / self._level) + 1):
            value = number * self._level
            label = f"{100 * value:.4g} %" if self._chart.is_share else f"{value:.4g}"
            parts.append(
                Markup('<line class="level" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
                    _LEFT, _LEFT + self._width, self._y(value), self._y(value)
                )
            )
            parts.append(_text(_LEFT - 6, self._y(value) + 3.5, label, anchor="end"))
        return parts

    def steps(self) -> list[Markup]:
        apart = max(1, round(_nice((self._last - self._first) / _STEPS)))
        first = math.ceil(self._first / apart) * apart
        shown = range(first, math.floor(self._last) + 1, apart)
        return [_text(self._x(step), self._foot + 17, f"{step:,}") for step in shown]

    def line(self, curve: Curve) -> list[Markup]:
        at = _thinned(len(curve.steps))
        places = [(self._x(curve.steps[i]), self._y(curve.values[i])) for i in at]
        parts: list[Markup] = []
        if curve.spread:
            above = [
                (x, self._y(curve.values[i] + curve.spread[i]))
                for i, (x, _) in zip(at, places, strict=True)
            ]
            below = [
                (x, self._y(curve.values[i] - curve.spread[i]))
                for i, (x, _) in zip(at, places, strict=True)
            ]
            parts.append(
                Markup('<polygon class="band" style="--mark:var(--{})" points="{}"/>').format(
                    curve.role, _points([*above, *reversed(below)])
                )
            )
        parts.append(
            Markup('<polyline class="curve" style="--mark:var(--{})" points="{}"/>').format(
                curve.role, _points(places)
            )
        )
        if len(places) == 1:
            parts.append(self._dot(curve, 0))
        return parts

    def dots(self, curve: Curve) -> list[Markup]:
        parts = [self._dot(curve, i) for i in range(len(curve.steps))]
        if self._chart.ringed in curve.steps:
            i = curve.steps.index(self._chart.ringed or 0)
            parts.append(
                Markup(
                    '<circle class="ring" style="--mark:var(--{})" cx="{:.1f}" cy="{:.1f}" r="7"/>'
                ).format(curve.role, self._x(curve.steps[i]), self._y(curve.values[i]))
            )
        return parts

    def _dot(self, curve: Curve, i: int) -> Markup:
        value = curve.values[i]
        shown = f"{100 * value:.1f} %" if self._chart.is_share else f"{value:.3f}"
        return Markup(
            '<circle class="dot" style="--mark:var(--{})" cx="{:.1f}" cy="{:.1f}" r="3.6">'
            "<title>{}</title></circle>"
        ).format(
            curve.role,
            self._x(curve.steps[i]),
            self._y(value),
            f"{curve.label}, step {curve.steps[i]:,}: {shown}",
        )

    def _x(self, step: float) -> float:
        return _LEFT + self._width * (step - self._first) / (self._last - self._first)

    def _y(self, value: float) -> float:
        inside = min(max(value, 0.0), self._top)
        return self._foot - (self._foot - _TOP) * inside / self._top


def _thinned(count: int) -> list[int]:
    """Return evenly spaced positions, the ends among them."""
    if count <= _MOST_POINTS:
        return list(range(count))
    return [round(i * (count - 1) / (_MOST_POINTS - 1)) for i in range(_MOST_POINTS)]


def _points(places: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _text(x: float, y: float, text: str, *, anchor: str = "middle") -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, escape(text)
    )


def _nice(step: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))
