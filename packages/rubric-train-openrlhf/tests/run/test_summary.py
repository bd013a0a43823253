from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_train_openrlhf.errors import DiskWriteError
from rubric_train_openrlhf.run import HeldoutRow, RunFolder
from rubric_train_openrlhf.run.summary import best_row, write_summary

if TYPE_CHECKING:
    from pathlib import Path


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
    assert best_row(folder).step == 2
    summary = write_summary(folder, status="finished", wall_s=3.0)
    assert (summary.best_step, summary.best_heldout_reward) == (2, 0.6)
    assert (summary.first_heldout_reward, summary.last_heldout_reward) == (0.2, 0.5)


def test_an_error_that_is_not_ours_is_named_without_its_text(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    theirs = write_summary(folder, status="failed", wall_s=1.0, error=ValueError("an answer"))
    assert theirs.error == "ValueError"
    ours = write_summary(folder, status="failed", wall_s=1.0, error=DiskWriteError("no room"))
    assert ours.error == "DiskWriteError: no room"
