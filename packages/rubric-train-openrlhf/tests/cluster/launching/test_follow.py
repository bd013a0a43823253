from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rubric_train_openrlhf.cluster.launching.launch import Follower
from rubric_train_openrlhf.run import HeldoutRow, RunFolder

if TYPE_CHECKING:
    from pathlib import Path


def heldout_row(step: int) -> HeldoutRow:
    return HeldoutRow(
        step=step,
        reward_mean=0.5,
        reward_std=0.1,
        zero_reward_frac=0.0,
        n=4,
        criteria={},
        response_tokens_mean=9.0,
        eval_s=1.0,
        best=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def followed(folder: RunFolder) -> tuple[Follower, list[int]]:
    seen: list[int] = []
    return Follower(folder.path, on_heldout=lambda row: seen.append(row.step)), seen


def test_every_new_row_is_handed_on_once(folder: RunFolder) -> None:
    folder.write_heldout(heldout_row(0))
    follower, seen = followed(folder)
    folder.write_heldout(heldout_row(2))
    follower.poll()
    follower.poll()
    folder.write_heldout(heldout_row(4))
    follower.poll()
    assert seen == [2, 4]


def test_rows_that_a_resumed_run_makes_again_are_handed_on_again(folder: RunFolder) -> None:
    for step in (0, 2, 4):
        folder.write_heldout(heldout_row(step))
    follower, seen = followed(folder)
    folder.heldout.write_text(folder.heldout.read_text().splitlines(keepends=True)[0])
    follower.poll()
    folder.write_heldout(heldout_row(2))
    follower.poll()
    assert seen == [2]


def test_half_a_row_waits_for_its_other_half(folder: RunFolder) -> None:
    follower, seen = followed(folder)
    line = heldout_row(2).model_dump_json() + "\n"
    folder.heldout.write_text(line[:20])
    follower.poll()
    folder.heldout.write_text(line)
    follower.poll()
    assert seen == [2]
