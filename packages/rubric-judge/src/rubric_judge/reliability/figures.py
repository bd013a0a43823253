"""The figures of a reliability report; each is left out where there is nothing to draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.ticker import PercentFormatter

from rubric_judge.figures import (
    COLOURS,
    MUTED,
    Figure,
    draw_intervals,
    draw_legend,
    draw_title,
    new_figure,
    save_figure,
)
from rubric_judge.reliability.agreement import single_judgements
from rubric_judge.reliability.flips import advantage_pairs
from rubric_judge.reliability.measure import groups_of
from rubric_judge.reliability.ratings import Ratings
from rubric_judge.reliability.report import Estimate, PairAgreement, ReliabilityReport

__all__ = ["draw_figures"]

_MOST_CRITERIA: Final = 15
_MOST_PANELS: Final = 3
_MOST_JUDGES: Final = len(COLOURS)
_LABEL_CHARS: Final = 28
_STEP: Final = 0.25
_FEWEST_PAIRS: Final = 20
"""A bin with fewer pairs of advantages says nothing."""


def draw_figures(report: ReliabilityReport, ratings: Ratings, folder: Path) -> list[Path]:
    """Draw what the report has to show.

    Args:
        report: the figures' numbers.
        ratings: the judgements that it was made of.
        folder: where to write; it exists.

    Returns:
        The files, PNG and SVG: noise by criterion, predicted and measured noise, pairs of judges,
        and sign flips by size of the advantage.
    """
    drawings: dict[str, Callable[[ReliabilityReport, Ratings], Figure | None]] = {
        "noise_by_criterion": _noise_by_criterion,
        "noise_predicted_measured": _noise_predicted_measured,
        "judges": _judges,
        "sign_flips": _sign_flips,
    }
    paths: list[Path] = []
    for name, draw in drawings.items():
        figure = draw(report, ratings)
        if figure is not None:
            paths += save_figure(figure, folder, name)
    return paths


def _noise_by_criterion(report: ReliabilityReport, ratings: Ratings) -> Figure | None:
    del ratings
    found = [one for one in report.criteria if one.tau2.value is not None]
    names = list(dict.fromkeys(one.criterion for one in found))
    shown = names[:_MOST_CRITERIA]
    judges = [one.judge for one in report.judges if one.tau2.value is not None][:_MOST_JUDGES]
    if not shown:
        return None
    figure, (axes,) = new_figure(7.2, 1.5 + 0.34 * len(shown) + 0.2 * len(judges))
    for k, judge in enumerate(judges):
        mine = {one.criterion: one.tau2 for one in found if one.judge == judge}
        present = [name for name in shown if name in mine]
        places = [shown.index(name) + 0.16 * (k - (len(judges) - 1) / 2) for name in present]
        draw_intervals(
            axes,
            places,
            [_bounds(mine[name]) for name in present],
            colour=COLOURS[k],
            label=_short(judge),
        )
    axes.set_yticks(range(len(shown)), [_short(name) for name in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(r"$\tau_j^2$: variance of the criterion's score z (0 to 1) over replicates")
    of = f", the {len(shown)} noisiest of {len(names)}" if len(names) > len(shown) else ""
    draw_title(axes, f"Test–retest noise by criterion{of}")
    draw_legend(figure, axes)
    return figure


def _noise_predicted_measured(report: ReliabilityReport, ratings: Ratings) -> Figure | None:
    del ratings
    judges = [one for one in report.judges if one.measured.value is not None][:_MOST_JUDGES]
    if not judges:
        return None
    figure, (axes,) = new_figure(7.2, 1.7 + 0.75 * len(judges))
    kinds = ("predicted", "independent", "measured")
    labels = (
        r"$\tau^2 / M_\mathrm{eff}$, one $\tau^2$ for all criteria",
        r"$\sum_j \alpha_j^2 \tau_j^2$, each its own",
        "measured",
    )
    for k, (kind, label, colour) in enumerate(
        zip(kinds, labels, (MUTED, COLOURS[0], COLOURS[1]), strict=True)
    ):
        places = [row + 0.2 * (k - 1) for row in range(len(judges))]
        bounds = [_roots(getattr(one, kind)) for one in judges]
        draw_intervals(axes, places, bounds, colour=colour, label=label)
    axes.set_yticks(range(len(judges)), [_short(one.judge) for one in judges])
    axes.set_ylim(len(judges) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("standard deviation of the reward (0 to 1) over replicates")
    draw_title(axes, "Noise of the reward: predicted and measured")
    draw_legend(figure, axes)
    return figure


def _judges(report: ReliabilityReport, ratings: Ratings) -> Figure | None:
    pairs = [pair for pair in report.pairs if pair.responses]
    # The least agreeing pairs are the ones to look at.
    pairs = sorted(pairs, key=lambda pair: pair.spearman.value or 0.0)[:_MOST_PANELS]
    if not pairs:
        return None
    rewards_JN = single_judgements(ratings.z_JNRM, ratings.rewards_JNR).rewards_JN
    figure, panels = new_figure(0.6 + 3.6 * len(pairs), 3.9, columns=len(pairs))
    for axes, pair in zip(panels, pairs, strict=True):
        a, b = ratings.judges.index(pair.a), ratings.judges.index(pair.b)
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.scatter(rewards_JN[a], rewards_JN[b], s=16, color=COLOURS[0], alpha=0.45, linewidths=0)
        axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
        axes.set_xlabel(f"reward, {_short(pair.a)}")
        axes.set_ylabel(f"reward, {_short(pair.b)}")
        draw_title(axes, _pair_title(pair))
    return figure


def _pair_title(pair: PairAgreement) -> str:
    spearman = "–" if pair.spearman.value is None else f"{pair.spearman.value:.2f}"
    bias = "–" if pair.bias.value is None else f"{pair.bias.value:+.3f}".replace("-", "−")
    return f"Spearman {spearman}, mean difference {bias}"


def _sign_flips(report: ReliabilityReport, ratings: Ratings) -> Figure | None:
    del report
    groups = groups_of(ratings)
    figure, (axes,) = new_figure(7.2, 3.9)
    highest = 0.0
    for j, judge in enumerate(ratings.judges[:_MOST_JUDGES]):
        pairs = advantage_pairs(ratings.rewards_JNR[j], groups)
        places, shares = _flip_shares(pairs.sizes, pairs.flipped)
        if places:
            axes.plot(places, shares, "o-", color=COLOURS[j], markersize=4.5, label=_short(judge))
            highest = max(highest, *shares)
    if not axes.lines:
        return None
    axes.axhline(0.5, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate(
        "a coin", (1, 0.5), (0, 3), xycoords=("axes fraction", "data"),
        textcoords="offset points", ha="right", color=MUTED, fontsize=9,
    )  # fmt: skip
    axes.set(xlim=(0, None), ylim=(0, max(0.58, 1.1 * highest)))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("|A|: size of the advantage, mean of two judgings of the group")
    axes.set_ylabel("advantages whose sign flips")
    draw_title(axes, "Signs of advantages that a second judging turns around")
    draw_legend(figure, axes)
    return figure


def _flip_shares(
    sizes: Sequence[float] | np.ndarray[tuple[int], np.dtype[np.float64]],
    flipped: Sequence[bool] | np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> tuple[list[float], list[float]]:
    bins = np.floor(np.asarray(sizes) / _STEP).astype(int)
    kept = [one for one in np.unique(bins).tolist() if (bins == one).sum() >= _FEWEST_PAIRS]
    chosen = np.asarray(flipped)
    return [(one + 0.5) * _STEP for one in kept], [
        float(chosen[bins == one].mean()) for one in kept
    ]


def _bounds(estimate: Estimate) -> tuple[float, float | None, float | None]:
    return estimate.value or 0.0, estimate.low, estimate.high


def _roots(estimate: Estimate) -> tuple[float, float | None, float | None]:
    value, low, high = _bounds(estimate)
    ends = (None if end is None else math.sqrt(max(end, 0.0)) for end in (low, high))
    return math.sqrt(max(value, 0.0)), *ends  # pyright: ignore[reportReturnType]  # two ends


def _short(name: str) -> str:
    return name if len(name) <= _LABEL_CHARS else f"{name[: _LABEL_CHARS - 1]}…"
