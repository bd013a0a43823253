"""The paper's figures as pictures for a paper, drawn on matplotlib's axes: PNG and PDF.

Every picture shows numbers of the report's tables, at the size at which it is printed.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from rubric_core.errors import needing_extra
from rubric_eval.comparison import PairedResult
from rubric_eval.report.curves import Training, training_charts
from rubric_eval.report.reading import Findings
from rubric_eval.statistics import Interval
from rubric_eval.transfer.suites import benchmark_title
from rubric_judge.page.charts import Chart
from rubric_judge.page.tables import written

_COLOURS: Final = (
    "#6f7a75", "#2f6690", "#c4501b", "#7d5ba6", "#3a8a5f", "#b38a1d", "#b0406a", "#3d98a3",
)  # fmt: skip
"""Of models, as on the page."""
_ROLES: Final = {"main": "#2f6690", "other": "#c4501b"}
_INK: Final = "#1b1f1d"
_TAKEN: Final = 0.82
"""Of the room of a group, by its bars."""
_LABELLED: Final = 12
"""Bars beyond which their values do not fit above them."""


def bars(
    axes: Any,
    groups: Sequence[str],
    values: Mapping[str, Sequence[Interval | None]],
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
        drawn = [(place, one) for place, one in enumerate(series) if one is not None]
        places = [place - _TAKEN / 2 + width * (at + 0.5) for place, _ in drawn]
        means = [scale * one.mean for _, one in drawn]
        axes.bar(
            places, means, 0.9 * width, color=_COLOURS[at % len(_COLOURS)], label=name
        )
        for x, mean, (_, interval) in zip(places, means, drawn, strict=True):
            top = mean
            if interval.ci_low is not None and interval.ci_high is not None:
                low = scale * interval.ci_low
                high = scale * interval.ci_high
                axes.plot([x, x], [low, high], color=_INK, linewidth=0.9)
                top = max(top, high)
            tops.append(top)
            if len(values) * len(groups) <= _LABELLED:
                axes.annotate(
                    f"{mean:.1f}",
                    (x, top),
                    (0, 2),
                    textcoords="offset points",
                    ha="center",
                )
    known = [
        (place, scale * level)
        for place, level in enumerate(levels)
        if level is not None
    ]
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
    for series in chart.series:
        colour = _ROLES[series.role]
        values = [scale * value for value in series.values]
        if series.style == "dots":
            axes.plot(
                series.steps,
                values,
                "o",
                color=colour,
                markersize=4,
                label=series.label,
            )
            if chart.ringed in series.steps:
                at = series.steps.index(chart.ringed or 0)
                axes.plot(
                    series.steps[at],
                    values[at],
                    "o",
                    color=colour,
                    markersize=9,
                    fillstyle="none",
                )
            continue
        axes.plot(series.steps, values, color=colour, linewidth=1.2, label=series.label)
        if series.spread:
            pairs = list(zip(values, series.spread, strict=True))
            low = [value - scale * wide for value, wide in pairs]
            high = [value + scale * wide for value, wide in pairs]
            axes.fill_between(
                series.steps, low, high, color=colour, alpha=0.15, linewidth=0
            )
    axes.set_title(f"{chart.title}, %" if chart.is_share else chart.title, loc="left")
    axes.set_xlabel("step")
    axes.set_ylim(bottom=0)
    axes.grid(visible=True)


def forest(axes: Any, rows: Sequence[tuple[str, PairedResult]]) -> None:
    """Draw differences with their intervals, the first on top.

    Args:
        axes: to draw on.
        rows: name, and difference as a share.
    """
    axes.axvline(0, color=_INK, linewidth=0.8)
    for at, (_, result) in enumerate(rows):
        if result.ci_low is not None and result.ci_high is not None:
            ends = [100 * result.ci_low, 100 * result.ci_high]
            axes.plot(ends, [at, at], color=_COLOURS[1], linewidth=1.2)
        face = _COLOURS[1] if result.is_significant else "white"
        axes.plot(100 * result.mean, at, "o", markersize=5, markerfacecolor=face,
                  markeredgecolor=_COLOURS[1])  # fmt: skip
        axes.annotate(
            written(result.mean, "points"),
            (1.01, at),
            xycoords=("axes fraction", "data"),
            va="center",
        )
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=True, axis="x")


PICTURE_KEYS: Final = (
    "table1_heldout",
    "figure2_judges",
    "table2_transfer",
    "figure3_training",
    "differences",
)
"""Names of all pictures that a report may write."""

_FORMS: Final = ("png", "pdf")
_POINTS: Final = 8.0
_COLUMN: Final = 3.4
_PAGE: Final = 7.0
"""Inches of a column of a paper, and of a whole page."""


def write_pictures(
    found: Findings, training: Training | None, folder: Path
) -> tuple[Path, ...]:
    """Draw what there are numbers for.

    Args:
        found: scores and differences.
        training: curves of a run.
        folder: where the pictures go; ours of an earlier report that this one lacks are removed.

    Returns:
        The files, a PNG and a PDF of each.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OSError: a file cannot be written.
    """
    written: list[Path] = []
    folder.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {}
    with load_pictures().style(_POINTS):
        if found.judges:
            figures |= {
                "table1_heldout": _heldout(found),
                "figure2_judges": _judges(found),
            }
        if found.benchmarks:
            figures["table2_transfer"] = _transfer(found)
        if found.comparison:
            figures["differences"] = _differences(found)
        if training is not None and (training.steps or training.passes):
            figures["figure3_training"] = _training(training)
    for key, figure in figures.items():
        written += load_pictures().save_figure(
            figure, folder, key, forms=_FORMS, dpi=300
        )
    for key, form in product(PICTURE_KEYS, _FORMS):
        if (path := folder / f"{key}.{form}") not in written:
            path.unlink(missing_ok=True)
    return tuple(written)


def _heldout(found: Findings) -> Any:
    """Table 1: reward and zero reward of each model, judged by the first judge."""
    judge, models = next(iter(found.judges.items()))
    figure, (rewards, zeros) = _figure(_PAGE, 2.4, columns=2)
    groups = [f"judged by {judge}"]
    bars(rewards, groups, found.of_models({judge: models}), scale=100)
    rewards.set_title(f"Held-out rubric reward, % ({found.level} interval)", loc="left")
    shares = {
        model: [Interval(mean=score.zero_frac, ci_low=None, ci_high=None, n=score.n)]
        for model, score in models.items()
    }
    bars(zeros, groups, shares, scale=100)
    zeros.set_title("Answers with zero reward, %", loc="left")
    _legend(figure, rewards)
    return figure


def _judges(found: Findings) -> Any:
    """Figure 2: every model under every judge, out of ten."""
    figure, (axes,) = _figure(_PAGE if len(found.judges) > 2 else _COLUMN, 2.6)  # noqa: PLR2004
    bars(axes, list(found.judges), found.of_models(found.judges), scale=10)
    axes.set_ylabel(f"Mean rubric reward out of 10\n({found.level} interval)")
    _legend(figure, axes)
    return figure


def _transfer(found: Findings) -> Any:
    """Table 2: accuracy of every model on every benchmark, with chance."""
    figure, (axes,) = _figure(_PAGE, 2.6)
    chances = [
        next(iter(column.values())).chance for column in found.benchmarks.values()
    ]
    titles = [benchmark_title(name) for name in found.benchmarks]
    bars(axes, titles, found.of_models(found.benchmarks), scale=100, levels=chances)
    axes.set_ylabel(f"Accuracy, % ({found.level} interval)")
    _legend(figure, axes)
    return figure


def _differences(found: Findings) -> Any:
    """Every paired difference as a forest plot."""
    differences = found.comparison.differences if found.comparison else ()
    several = len(found.judges) > 1
    rows = [
        (
            f"{difference.a} − {difference.b}, {benchmark_title(difference.benchmark)}"
            + (f", {difference.judge}" if several and difference.judge else ""),
            difference,
        )
        for difference in differences
    ]
    figure, (axes,) = _figure(_PAGE, 0.9 + 0.24 * len(rows))
    forest(axes, rows)
    axes.set_xlabel(
        f"Difference in percentage points ({found.level} interval); filled: the corrected "
        "test finds one"
    )
    return figure


def _training(training: Training) -> Any:
    """Figure 3: reward and zero reward over steps."""
    charts = training_charts(training)
    figure, axes = _figure(_PAGE, 2.6, columns=len(charts))
    for chart, one in zip(charts, axes, strict=True):
        curve(one, chart)
    _legend(figure, axes[0])
    return figure


def _figure(width: float, height: float, *, columns: int = 1) -> tuple[Any, list[Any]]:
    return load_pictures().new_figure(width, height, columns=columns, points=_POINTS)


def _legend(figure: Any, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > 1:
        figure.legend(
            handles, labels, loc="outside upper center", ncols=min(len(labels), 6)
        )


def load_pictures() -> ModuleType:
    """Load what draws pictures.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with needing_extra("rubric-eval", "plots", by="--figures"):
        import_module("matplotlib")
        from rubric_judge.page import pictures as loaded
    return loaded
