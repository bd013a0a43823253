"""The paper's figures as pictures for a paper, drawn with matplotlib as PNG and PDF.

Every picture shows numbers of the report's tables, at the size at which it is printed.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

from rubric_core.errors import needing_extra
from rubric_eval.comparison import PairedResult
from rubric_eval.findings.measuring import Findings
from rubric_eval.findings.studies import Training
from rubric_eval.report.curves import training_charts
from rubric_eval.report.tables import by_model
from rubric_eval.statistics.intervals import ModelScore
from rubric_eval.transfer.suites import TITLES
from rubric_judge.statistics.estimate import Estimate
from rubric_judge.ui.page.charts import Chart
from rubric_judge.ui.page.tables import written

_COLOURS = (
    "#6f7a75",
    "#2f6690",
    "#c4501b",
    "#7d5ba6",
    "#3a8a5f",
    "#b38a1d",
    "#b0406a",
    "#3d98a3",
)
"""Colours of the models, the same as on the page."""
_ROLES = {"main": "#2f6690", "other": "#c4501b"}
_INK = "#1b1f1d"
_GROUP_WIDTH = 0.82
"""Share of the room of a group that its bars fill."""
_MOST_LABELLED = 12
"""Number of bars up to which values fit above them."""


def bars(
    axes: Any,
    groups: Sequence[str],
    values: Mapping[str, Sequence[Estimate | None]],
    *,
    scale: float,
    levels: Sequence[float | None] = (),
) -> None:
    """Draw bars from zero, side by side in each group, with their intervals.

    Args:
        axes: axes to draw on.
        groups: names along the axis.
        values: one interval for each group, by series; None where a series has none.
        scale: factor by which shares are multiplied.
        levels: height of a dashed line across each group, such as chance.
    """
    width = _GROUP_WIDTH / len(values)
    tops: list[float] = []
    for at, (name, series) in enumerate(values.items()):
        colour = _COLOURS[at % len(_COLOURS)]
        offset = width * (at + 0.5) - _GROUP_WIDTH / 2
        places = [i + offset for i, value in enumerate(series) if value is not None]
        intervals = [value for value in series if value is not None]
        means = [scale * interval.number for interval in intervals]
        axes.bar(places, means, 0.9 * width, color=colour, label=name)
        for x, mean, interval in zip(places, means, intervals, strict=True):
            top = mean
            if interval.low is not None and interval.high is not None:
                low = scale * interval.low
                high = scale * interval.high
                axes.plot([x, x], [low, high], color=_INK, linewidth=0.9)
                top = max(top, high)
            tops.append(top)
            if len(values) * len(groups) <= _MOST_LABELLED:
                axes.annotate(
                    f"{mean:.1f}",
                    (x, top),
                    (0, 2),
                    textcoords="offset points",
                    ha="center",
                )
    _draw_levels(axes, levels, scale=scale)
    axes.set_xticks(range(len(groups)), groups)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.55, len(groups) - 0.45)
    highest = max(tops, default=0.0)
    axes.set_ylim(0, max(1.12 * highest, 0.05 * scale))
    axes.grid(visible=True, axis="y")


def _draw_levels(
    axes: Any,
    levels: Sequence[float | None],
    *,
    scale: float,
) -> None:
    """Draw dashed lines across the groups that have a level, one of them in the legend."""
    label = "chance"
    for place, level in enumerate(levels):
        if level is None:
            continue
        height = scale * level
        axes.plot(
            [place - 0.46, place + 0.46],
            [height, height],
            color=_INK,
            linewidth=0.9,
            linestyle=(0, (4, 3)),
            label=label,
        )
        label = "_nolegend_"


def curve(axes: Any, chart: Chart) -> None:
    """Draw the curves of a chart of the page."""
    scale = 1
    title = chart.title
    if chart.is_share:
        scale = 100
        title = f"{chart.title}, %"
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
        axes.plot(
            series.steps,
            values,
            color=colour,
            linewidth=1.2,
            label=series.label,
        )
        if series.spread:
            widths = [scale * width for width in series.spread]
            pairs = list(zip(values, widths, strict=True))
            low = [value - width for value, width in pairs]
            high = [value + width for value, width in pairs]
            axes.fill_between(
                series.steps,
                low,
                high,
                color=colour,
                alpha=0.15,
                linewidth=0,
            )
    axes.set_title(title, loc="left")
    axes.set_xlabel("step")
    axes.set_ylim(bottom=0)
    axes.grid(visible=True)


def forest(axes: Any, rows: Sequence[tuple[str, PairedResult]]) -> None:
    """Draw differences with their intervals, the first on top.

    Args:
        axes: axes to draw on.
        rows: name and difference as a share, for each row.
    """
    axes.axvline(0, color=_INK, linewidth=0.8)
    for at, (_, result) in enumerate(rows):
        if result.ci_low is not None and result.ci_high is not None:
            ends = [100 * result.ci_low, 100 * result.ci_high]
            axes.plot(ends, [at, at], color=_COLOURS[1], linewidth=1.2)
        face = _COLOURS[1] if result.is_significant else "white"
        axes.plot(
            100 * result.mean,
            at,
            "o",
            markersize=5,
            markerfacecolor=face,
            markeredgecolor=_COLOURS[1],
        )
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


PICTURE_KEYS = (
    "table1_heldout",
    "figure2_judges",
    "table2_transfer",
    "figure3_training",
    "differences",
)
"""Names of all pictures that a report may write."""

_FORMS = ("png", "pdf")
_POINTS = 8.0
_COLUMN = 3.4
_PAGE = 7.0
"""Widths of a column and of a whole page of a paper, in inches."""


def write_pictures(
    findings: Findings,
    training: Training | None,
    folder: Path,
) -> tuple[Path, ...]:
    """Draw every picture that there are numbers for.

    Args:
        findings: scores and differences.
        training: curves of a run.
        folder: folder of the pictures; those of an earlier report that this one lacks are
            removed.

    Returns:
        The files, a PNG and a PDF of each picture.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OSError: a file cannot be written.
    """
    paths: list[Path] = []
    folder.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {}
    with load_pictures().style(_POINTS):
        if findings.judges:
            figures["table1_heldout"] = _heldout(findings)
            figures["figure2_judges"] = _judges(findings)
        if findings.benchmarks:
            figures["table2_transfer"] = _transfer(findings)
        if findings.comparison:
            figures["differences"] = _differences(findings)
        if training is not None and (training.steps or training.passes):
            figures["figure3_training"] = _training(training)
    for key, figure in figures.items():
        paths += load_pictures().save_figure(
            figure,
            folder,
            key,
            forms=_FORMS,
            dpi=300,
        )
    for key, form in product(PICTURE_KEYS, _FORMS):
        path = folder / f"{key}.{form}"
        if path not in paths:
            path.unlink(missing_ok=True)
    return tuple(paths)


def _estimates(
    columns: Mapping[str, Mapping[str, ModelScore]],
) -> dict[str, list[Estimate | None]]:
    """Return each model's mean with its interval in each of these columns, by model."""
    return {
        model: [None if score is None else score.estimate for score in scores]
        for model, scores in by_model(columns).items()
    }


def _heldout(findings: Findings) -> Any:
    """Table 1: reward and zero reward of each model, judged by the first judge."""
    judge, models = next(iter(findings.judges.items()))
    figure, (rewards, zeros) = _figure(_PAGE, 2.4, columns=2)
    groups = [f"judged by {judge}"]
    bars(rewards, groups, _estimates({judge: models}), scale=100)
    title = f"Held-out rubric reward, % ({findings.level} interval)"
    rewards.set_title(title, loc="left")
    shares = {
        model: [Estimate(score.zero_frac, n=score.n)] for model, score in models.items()
    }
    bars(zeros, groups, shares, scale=100)
    zeros.set_title("Answers with zero reward, %", loc="left")
    _legend(figure, rewards)
    return figure


def _judges(findings: Findings) -> Any:
    """Figure 2: every model under every judge, out of ten."""
    has_many_judges = len(findings.judges) > 2  # noqa: PLR2004
    width = _PAGE if has_many_judges else _COLUMN
    figure, (axes,) = _figure(width, 2.6)
    judges = list(findings.judges)
    bars(axes, judges, _estimates(findings.judges), scale=10)
    axes.set_ylabel(f"Mean rubric reward out of 10\n({findings.level} interval)")
    _legend(figure, axes)
    return figure


def _transfer(findings: Findings) -> Any:
    """Table 2: accuracy of every model on every benchmark, with chance."""
    figure, (axes,) = _figure(_PAGE, 2.6)
    chances = [
        next(iter(column.values())).chance for column in findings.benchmarks.values()
    ]
    titles = [TITLES.get(name, name) for name in findings.benchmarks]
    bars(
        axes,
        titles,
        _estimates(findings.benchmarks),
        scale=100,
        levels=chances,
    )
    axes.set_ylabel(f"Accuracy, % ({findings.level} interval)")
    _legend(figure, axes)
    return figure


def _differences(findings: Findings) -> Any:
    """Every paired difference as a forest plot."""
    differences = findings.comparison.differences if findings.comparison else ()
    has_many_judges = len(findings.judges) > 1
    rows: list[tuple[str, PairedResult]] = []
    for difference in differences:
        benchmark = TITLES.get(difference.benchmark, difference.benchmark)
        name = f"{difference.a} − {difference.b}, {benchmark}"
        if has_many_judges and difference.judge:
            name += f", {difference.judge}"
        rows.append((name, difference))
    figure, (axes,) = _figure(_PAGE, 0.9 + 0.24 * len(rows))
    forest(axes, rows)
    axes.set_xlabel(
        f"Difference in percentage points ({findings.level} interval); filled: the corrected "
        "test finds one"
    )
    return figure


def _training(training: Training) -> Any:
    """Figure 3: reward and zero reward over steps."""
    charts = training_charts(training)
    figure, panels = _figure(_PAGE, 2.6, columns=len(charts))
    for chart, axes in zip(charts, panels, strict=True):
        curve(axes, chart)
    _legend(figure, panels[0])
    return figure


def _figure(
    width: float,
    height: float,
    *,
    columns: int = 1,
) -> tuple[Any, list[Any]]:
    return load_pictures().new_figure(width, height, columns=columns, points=_POINTS)


def _legend(figure: Any, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > 1:
        figure.legend(
            handles,
            labels,
            loc="outside upper center",
            ncols=min(len(labels), 6),
        )


def load_pictures() -> ModuleType:
    """Load the module that draws pictures.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with needing_extra("rubric-eval", "plots", by="--figures"):
        import_module("matplotlib")
        from rubric_judge.ui.page import pictures as loaded
    return loaded
