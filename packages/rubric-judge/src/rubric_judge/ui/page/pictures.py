"""Pictures for papers and slides, drawn by matplotlib: light, labelled, and clear without colour.

Pages draw their own charts (`rubric_judge.ui.page.charts`). matplotlib belongs to the extras that
write pictures.
"""

import textwrap
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
from matplotlib import figure as mpl_figure
from numpy.typing import ArrayLike

from rubric_core.files import replacing, toml_beside

# matplotlib's own annotations leave most of its keyword arguments untyped.
Axes = Any
Figure = Any

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's colours that show on white."""
_STYLE = toml_beside(__file__, "pictures.toml")
INK: str = _STYLE["text.color"]
MUTED: str = _STYLE["axes.edgecolor"]
DASHED: Mapping[str, Any] = {
    "color": MUTED,
    "linewidth": 1,
    "linestyle": (0, (4, 3)),
}
"""How a line is drawn that others are compared with."""

_TITLE_CHARS = 60
_ROW_CHARS = 32
LINE_INCHES = 0.18
"""Height of a line of type."""
_NARROW_CHARS = 26
"""Three labels of this length stand side by side."""

_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None, "Producer": None},
}
"""Metadata without dates and versions, so that the same numbers give the same file."""


def style(points: float = 10.0) -> AbstractContextManager[None]:
    """Draw in the common style inside the block, with type of the given size in points."""
    return cast("Any", mpl).rc_context({**_STYLE, "font.size": points})


def new_figure(
    width: float, height: float, *, columns: int = 1, points: float = 10.0
) -> tuple[Figure, list[Axes]]:
    """Return a figure, in inches, and its axes from left to right; `points` is the type size."""
    with style(points):
        figure: Figure = mpl_figure.Figure(
            figsize=(width, height), layout="constrained"
        )
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)
        axes = [figure.add_subplot(1, columns, column + 1) for column in range(columns)]
    return figure, axes


def new_rows(
    names: Sequence[str], *, height: float, each: float
) -> tuple[Figure, Axes]:
    """Return a figure with `height` inches, plus `each` per row, and axes with named rows."""
    labels = [wrap_name(name, _ROW_CHARS) for name in names]
    lines = sum(label.count("\n") + 1 for label in labels)
    total_height = height + each * len(labels) + LINE_INCHES * lines
    figure, (axes,) = new_figure(7.2, total_height)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)  # from the top
    draw_grid(axes, "x")
    return figure, axes


def draw_title(axes: Axes, title: str) -> None:
    """Put a title over the left edge."""
    axes.set_title(
        wrap_name(title, _TITLE_CHARS),
        loc="left",
        fontsize=11,
        color=INK,
    )


def wrap_name(name: str, chars: int) -> str:
    """Break a name at spaces and slashes; nothing is left out, so that names stay different.

    Args:
        name: a judge's or a criterion's name; its dollar signs begin no formula.
        chars: most characters in a line.
    """
    lines = textwrap.wrap(name.replace("/", "/ "), chars, break_on_hyphens=False)
    return "\n".join(line.replace("/ ", "/") for line in lines).replace("$", r"\$")


def draw_grid(axes: Axes, axis: str) -> None:
    """Draw hairlines across an axis, "x" or "y", behind everything else."""
    axes.grid(axis=axis, color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)


def draw_rewards(
    axes: Axes, rewards: tuple[ArrayLike, ArrayLike], names: tuple[str, str]
) -> None:
    """Draw two rewards of the same responses, and the line on which they are equal."""
    axes.plot([0, 1], [0, 1], **DASHED)
    axes.scatter(
        *rewards,
        s=16,
        color=COLOURS[0],
        alpha=0.45,
        linewidths=0,
    )
    axes.set(
        xlim=(-0.03, 1.03),
        ylim=(-0.03, 1.03),
        xlabel=names[0],
        ylabel=names[1],
    )


def draw_intervals(
    axes: Axes,
    places: Sequence[float],
    bounds: Sequence[tuple[float, float | None, float | None]],
    *,
    colour: str,
    label: str | None = None,
) -> None:
    """Draw dots at (value, place) with horizontal intervals."""
    for place, (_, low, high) in zip(places, bounds, strict=True):
        if low is not None and high is not None:
            axes.plot(
                [low, high], [place, place], color=colour, linewidth=1.6, alpha=0.55
            )
    values = [value for value, _, _ in bounds]
    # A dot at 0 lies on the axis and must not be clipped.
    axes.plot(
        values,
        places,
        "o",
        color=colour,
        markersize=5.5,
        label=label,
        clip_on=False,
        zorder=3,
    )


def draw_legend(figure: Figure, axes: Axes, *, columns: int | None = None) -> None:
    """Name the colours of one axes below the figure.

    Args:
        figure: the axes' figure.
        axes: axes with labelled drawings.
        columns: labels side by side; by default, by the length of the labels.
    """
    handles, labels = axes.get_legend_handles_labels()
    if columns is None:
        columns = 1 if max(map(len, labels)) > _NARROW_CHARS else 3
    with style():
        figure.legend(
            handles, labels, loc="outside lower center", ncols=min(len(labels), columns)
        )


def save_figure(
    figure: Figure,
    folder: Path,
    name: str,
    *,
    forms: Sequence[str] = ("png", "svg"),
    dpi: int = 160,
) -> list[Path]:
    """Write a figure in each form, such as `name.png`; return the paths."""
    paths = [folder / f"{name}.{form}" for form in forms]
    with style():
        for form, path in zip(forms, paths, strict=True):
            with replacing(path) as file:
                figure.savefig(
                    file,
                    format=form,
                    dpi=dpi,
                    metadata=_METADATA[form],
                )
    return paths


def save_figures(figures: Mapping[str, Figure | None], folder: Path) -> list[Path]:
    """Write the figures that are not None, by name; return the paths."""
    paths: list[Path] = []
    for name, figure in figures.items():
        if figure is not None:
            paths += save_figure(figure, folder, name)
    return paths
