"""Bars, curves and forest plots on axes of matplotlib's; nothing here knows what they show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rubric_eval.report.table import written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rubric_eval.report.drawing import Chart

    Bounded = tuple[float, float | None, float | None]
    """A value with its bounds, where they are known."""

_COLOURS: Final = (
    "#6f7a75", "#2f6690", "#c4501b", "#7d5ba6", "#3a8a5f", "#b38a1d", "#b0406a", "#3d98a3",
)  # fmt: skip
"""Of models, as on the page."""
_ROLES: Final = {"train": "#2f6690", "heldout": "#c4501b"}
_INK: Final = "#1b1f1d"
_TAKEN: Final = 0.82
"""Of the room of a group, by its bars."""
_LABELLED: Final = 12
"""Bars beyond which their values do not fit above them."""


def bars(
    axes: Any,
    groups: Sequence[str],
    values: Mapping[str, Sequence[Bounded | None]],
    *,
    scale: float,
    levels: Sequence[float | None] = (),
) -> None:
    """Draw bars from zero, side by side in each group, with their intervals.

    Args:
        axes: to draw on.
        groups: names along the axis.
        values: by series, one for each group; None where a series has none.
        scale: what shares are multiplied by.
        levels: a broken line across each group, such as chance.
    """
    width = _TAKEN / len(values)
    tops: list[float] = []
    for at, (name, series) in enumerate(values.items()):
        colour = _COLOURS[at % len(_COLOURS)]
        shown = False
        for place, one in enumerate(series):
            if one is None:
                continue
            mean, low, high = (None if x is None else scale * x for x in one)
            x = place - _TAKEN / 2 + width * (at + 0.5)
            label = "_nolegend_" if shown else name
            axes.bar(x, mean, 0.9 * width, color=colour, label=label)
            shown = True
            top = mean or 0.0
            if low is not None and high is not None:
                axes.plot([x, x], [low, high], color=_INK, linewidth=0.9)
                top = max(top, high)
            tops.append(top)
            if len(values) * len(groups) <= _LABELLED:
                axes.annotate(
                    f"{mean:.1f}", (x, top), (0, 2), textcoords="offset points", ha="center"
                )
    known = [(place, scale * level) for place, level in enumerate(levels) if level is not None]
    for place, level in known:
        label = "chance" if place == known[0][0] else "_nolegend_"
        axes.plot([place - 0.46, place + 0.46], [level, level], color=_INK, linewidth=0.9,
                  linestyle=(0, (4, 3)), label=label)  # fmt: skip
    axes.set_xticks(range(len(groups)), groups)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.55, len(groups) - 0.45)
    axes.set_ylim(0, max(1.12 * max(tops, default=0.0), 0.05 * scale))
    axes.grid(visible=True, axis="y")


def curve(axes: Any, chart: Chart) -> None:
    """Draw the curves of a chart of the page."""
    scale = 100 if chart.is_share else 1
    for one in chart.curves:
        colour = _ROLES[one.role]
        values = [scale * value for value in one.values]
        if one.style == "dots":
            axes.plot(one.steps, values, "o", color=colour, markersize=4, label=one.label)
            if chart.ringed in one.steps:
                at = one.steps.index(chart.ringed or 0)
                axes.plot(
                    one.steps[at], values[at], "o", color=colour, markersize=9, fillstyle="none"
                )
            continue
        axes.plot(one.steps, values, color=colour, linewidth=1.2, label=one.label)
        if one.spread:
            low, high = (
                [
                    value + sign * scale * wide
                    for value, wide in zip(values, one.spread, strict=True)
                ]
                for sign in (-1, 1)
            )
            axes.fill_between(one.steps, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set_title(f"{chart.title}, %" if chart.is_share else chart.title, loc="left")
    axes.set_xlabel("step")
    axes.set_ylim(bottom=0)
    axes.grid(visible=True)


def forest(axes: Any, rows: Sequence[tuple[str, Bounded, bool]]) -> None:
    """Draw differences with their intervals, the first on top.

    Args:
        axes: to draw on.
        rows: name, difference as a share with its bounds, and whether it is decided.
    """
    axes.axvline(0, color=_INK, linewidth=0.8)
    for at, (_, (mean, low, high), is_decided) in enumerate(rows):
        if low is not None and high is not None:
            axes.plot([100 * low, 100 * high], [at, at], color=_COLOURS[1], linewidth=1.2)
        face = _COLOURS[1] if is_decided else "white"
        axes.plot(100 * mean, at, "o", markersize=5, markerfacecolor=face,
                  markeredgecolor=_COLOURS[1])  # fmt: skip
        axes.annotate(
            written(mean, "points"), (1.01, at), xycoords=("axes fraction", "data"), va="center"
        )
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=True, axis="x")
