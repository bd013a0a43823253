"""The figures of a calibration: J by criterion, and both rewards of each response."""

from pathlib import Path

from rubric_judge.quality.calibration.record import Verdict
from rubric_judge.quality.calibration.report import CalibrationReport
from rubric_judge.ui.page import pictures

_COLOURS = {
    Verdict.ADMIT: pictures.COLOURS[2],
    Verdict.WEIGH_DOWN: pictures.COLOURS[4],
    Verdict.STRONGER_JUDGE: pictures.COLOURS[0],
    Verdict.REWRITE: pictures.COLOURS[3],
    Verdict.MASK: pictures.COLOURS[1],
    Verdict.MORE_LABELS: pictures.MUTED,
}
_MOST_CRITERIA = 40


def draw_figures(report: CalibrationReport, folder: Path) -> list[Path]:
    """Draw the figures into an existing folder, and return the PNG and SVG files."""
    drawn = {"youden_j": _youden(report), "rewards": _rewards(report)}
    return pictures.save_figures(drawn, folder)


def _youden(report: CalibrationReport) -> pictures.Figure | None:
    measured = [
        criterion
        for criterion in report.criteria
        if criterion.youden_j.value is not None
    ]
    calibrations = measured[:_MOST_CRITERIA]
    if not calibrations:
        return None
    figure, axes = pictures.new_rows(
        [calibration.criterion for calibration in calibrations], height=1.9, each=0.16
    )
    axes.axvline(0, color=pictures.INK, linewidth=1)
    axes.axvline(report.bound, **pictures.DASHED)
    for verdict in dict.fromkeys(criterion.verdict for criterion in calibrations):
        places = [
            place
            for place, criterion in enumerate(calibrations)
            if criterion.verdict == verdict
        ]
        estimates = [calibrations[place].youden_j for place in places]
        pictures.draw_intervals(
            axes,
            places,
            [(j.value or 0.0, j.low, j.high) for j in estimates],
            colour=_COLOURS[verdict],
            label=verdict.words,
        )
    lowest = min(criterion.youden_j.low or 0.0 for criterion in calibrations)
    axes.set_xlim(min(-0.25, lowest - 0.05), 1.0)
    axes.set_xlabel(
        f"Youden's J = TPR − FPR, {report.confidence:.0%} intervals; dashed: the bound "
        f"{report.bound:g}"
    )
    title = f"Does {report.judge} see what people see?"
    if len(calibrations) < len(measured):
        title += f", the {len(calibrations)} lowest of {len(measured)}"
    pictures.draw_title(axes, title)
    pictures.draw_legend(figure, axes)
    return figure


def _rewards(report: CalibrationReport) -> pictures.Figure | None:
    pairs = report.reward.pairs
    if len(pairs) < 2:  # noqa: PLR2004  # a point is not a figure
        return None
    figure, (axes,) = pictures.new_figure(4.6, 4.6)
    label_rewards = [pair.label for pair in pairs]
    judge_rewards = [pair.judge for pair in pairs]
    names = ("reward by the labels", "reward by the judge")
    pictures.draw_rewards(axes, (label_rewards, judge_rewards), names)
    pictures.draw_title(axes, f"{len(pairs)} responses with both rewards")
    return figure
