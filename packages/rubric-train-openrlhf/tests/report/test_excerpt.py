from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rubric_train_openrlhf.report import excerpt as excerpt_module
from rubric_train_openrlhf.report.excerpt import excerpt

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_short_run_is_shown_whole(make_run: Callable[..., Path]) -> None:
    shown = excerpt(make_run(steps=3, prompts=2, group=2), best_step=2, notes=[])
    assert [step["step"] for step in shown.policy["steps"]] == [1, 2, 3]
    assert shown.caption == "3 steps, 12 responses."
    assert shown.rows == len(shown.judge) == 12


def test_a_long_run_keeps_the_ends_and_the_best_step(
    make_run: Callable[..., Path],
) -> None:
    shown = excerpt(make_run(steps=60, prompts=1, group=2), best_step=31, notes=[])
    steps = [step["step"] for step in shown.policy["steps"]]
    assert len(steps) == excerpt_module.MAX_STEPS
    assert {1, 31, 60} <= set(steps)
    assert steps == sorted(steps)
    assert shown.caption.startswith("12 of 60 steps, 24 responses; a sample")


@pytest.mark.parametrize("best", [0, 59, 999, None])
def test_a_best_step_without_rollouts_changes_nothing(
    make_run: Callable[..., Path], best: int | None
) -> None:
    run = make_run(steps=20, prompts=1, group=2)
    steps = [s["step"] for s in excerpt(run, best_step=best, notes=[]).policy["steps"]]
    assert len(steps) == excerpt_module.MAX_STEPS


def test_groups_stay_whole_under_the_cap(
    make_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(steps=2, prompts=6, group=4)
    monkeypatch.setattr(excerpt_module, "MAX_CHARS", 2 * 3 * 4 * 3_250)
    shown = excerpt(run, best_step=None, notes=[])
    for step in shown.policy["steps"]:
        groups = [row["id"].rpartition("-g")[0] for row in step["rows"]]
        assert step["total"] == 24
        assert 0 < len(groups) < 24
        assert all(groups.count(group) == 4 for group in groups)
    assert "of 48 responses" in shown.caption


def test_one_group_is_kept_however_low_the_cap(
    make_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(steps=1, prompts=3, group=4)
    monkeypatch.setattr(excerpt_module, "MAX_CHARS", 1)
    assert excerpt(run, best_step=None, notes=[]).rows == 4


def test_a_very_long_response_is_cut_and_says_so(
    make_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(steps=1, prompts=1, group=2)
    monkeypatch.setattr(excerpt_module, "MAX_TEXT_CHARS", 20)
    row = excerpt(run, best_step=None, notes=[]).policy["steps"][0]["rows"][0]
    assert "more characters in the run folder]" in row["response"]
