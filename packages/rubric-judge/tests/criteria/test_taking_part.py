"""Answers that no judge was reached for: left out of their group, or counted as 0 in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rubric_core import Outcome
from rubric_judge.quality.criteria.groups import JudgedAnswer
from rubric_judge.quality.criteria.measure import measure

if TYPE_CHECKING:
    from collections.abc import Mapping

SHARES = {"a": 0.75, "b": 0.25}


def answer(
    outcome: Outcome, z: Mapping[str, float], attribution: Mapping[str, float]
) -> JudgedAnswer:
    return JudgedAnswer(
        group="g",
        task_id="t",
        step=1,
        outcome=outcome,
        shares=SHARES,
        z=z,
        attribution=attribution,
        tokens=10,
    )


def test_an_answer_that_a_run_counted_as_0_is_a_member_of_its_group_and_no_score() -> (
    None
):
    """As `on_unavailable: zero` writes it; both criteria tell it from its sibling."""
    met = {"a": 1.0, "b": 1.0}
    split = {"a": 0.75, "b": 0.25}
    lost = {name: -part for name, part in split.items()}
    group = [
        answer(Outcome.SCORED, met, split),
        answer(Outcome.SCORED, {"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 0.0}),
        answer(Outcome.UNAVAILABLE, dict.fromkeys(SHARES, 0.0), lost),
    ]

    report = measure(group, source="run")
    rows = {row.name: row for row in report.rows}

    advantages = np.array([1.0, 0.0, -1.0])
    squares = float((advantages**2).sum())
    assert rows["a"].gradient == pytest.approx((0.75 * 1 + 0.75 * 1) / squares)
    assert rows["b"].gradient == pytest.approx((0.25 * 1 + 0.25 * 1) / squares)
    assert (rows["a"].scores, rows["a"].mean, rows["a"].constant) == (2, 1.0, 1.0)
    assert (report.unavailable, report.idle_frac) == (1, 0.0)
    assert report.tokens == 30
    assert rows["a"].idle_tokens == 0


def test_an_answer_that_was_left_out_is_in_no_figure_but_its_count() -> None:
    split = {"a": 0.75, "b": 0.25}
    group = [
        answer(Outcome.SCORED, {"a": 1.0, "b": 1.0}, split),
        answer(Outcome.SCORED, {"a": 0.0, "b": 0.0}, {"a": -0.75, "b": -0.25}),
        answer(Outcome.UNAVAILABLE, {}, {}),
    ]

    report = measure(group, source="run")

    assert sum(row.gradient or 0 for row in report.rows) == pytest.approx(1.0)
    assert (report.unavailable, report.tokens) == (1, 20)
