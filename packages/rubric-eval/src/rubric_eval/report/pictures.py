"""The paper's figures as pictures for a paper: PNG and PDF, drawn by matplotlib.

Every picture shows numbers of the report's tables, at the size at which it is printed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from rubric_core import MissingExtraError
from rubric_core.errors import install_command
from rubric_core.files import replacing
from rubric_eval.report.curves import training_charts
from rubric_eval.report.plots import bars, curve, forest
from rubric_eval.report.tables import benchmark_title

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rubric_eval.report.curves import Training
    from rubric_eval.report.findings import Findings

PICTURE_KEYS: Final = (
    "table1_heldout",
    "figure2_judges",
    "table2_transfer",
    "figure3_training",
    "differences",
)
"""Names of all pictures that a report may write."""

_FORMS: Final = ("png", "pdf")
_STYLE: Final[dict[str, Any]] = {
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 8,
    "axes.titlesize": 8,
    "grid.color": "#e0e3e1",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # type 3 is refused by many publishers
    "savefig.dpi": 300,
    "text.parse_math": False,  # names are names
}
_COLUMN: Final = 3.4
_PAGE: Final = 7.0
"""Inches of a column of a paper, and of a whole page."""


def check_pictures() -> None:
    """Make sure that pictures can be drawn, before anything is written.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    _library("matplotlib")


def write_pictures(found: Findings, training: Training | None, folder: Path) -> tuple[Path, ...]:
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
    drawings = {
        "table1_heldout": _heldout if found.judges else None,
        "figure2_judges": _judges if found.judges else None,
        "table2_transfer": _transfer if found.benchmarks else None,
        "differences": _differences if found.comparison else None,
    }
    written: list[Path] = []
    folder.mkdir(parents=True, exist_ok=True)
    with _library("matplotlib").rc_context(_STYLE):
        for key, draw in drawings.items():
            if draw is not None:
                written += _saved(draw(found), folder, key)
        if training is not None and (training.steps or training.passes):
            written += _saved(_training(training), folder, "figure3_training")
    for key in PICTURE_KEYS:
        for form in _FORMS:
            if (path := folder / f"{key}.{form}") not in written:
                path.unlink(missing_ok=True)
    return tuple(written)


def _heldout(found: Findings) -> Any:
    """Table 1: reward and zero reward of each model, judged by the first judge."""
    judge, models = next(iter(found.judges.items()))
    figure, (rewards, zeros) = _figure(_PAGE, 2.4, columns=2)
    groups = [f"judged by {judge}"]
    scores = {model: [(one.mean, one.ci_low, one.ci_high)] for model, one in models.items()}
    bars(rewards, groups, scores, scale=100)
    rewards.set_title(f"Held-out rubric reward, % ({found.level} interval)", loc="left")
    shares = {model: [(one.zero_frac, None, None)] for model, one in models.items()}
    bars(zeros, groups, shares, scale=100)
    zeros.set_title("Answers with zero reward, %", loc="left")
    _legend(figure, rewards)
    return figure


def _judges(found: Findings) -> Any:
    """Figure 2: every model under every judge, out of ten."""
    figure, (axes,) = _figure(_PAGE if len(found.judges) > 2 else _COLUMN, 2.6)  # noqa: PLR2004
    models = dict.fromkeys(model for column in found.judges.values() for model in column)
    scores = {
        model: [
            (one.mean, one.ci_low, one.ci_high) if (one := column.get(model)) else None
            for column in found.judges.values()
        ]
        for model in models
    }
    bars(axes, list(found.judges), scores, scale=10)
    axes.set_ylabel(f"Mean rubric reward out of 10\n({found.level} interval)")
    _legend(figure, axes)
    return figure


def _transfer(found: Findings) -> Any:
    """Table 2: accuracy of every model on every benchmark, with chance."""
    figure, (axes,) = _figure(_PAGE, 2.6)
    models = dict.fromkeys(model for column in found.benchmarks.values() for model in column)
    scores = {
        model: [
            (one.mean, one.ci_low, one.ci_high) if (one := column.get(model)) else None
            for column in found.benchmarks.values()
        ]
        for model in models
    }
    chances = [
        next((one.chance for one in column.values()), None) for column in found.benchmarks.values()
    ]
    bars(
        axes,
        [benchmark_title(name) for name in found.benchmarks],
        scores,
        scale=100,
        levels=chances,
    )
    axes.set_ylabel(f"Accuracy, % ({found.level} interval)")
    _legend(figure, axes)
    return figure


def _differences(found: Findings) -> Any:
    """Every paired difference as a forest plot."""
    differences = found.comparison.differences if found.comparison else ()
    several = len(found.judges) > 1
    rows = [
        (
            f"{one.a} − {one.b}, {benchmark_title(one.benchmark)}"
            + (f", {one.judge}" if several and one.judge else ""),
            (one.mean, one.ci_low, one.ci_high),
            one.is_significant,
        )
        for one in differences
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


def _figure(width: float, height: float, *, columns: int = 1) -> tuple[Any, Any]:
    figure = _library("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def _legend(figure: Any, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > 1:
        figure.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 6))


def _saved(figure: Any, folder: Path, key: str) -> Iterator[Path]:
    # Without dates and versions the same numbers give the same file.
    metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None, "Producer": None}}
    for form in _FORMS:
        path = folder / f"{key}.{form}"
        with replacing(path) as file:
            figure.savefig(file, format=form, metadata=metadata[form])
        yield path


def _library(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"--figures needs matplotlib, which is not usable here ({error}): "
            f"{install_command('rubric-eval', 'plots')}"
        ) from error
