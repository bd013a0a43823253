"""The figure of an attack report."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from matplotlib.ticker import PercentFormatter

from rubric_judge.attack.report import AttackReport
from rubric_judge.figures import COLOURS, MUTED, draw_title, new_figure, save_figure, wrap_name

_MOST_FAMILIES: Final = 40
_NAME_CHARS: Final = 32


def draw_figures(report: AttackReport, folder: Path) -> list[Path]:
    """Draw the over-credit rates with their intervals.

    Args:
        report: what was found.
        folder: where to write; it exists.

    Returns:
        The PNG and SVG files; none where nothing was scored.
    """
    shown = [one for one in report.families if one.rate is not None][:_MOST_FAMILIES]
    if not shown:
        return []
    names = [wrap_name(one.family, _NAME_CHARS) for one in shown]
    lines = sum(1 + name.count("\n") for name in names)
    figure, (axes,) = new_figure(7.2, 1.3 + 0.12 * len(shown) + 0.17 * lines)
    places = list(range(len(shown)))
    rates = [one.rate or 0.0 for one in shown]
    axes.barh(places, rates, height=0.62, color=COLOURS[0], alpha=0.85)
    for place, one in zip(places, shown, strict=True):
        axes.plot([one.low, one.high], [place, place], color="#222222", linewidth=1.2)
        axes.text(
            1.02, place, f"{one.over_credited} of {one.scored}",
            va="center", color=MUTED, fontsize=8.5,
        )  # fmt: skip
    axes.set_yticks(places, names)
    axes.set(xlim=(0, 1), ylim=(len(shown) - 0.4, -0.6))
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    level = f"{report.confidence:.0%}"
    axes.set_xlabel(f"cases credited more than they deserve, with {level} intervals")
    left_out = len(report.families) - len(shown)
    of = f", the {len(shown)} worst of {len(report.families)} families" if left_out else ""
    draw_title(axes, f"Attacks on {report.judge}{of}")
    return save_figure(figure, folder, "over_credit")
