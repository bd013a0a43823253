from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from rubric_core import Answer, Thought
from rubric_judge.ui.console.progress import Progress
from rubric_train_openrlhf.config.sections import ValidationConfig
from rubric_train_openrlhf.config.train import PolicySettings
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import HeldoutReward
from rubric_train_openrlhf.step.passes import HeldoutPasses, UnclosedThoughts

if TYPE_CHECKING:
    from pathlib import Path


def passes(
    folder: RunFolder, *, means: list[float], answers: list[Answer] | None = None
) -> HeldoutPasses:
    """Passes of every second step of five; each ask gives the next mean."""
    left = iter(means)

    def ask(_: int) -> tuple[HeldoutReward, list[int], list[Answer]]:
        mean = next(left)
        reward = HeldoutReward(
            reward_mean=mean,
            reward_std=0.1,
            zero_reward_frac=0.0,
            n=2,
            criteria={"a": 0.5},
        )
        return reward, [2, 4], answers or [Answer("a"), Answer("b")]

    return HeldoutPasses(
        folder,
        config=PolicySettings(steps=5, validation=ValidationConfig(every=2)),
        progress=Progress.silent(),
        ask=ask,
        thoughts=UnclosedThoughts(),
    )


def test_most_responses_without_an_end_of_their_thought_are_told_once(
    tmp_path: Path,
) -> None:
    unclosed = [Answer("", Thought.UNCLOSED), Answer("", Thought.UNCLOSED), Answer("a")]
    asked = passes(RunFolder(tmp_path), means=[0.1, 0.2], answers=unclosed)

    with capture_logs() as logs:
        rows = [asked.pass_if_due(step) for step in (0, 2)]

    told = [log for log in logs if log["event"] == "train.thoughts.unclosed"]
    assert len(told) == 1
    assert "enable_thinking=false" in told[0]["todo"]
    assert [row and row.unclosed_thought_frac for row in rows] == [2 / 3, 2 / 3]
    assert [row and (row.thought_frac, row.empty_answer_frac) for row in rows] == [
        (2 / 3, 0)
    ] * 2


def test_a_pass_is_due_before_training_every_so_many_steps_and_at_the_end(
    tmp_path: Path,
) -> None:
    folder = RunFolder(tmp_path)
    asked = passes(folder, means=[0.1, 0.2, 0.3, 0.4])

    made = [step for step in range(6) if asked.pass_if_due(step) is not None]

    assert made == [0, 2, 4, 5]
    assert [row.step for row in folder.read_heldout()] == made


def test_a_pass_that_was_written_is_not_asked_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    passes(folder, means=[0.1]).pass_if_due(0)

    assert passes(folder, means=[]).pass_if_due(0) is None
    assert len(folder.read_heldout()) == 1


@pytest.mark.parametrize(
    ("before", "best"), [(None, True), (0.4, True), (0.5, False), (0.6, False)]
)
def test_a_pass_is_the_best_if_none_was_as_good(
    tmp_path: Path, before: float | None, *, best: bool
) -> None:
    asked = passes(
        RunFolder(tmp_path), means=[*([] if before is None else [before]), 0.5]
    )
    if before is not None:
        asked.pass_if_due(0)

    row = asked.pass_if_due(2)

    assert row is not None
    assert row.best is best
    assert row.response_tokens_mean == 3.0
