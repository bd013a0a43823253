"""A verifier of Harbor: its files, and no file where there was no judgement."""

import json
from pathlib import Path

import pytest

from rubric_core import ConfigError, JudgeResult, Reason, Task, write_tasks
from rubric_core.errors import UnavailableRewardError
from rubric_judge.adapters.harbor import write_rewards
from rubric_judge.testing import ScriptedJudge


@pytest.fixture
def answer(tmp_path: Path) -> Path:
    file = tmp_path / "answer.md"
    file.write_text(
        "<think>gradient clipping</think>It is the cross entropy.", encoding="utf-8"
    )
    return file


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A folder with rewards of an earlier verifier, which nothing may take for this one's."""
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "reward.txt").write_text("1.0")
    (folder / "reward.json").write_text('{"reward": 1.0}')
    return folder


@pytest.fixture
def task_file(tmp_path: Path, task: Task) -> Path:
    file = tmp_path / "rubric_task.jsonl"
    write_tasks(file, [task])
    return file


def test_a_reward_has_a_key_for_each_criterion(
    answer: Path, logs: Path, judge_file: str, task_file: Path
) -> None:
    found = write_rewards(answer, folder=logs, judge=judge_file, tasks=task_file)

    assert found == {"reward": 0.75, "rubric/loss": 1.0, "rubric/target": 0.0}
    assert json.loads((logs / "reward.json").read_text()) == found
    assert not (logs / "reward.txt").exists()


@pytest.mark.parametrize(
    "content", [None, b"", b"\xff\xfe", b"<think>It is the cross entropy."]
)
def test_an_answer_that_is_none_earns_nothing(
    content: bytes | None, tmp_path: Path, judge_file: str, task_file: Path
) -> None:
    answer = tmp_path / "answer.md"
    if content is not None:
        answer.write_bytes(content)

    found = write_rewards(answer, folder=tmp_path, judge=judge_file, tasks=task_file)

    assert found["reward"] == 0


def test_a_failed_judge_leaves_no_reward(
    answer: Path, logs: Path, task_file: Path
) -> None:
    judge = ScriptedJudge(JudgeResult.unavailable(Reason.TIMEOUT))

    with pytest.raises(UnavailableRewardError, match="timeout"):
        write_rewards(answer, folder=logs, judge=judge, tasks=task_file)

    assert list(logs.iterdir()) == []


def test_of_several_tasks_one_is_named(
    answer: Path, logs: Path, judge_file: str, tasks_file: str, task: Task
) -> None:
    with pytest.raises(
        ConfigError, match="task_id: say which one, for `tasks` holds 2"
    ):
        write_rewards(answer, folder=logs, judge=judge_file, tasks=tasks_file)
    assert list(logs.iterdir()) == []

    named = write_rewards(
        answer, folder=logs, judge=judge_file, tasks=tasks_file, task_id=task.task_id
    )

    assert named["reward"] == 0.75
