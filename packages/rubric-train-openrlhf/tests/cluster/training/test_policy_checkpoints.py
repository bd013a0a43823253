from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rubric_train_openrlhf.cluster.training.trainer_states import (
    PolicyCheckpoints,
    check_policies,
)
from rubric_train_openrlhf.config.sections import CheckpointConfig
from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import HeldoutRow

if TYPE_CHECKING:
    from pathlib import Path

EVERY = 4


class SmallRun:
    """The order in which the trainer evaluates and saves, without anything to train."""

    def __init__(self, path: Path, *, keep: int = 1) -> None:
        self.folder = RunFolder(path)
        self.checkpoints = PolicyCheckpoints(
            self.folder, config=CheckpointConfig(every=EVERY, keep=keep)
        )

    def steps(self, rewards: dict[int, float]) -> None:
        """A held-out pass after each of these steps."""
        for step, reward in rewards.items():
            improved = self._evaluate(step, reward)
            if step and step % EVERY == 0:
                self.checkpoints.state_step = step
            if improved or step % EVERY == 0:
                self.checkpoints.save(
                    step, lambda path: path.mkdir(parents=True, exist_ok=True)
                )

    def _evaluate(self, step: int, reward: float) -> bool:
        before = [row.reward_mean for row in self.folder.read_heldout()]
        best = not before or reward > max(before)
        row = HeldoutRow(
            step=step,
            reward_mean=reward,
            reward_std=0.0,
            zero_reward_frac=0.0,
            n=1,
            criteria={},
            response_tokens_mean=1.0,
            eval_s=1.0,
            best=best,
        )
        self.folder.write_heldout(row)
        return best

    def go_back(self, step: int) -> None:
        check_policies(self.folder.checkpoints, state=step, every=EVERY)
        kept = [row for row in self.folder.read_heldout() if row.step <= step]
        self.folder.heldout.unlink()
        for row in kept:
            self.folder.write_heldout(row)
        self.checkpoints.go_back(step)

    @property
    def saved(self) -> set[str]:
        return {path.name for path in self.folder.checkpoints.glob("step_*")}

    @property
    def best(self) -> str:
        return (self.folder.checkpoints / "best").resolve(strict=True).name


def test_the_best_up_to_the_state_is_there_when_the_run_goes_back_to_it(
    tmp_path: Path,
) -> None:
    run = SmallRun(tmp_path)
    run.steps(
        {0: 0.1, 2: 0.5, 4: 0.4, 6: 0.7}
    )  # killed in step 7, with the state of step 4
    assert run.saved == {"step_000000", "step_000002", "step_000006"}
    assert run.best == "step_000006"

    run.go_back(4)

    assert run.saved == {"step_000000", "step_000002"}
    assert run.best == "step_000002"


def test_of_the_best_ones_before_the_state_only_the_last_is_kept(
    tmp_path: Path,
) -> None:
    run = SmallRun(tmp_path)
    run.steps({0: 0.1, 2: 0.5, 4: 0.6, 6: 0.6, 8: 0.3})
    assert run.saved == {"step_000000", "step_000004", "step_000008"}
    assert run.best == "step_000004"


def test_a_run_that_lost_its_state_is_not_begun_anew(tmp_path: Path) -> None:
    run = SmallRun(tmp_path)
    run.steps({0: 0.1, 4: 0.2})
    with pytest.raises(ResumeError, match=r"policy of step 4.*that of step 0"):
        run.go_back(0)
    assert run.saved == {"step_000000", "step_000004"}


def test_without_held_out_questions_the_last_policy_is_the_best(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    config = CheckpointConfig(every=EVERY, keep=1)
    checkpoints = PolicyCheckpoints(folder, config=config)
    for step in (0, 4, 8):
        checkpoints.save(step, lambda path: path.mkdir(parents=True))
    assert (folder.checkpoints / "best").resolve().name == "step_000008"
