from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rubric_train_openrlhf.errors import DiskWriteError
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.live_summary import LiveSummary, best_step
from rubric_train_openrlhf.run.records import HeldoutRow, MetricsRow, RunSummary, Status

if TYPE_CHECKING:
    from pathlib import Path


def ended(
    folder: RunFolder, status: Status, error: Exception | None = None
) -> RunSummary:
    summary_file = LiveSummary(folder, total_steps=9)
    summary_file.begin(wall_s=3.0)
    assert folder.read_summary().warning is None
    summary = summary_file.end(status, error)
    assert summary is not None
    return summary


def heldout(step: int, reward: float, *, best: bool) -> HeldoutRow:
    return HeldoutRow(
        step=step,
        reward_mean=reward,
        reward_std=0.1,
        zero_reward_frac=0.0,
        n=4,
        criteria={},
        response_tokens_mean=9.0,
        eval_s=0.1,
        best=best,
    )


def test_the_best_pass_is_the_last_that_beat_all_before(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for row in (
        heldout(0, 0.2, best=True),
        heldout(2, 0.6, best=True),
        heldout(4, 0.5, best=False),
    ):
        folder.write_heldout(row)
    assert best_step(folder, up_to=4) == 2
    summary = ended(folder, "finished")
    assert (summary.best_step, summary.best_heldout_reward) == (2, 0.6)
    assert (summary.first_heldout_reward, summary.last_heldout_reward) == (0.2, 0.5)


def test_an_error_that_is_not_ours_is_named_without_its_text(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    theirs = ended(folder, "failed", ValueError("an answer"))
    assert theirs.error == "ValueError"
    ours = ended(folder, "failed", DiskWriteError("no room"))
    assert ours.error == "DiskWriteError: no room"


def step(number: int, *, degenerate_group_frac: float) -> MetricsRow:
    tables = ("criteria", "zero_reward_by_reason", "by_fallback")
    values: dict[str, Any] = {
        name: 0
        for name in MetricsRow.model_fields
        if name not in {"cluster", "audit", "monitor"}
    }
    values |= {name: {} for name in tables}
    values |= {"step": number, "degenerate_group_frac": degenerate_group_frac}
    return MetricsRow(**values)


@pytest.mark.parametrize(
    ("steps", "last", "warned"), [(12, 0.2, True), (12, 0.3, False), (8, 0.0, False)]
)
def test_a_run_whose_reward_falls_to_half_ends_with_a_warning(
    tmp_path: Path, *, steps: int, last: float, warned: bool
) -> None:
    folder = RunFolder(tmp_path)
    for number in range(1, steps + 1):
        reward = 0.5 if number <= steps // 2 else last
        row = step(number, degenerate_group_frac=0.0)
        folder.write_metrics(row.model_copy(update={"reward_mean": reward, "kl": 5.9}))

    warning = ended(folder, "finished").warning

    assert (warning is not None) == warned
    if warning is not None:
        assert "fell from 0.500 to 0.200" in warning
        assert "KL divergence of 5.90" in warning


@pytest.mark.parametrize(("last", "warned"), [(1.0, True), (0.75, False)])
def test_a_run_without_any_spread_ends_with_a_warning(
    tmp_path: Path, *, last: float, warned: bool
) -> None:
    folder = RunFolder(tmp_path)
    folder.write_metrics(step(1, degenerate_group_frac=1.0))
    folder.write_metrics(step(2, degenerate_group_frac=last))

    warning = ended(folder, "finished").warning

    assert (warning is not None) == warned
    if warning is not None:
        assert (
            "in all 2 steps the responses of each group earned the same (0.000"
            in warning
        )
        assert "sft" in warning
