"""An attack report as tables, for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rubric_judge.attack.report import AttackReport, FamilyCredit
from rubric_judge.tables import Table, as_page

_MOST_WORST: Final = 10


def tables_of(report: AttackReport) -> list[Table]:
    """Return the rates by family, the controls, and the worst cases."""
    return [_families(report), _controls(report), _worst(report)]


def _families(report: AttackReport) -> Table:
    rows = tuple(
        (
            one.family,
            f"{one.over_credited}/{one.scored}",
            "–" if one.rate is None else f"{one.rate:.0%}",
            "–" if one.low is None or one.high is None else f"{one.low:.0%}–{one.high:.0%}",
            "–" if one.mean_over_credit is None else f"{one.mean_over_credit:.3f}",
            _uncounted(one),
        )
        for one in report.families
    )
    header = ("family", "over-credited", "rate", "interval", "excess", "not counted")
    columns = len(header) if any(row[-1] for row in rows) else len(header) - 1
    return Table(
        f"{report.judge}: credit above the bound by > {report.epsilon:g}",
        header[:columns],
        tuple(row[:columns] for row in rows),
    )


def _uncounted(one: FamilyCredit) -> str:
    counts = {"invalid": one.invalid, "unavailable": one.unavailable, "no bound": one.unbounded}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _controls(report: AttackReport) -> Table:
    rows = [
        (
            one.name,
            one.deserves,
            "–" if one.mean_reward is None else f"{one.mean_reward:.3f}",
            f"{one.scored} of {one.responses}",
        )
        for one in report.controls
    ]
    if report.separable:
        told_apart = f"{report.separated} of {report.separable} tasks"
        rows.append(("reference above weak", "every task", told_apart, ""))
    return Table("Honest answers", ("answer", "deserves", "mean reward", "scored"), tuple(rows))


def _worst(report: AttackReport) -> Table:
    cases = sorted(
        (case for family in report.families for case in family.worst),
        key=lambda case: case.bound - case.reward,
    )
    return Table(
        "Worst cases",
        ("case", "reward", "bound"),
        tuple((case.id, f"{case.reward:.3f}", f"{case.bound:.3f}") for case in cases[:_MOST_WORST]),
    )


def as_markdown(report: AttackReport, figures: Sequence[str]) -> str:
    """Write the report as a page.

    Args:
        report: what was found.
        figures: file names of pictures beside the page.
    """
    opening = (
        f"{report.cases} cases on {report.tasks} tasks. Over-credited: cases that were given more "
        "than they deserve, of those with scores and a bound; the intervals are Wilson's "
        f"({report.confidence:.0%}). Excess: mean of what was given above the bound. Invalid "
        "judgements (reward 0) and unavailable ones (no reward) are counted apart."
    )
    return as_page(f"Attacks on {report.judge}", opening, tables_of(report), figures)
