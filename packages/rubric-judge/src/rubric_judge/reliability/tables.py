"""A reliability report as tables, for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rubric_judge.reliability.report import (
    CriterionNoise,
    Estimate,
    JudgeReliability,
    PairAgreement,
    PanelAgreement,
    ReliabilityReport,
)
from rubric_judge.tables import Table, as_page

_MOST_CRITERIA: Final = 15
_MOST_COLUMNS: Final = 4
"""Judges side by side that a terminal of 80 columns has room for."""


def tables_of(report: ReliabilityReport) -> list[Table]:
    """Return what the report says; what it cannot say is a dash.

    Several judges are numbered, as their names may be longer than a terminal is wide.
    """
    if report.panel is None:
        names = [one.judge for one in report.judges]
        return [_judges(report.judges, names), _criteria(report.criteria, {})]
    marks = report.marks
    columns = list(marks.values())
    legend = Table("Judges", ("", "judge"), tuple((mark, name) for name, mark in marks.items()))
    alone = [
        _judges(report.judges[k : k + _MOST_COLUMNS], columns[k : k + _MOST_COLUMNS])
        for k in range(0, len(columns), _MOST_COLUMNS)
    ]
    together = [_panel(report.panel), _pairs(report.pairs, marks)]
    return [legend, *alone, _criteria(report.criteria, marks), *together]


def as_markdown(report: ReliabilityReport, figures: Sequence[str]) -> str:
    """Write the report as a page.

    Args:
        report: what was found.
        figures: file names of pictures beside the page.

    Returns:
        Markdown with every table and picture.
    """
    intervals = (
        f"In brackets: {report.confidence:.0%} BCa bootstrap intervals, {report.resamples} draws "
        f"of documents (tasks or responses where there are fewer than eight), seed {report.seed}."
    )
    opening = (
        f"{report.responses} responses to {report.tasks} tasks from {report.documents} documents. "
        f"{intervals} A dash: the judgements cannot say."
    )
    return as_page("Judge reliability", opening, tables_of(report), figures)


def _figure(estimate: Estimate, *, digits: int = 3) -> str:
    if estimate.value is None:
        return "–"
    value = f"{estimate.value:.{digits}f}"
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} [{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"


def _share(estimate: Estimate) -> str:
    if estimate.value is None:
        return "–"
    value = f"{estimate.value:.1%}"
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} [{estimate.low:.1%}, {estimate.high:.1%}]"


def _needed(one: JudgeReliability) -> str:
    if not one.replicates_needed:
        return "–"
    return " / ".join("–" if k is None else str(k) for k in one.replicates_needed.values())


_JUDGE_ROWS: Final[tuple[tuple[str, Callable[[JudgeReliability], str]], ...]] = (
    ("judgements", lambda one: str(one.judgements)),
    ("replicates", lambda one: str(one.replicates)),
    ("invalid", lambda one: f"{one.invalid_frac:.1%}"),
    ("unavailable", lambda one: f"{one.unavailable_frac:.1%}"),
    ("mean reward", lambda one: _figure(one.mean_reward)),
    ("τ² of a criterion", lambda one: _figure(one.tau2, digits=4)),
    ("reward noise τ²/M_eff, predicted", lambda one: _figure(one.predicted, digits=4)),
    ("reward noise Σα²τ², predicted", lambda one: _figure(one.independent, digits=4)),
    ("reward noise, measured", lambda one: _figure(one.measured, digits=4)),
    ("measured / Σα²τ²", lambda one: _figure(one.inflation, digits=2)),
    ("ICC(1)", lambda one: _figure(one.icc1)),
    ("ICC(1) within tasks", lambda one: _figure(one.icc1_within)),
    ("replicates for 0.8 / 0.9 / 0.95 within", _needed),
    ("advantages whose sign flips", lambda one: _share(one.flips)),
    ("  their share of |A|", lambda one: _share(one.flipped_weight)),
    ("groups with equal rewards", lambda one: _share(one.constant_frac)),
    ("groups with less spread than noise", lambda one: _share(one.below_noise_frac)),
)


def _judges(judges: Sequence[JudgeReliability], columns: Sequence[str]) -> Table:
    rows = tuple((name, *(cell(one) for one in judges)) for name, cell in _JUDGE_ROWS)
    return Table("Each judge alone", ("", *columns), rows)


def _criteria(criteria: Sequence[CriterionNoise], marks: Mapping[str, str]) -> Table:
    shown = criteria[:_MOST_CRITERIA]
    of = f" (the {len(shown)} noisiest)" if len(shown) < len(criteria) else ""
    return Table(
        f"Noise by criterion{of}",
        ("criterion", *(("judge",) if marks else ()), "τ_j²", "α_j", "responses", "tasks"),
        tuple(
            (
                one.criterion,
                *((marks[one.judge],) if marks else ()),
                _figure(one.tau2, digits=4),
                f"{one.share:.2f}",
                str(one.responses),
                str(one.tasks),
            )
            for one in shown
        ),
    )


def _panel(panel: PanelAgreement) -> Table:
    rows = (
        ("judges", str(panel.judges)),
        ("responses that all scored", str(panel.responses)),
        ("ICC(A,1) of rewards", _figure(panel.icc_a1)),
        ("Krippendorff's α of criterion scores", _figure(panel.alpha)),
        ("effective number of judges", _figure(panel.effective_judges, digits=2)),
    )
    return Table("All judges together, one judgement each", ("", "value"), rows)


def _pairs(pairs: Sequence[PairAgreement], marks: Mapping[str, str]) -> Table:
    return Table(
        "Pairs of judges, one judgement each",
        ("pair", "bias", "Spearman", "Kendall", "Kendall within tasks", "weighted κ", "n"),
        tuple(
            (
                f"{marks[pair.a]} − {marks[pair.b]}",
                _figure(pair.bias),
                _figure(pair.spearman),
                _figure(pair.kendall),
                _figure(pair.kendall_within),
                _figure(pair.kappa),
                str(pair.responses),
            )
            for pair in pairs
        ),
    )
