"""The figures of a reliability report; each is left out where it would be empty or all 0."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.ticker import PercentFormatter

from rubric_core.arrays import BoolArray, FloatArray
from rubric_judge.quality.reliability.agreement import single_judgements
from rubric_judge.quality.reliability.measure import groups_of
from rubric_judge.quality.reliability.noise import advantage_pairs
from rubric_judge.quality.reliability.ratings import Ratings
from rubric_judge.quality.reliability.report import PairAgreement, ReliabilityReport
from rubric_judge.statistics.estimate import Estimate
from rubric_judge.ui.page import pictures
from rubric_judge.ui.page.tables import or_dash

_MOST_CRITERIA = 15
_MOST_PANELS = 3
_MOST_JUDGES = len(pictures.COLOURS)
_LEGEND_CHARS = 80
_NOTE_CHARS = 45
_FEWEST_PAIRS = 20
"""Fewest pairs of advantages for a point."""
_FEWEST_POINTS = 3
_MOST_POINTS = 8


def draw_figures(
    report: ReliabilityReport, ratings: Ratings, folder: Path
) -> list[Path]:
    """Draw the figures of a report.

    Args:
        report: the numbers of the figures.
        ratings: the judgements that the report was computed from.
        folder: where to write; it exists.

    Returns:
        The files, PNG and SVG: noise by criterion, predicted and measured noise, pairs of judges,
        and sign flips by size of the advantage.
    """
    figures = {
        "noise_by_criterion": _noise_by_criterion(report),
        "noise_predicted_measured": _noise_predicted_measured(report),
        "judges": _judges(report, ratings),
        "sign_flips": _sign_flips(ratings),
    }
    return pictures.save_figures(figures, folder)


def _noise_by_criterion(report: ReliabilityReport) -> pictures.Figure | None:
    measured = [
        criterion for criterion in report.criteria if criterion.tau2.value is not None
    ]
    if not any(criterion.tau2.value for criterion in measured):
        return None
    names = list(dict.fromkeys(criterion.criterion for criterion in measured))
    labels = names[:_MOST_CRITERIA]
    names_with_noise = [
        reliability.judge
        for reliability in report.judges
        if reliability.tau2.value is not None
    ]
    judges = names_with_noise[:_MOST_JUDGES]
    height = 1.5 + 0.2 * len(judges)
    each = max(0.16, 0.12 * len(judges) - 0.08)
    figure, axes = pictures.new_rows(labels, height=height, each=each)
    for k, judge in enumerate(judges):
        tau2_by_name = {
            criterion.criterion: criterion.tau2
            for criterion in measured
            if criterion.judge == judge
        }
        drawn = [place for place, name in enumerate(labels) if name in tau2_by_name]
        step = min(0.22, 0.8 / len(judges))
        pictures.draw_intervals(
            axes,
            [place + step * (k - (len(judges) - 1) / 2) for place in drawn],
            [_bounds(tau2_by_name[labels[place]]) for place in drawn],
            colour=pictures.COLOURS[k],
            label=pictures.wrap_name(judge, _LEGEND_CHARS),
        )
    axes.set_xlim(0, None)
    axes.set_xlabel(
        r"$\tau_j^2$: variance of the criterion's score z (0 to 1) over replicates"
    )
    title = "Test–retest noise by criterion"
    if len(names) > len(labels):
        title += f", the {len(labels)} noisiest of {len(names)}"
    pictures.draw_title(axes, f"{title}{_of_judges(judges, names_with_noise)}")
    pictures.draw_legend(figure, axes)
    return figure


def _noise_predicted_measured(report: ReliabilityReport) -> pictures.Figure | None:
    measured = [judge for judge in report.judges if judge.measured.value is not None]
    judges = measured[:_MOST_JUDGES]
    if not any(judge.measured.value for judge in judges):
        return None
    figure, axes = pictures.new_rows(
        [judge.judge for judge in judges], height=1.9, each=0.57
    )
    one_tau2 = r"$\sqrt{\tau^2 / M_\mathrm{eff}}$, one $\tau^2$ for all criteria"
    own_tau2 = r"$\sqrt{\sum_j \alpha_j^2 \tau_j^2}$, each its own"
    kinds = (
        ("predicted", one_tau2, pictures.MUTED),
        ("independent", own_tau2, pictures.COLOURS[0]),
        ("measured", "measured", pictures.COLOURS[1]),
    )
    for k, (kind, label, colour) in enumerate(kinds):
        places = [place + 0.2 * (k - 1) for place in range(len(judges))]
        bounds = [_roots(getattr(judge, kind)) for judge in judges]
        pictures.draw_intervals(axes, places, bounds, colour=colour, label=label)
    axes.set_xlim(0, None)
    axes.set_xlabel("standard deviation of the reward (0 to 1) over replicates")
    pictures.draw_title(
        axes,
        f"Noise of the reward: predicted and measured{_of_judges(judges, measured)}",
    )
    pictures.draw_legend(figure, axes, columns=len(kinds))
    return figure


def _judges(report: ReliabilityReport, ratings: Ratings) -> pictures.Figure | None:
    scored = [pair for pair in report.pairs if pair.responses]
    # The least agreeing pairs are the ones to look at.
    pairs = sorted(scored, key=lambda pair: pair.spearman.value or 0.0)[:_MOST_PANELS]
    if not pairs:
        return None
    rewards_JN = single_judgements(ratings.z_JNRM, ratings.rewards_JNR).rewards_JN
    marks = report.marks
    note = "\n".join(
        pictures.wrap_name(f"{mark}: {name}", _NOTE_CHARS * len(pairs))
        for name, mark in marks.items()
        if any(name in (pair.a, pair.b) for pair in pairs)
    )
    height = 4.2 + pictures.LINE_INCHES * (note.count("\n") + 1)
    figure, panels = pictures.new_figure(
        0.6 + 3.6 * len(pairs), height, columns=len(pairs)
    )
    for axes, pair in zip(panels, pairs, strict=True):
        a = ratings.judges.index(pair.a)
        b = ratings.judges.index(pair.b)
        names = f"reward, {marks[pair.a]}", f"reward, {marks[pair.b]}"
        pictures.draw_rewards(axes, (rewards_JN[a], rewards_JN[b]), names)
        pictures.draw_title(axes, _pair_title(pair))
    figure.supxlabel(
        note,
        x=0.01,
        ha="left",
        fontsize=10,
        color=pictures.INK,
    )
    if len(pairs) < len(scored):
        figure.suptitle(
            f"The {len(pairs)} pairs of {len(scored)} that agree least",
            x=0.01,
            ha="left",
            fontsize=11,
            color=pictures.INK,
        )
    return figure


def _pair_title(pair: PairAgreement) -> str:
    bias = or_dash(pair.bias.value, "+.3f").replace("-", "−")
    return f"Spearman {or_dash(pair.spearman.value, '.2f')}, bias {bias}"


def _sign_flips(ratings: Ratings) -> pictures.Figure | None:
    groups = groups_of(ratings)
    judges = ratings.judges[:_MOST_JUDGES]
    points: list[tuple[list[float], list[float]]] = []
    for rewards_NR in ratings.rewards_JNR[: len(judges)]:
        pairs = advantage_pairs(rewards_NR, groups)
        points.append(_flip_shares(pairs.sizes, pairs.flipped))
    if max(len(sizes) for sizes, _ in points) < _FEWEST_POINTS:
        return None
    figure, (axes,) = pictures.new_figure(7.2, 3.9 + 0.2 * len(judges))
    for judge, (sizes, shares), colour in zip(
        judges, points, pictures.COLOURS, strict=False
    ):
        few = "" if sizes else ": too few pairs of advantages"
        axes.plot(
            sizes, shares, "o-", color=colour, markersize=4.5, zorder=3,
            clip_on=not sizes,  # dots at 0 are to be seen whole
            label=pictures.wrap_name(judge + few, _LEGEND_CHARS),
        )  # fmt: skip
    axes.axhline(0.5, **pictures.DASHED)
    axes.annotate(
        "a coin", (1, 0.5), (0, 3), xycoords=("axes fraction", "data"),
        textcoords="offset points", ha="right", color=pictures.MUTED, fontsize=9,
    )  # fmt: skip
    highest = max(share for _, shares in points for share in shares)
    axes.set(xlim=(0, None), ylim=(0, max(0.58, 1.1 * highest)))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    pictures.draw_grid(axes, "y")
    axes.set_xlabel("|A|: size of the advantage, mean of two judgements of the group")
    axes.set_ylabel("advantages whose sign flips")
    of = _of_judges(judges, ratings.judges)
    pictures.draw_title(
        axes, f"Signs of advantages that a second judgement turns around{of}"
    )
    pictures.draw_legend(figure, axes)
    return figure


def _flip_shares(
    sizes: FloatArray, flipped: BoolArray
) -> tuple[list[float], list[float]]:
    """Return mean sizes and shares of flips over bins of about equally many pairs.

    Sizes that are equal to the hundredth stay in one bin: the term that is added to a group's
    standard deviation makes equal advantages differ a little.

    Returns:
        Nothing where there are too few pairs for one bin.
    """
    values, value_of_pair, counts = np.unique(
        np.round(sizes, 2), return_inverse=True, return_counts=True
    )
    fewest = max(_FEWEST_PAIRS, len(sizes) / _MOST_POINTS)
    bin_of_value = np.zeros(len(values), dtype=np.intp)
    full = 0
    pairs_in_bin = 0
    for place, count in enumerate(counts.tolist()):
        bin_of_value[place] = full
        pairs_in_bin += count
        if pairs_in_bin >= fewest:
            full = full + 1
            pairs_in_bin = 0
    # The rest above the last full bin belongs to it.
    bins = np.minimum(bin_of_value, full - 1)[value_of_pair]
    chosen = [bins == number for number in range(full)]
    mean_sizes = [float(sizes[rows].mean()) for rows in chosen]
    shares = [float(flipped[rows].mean()) for rows in chosen]
    return mean_sizes, shares


def _of_judges(drawn: Sequence[object], judges: Sequence[object]) -> str:
    return f", {len(drawn)} of {len(judges)} judges" if len(drawn) < len(judges) else ""


def _bounds(estimate: Estimate) -> tuple[float, float | None, float | None]:
    return estimate.value or 0.0, estimate.low, estimate.high


def _roots(estimate: Estimate) -> tuple[float, float | None, float | None]:
    roots = [
        None if end is None else math.sqrt(max(end, 0.0)) for end in _bounds(estimate)
    ]
    return tuple(roots)  # pyright: ignore[reportReturnType]  # three numbers
