from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rubric_core import Criterion, JudgeResult, Rubric
from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import (
    ClusterStep,
    HeldoutRow,
    JudgementRow,
    MetricsRow,
    RolloutRow,
    row_id,
)

if TYPE_CHECKING:
    from pathlib import Path


def metrics(step: int) -> MetricsRow:
    values: dict[str, Any] = {
        name: {} if name in {"criteria", "zero_reward_by_reason", "by_fallback"} else 1
        for name in MetricsRow.model_fields
        if name not in {"cluster", "audit", "monitor"}
    }
    return MetricsRow(**{**values, "step": step})


CLUSTER = ClusterStep(
    sampler_gap=0.01,
    updates=4,
    experience_s=1.0,
    sync_s=1.0,
    engine_restarts=0,
    judge_restarts=0,
    resent_responses=0,
    attribution={"a": 0.5},
)


def heldout(step: int) -> HeldoutRow:
    return HeldoutRow(
        step=step,
        reward_mean=0.5,
        reward_std=0.1,
        zero_reward_frac=0.0,
        n=4,
        criteria={"a": 0.5},
        response_tokens_mean=9.0,
        eval_s=0.1,
        best=step == 0,
    )


def rollout(step: int) -> RolloutRow:
    return RolloutRow(
        id=row_id(step=step, prompt=3, response=7),
        step=step,
        task_id="t",
        prompt="What?",
        response="That.",
        reward=None,
        advantage=0.0,
        tokens=2,
        ended=True,
        outcome="unavailable",
    )


def judgement(step: int) -> JudgementRow:
    rubric = Rubric(criteria=(Criterion(id="a", weight=2.0),))
    return JudgementRow(
        id=row_id(step=step, prompt=3, response=7),
        step=step,
        task_id="t",
        result=JudgeResult.scored(rubric, {"a": 1.0}, judge="j", reasoning="why"),
        z={"a": 0.5},
        shares={"a": 1.0},
        attribution={"a": 0.0},
    )


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.write_heldout(heldout(0))
    for step in (1, 2, 3):
        folder.write_step(
            metrics(step), rollouts=[rollout(step)], judgements=[judgement(step)]
        )
        folder.write_heldout(heldout(step))
    return folder


def steps_of(folder: RunFolder) -> tuple[list[int], list[int], list[str], list[str]]:
    return (
        [row.step for row in folder.read_metrics()],
        [row.step for row in folder.read_heldout()],
        sorted(path.name for path in folder.rollouts.iterdir()),
        sorted(path.name for path in folder.judgements.iterdir()),
    )


def test_rows_read_back_as_they_were_written(folder: RunFolder) -> None:
    assert folder.read_metrics() == [metrics(step) for step in (1, 2, 3)]
    assert folder.read_heldout() == [heldout(step) for step in (0, 1, 2, 3)]
    line = (folder.judgements / "step_000002.jsonl").read_text()
    assert JudgementRow.model_validate_json(line) == judgement(2)
    assert row_id(step=1, prompt=3, response=7) == "s000001-p003-g07"


def test_cutting_back_removes_all_of_the_later_steps(folder: RunFolder) -> None:
    folder.cut_back(2)

    files = ["step_000001.jsonl", "step_000002.jsonl"]
    assert steps_of(folder) == ([1, 2], [0, 1, 2], files, files)


def test_cutting_back_to_before_step_1_keeps_the_pass_before_training(
    folder: RunFolder,
) -> None:
    folder.cut_back(0)

    assert steps_of(folder) == ([], [0], [], [])


def test_files_with_names_that_no_run_gives_are_left_alone(folder: RunFolder) -> None:
    for place in (folder.rollouts, folder.judgements):
        (place / "step_foo.jsonl").write_text("mine")
        (place / "step_9.jsonl").write_text("mine")

    folder.cut_back(0)

    assert steps_of(folder)[2:] == (["step_9.jsonl", "step_foo.jsonl"],) * 2


@pytest.mark.parametrize("name", ["metrics.jsonl", "heldout.jsonl"])
def test_a_damaged_row_is_refused_before_anything_is_cut(
    folder: RunFolder, name: str
) -> None:
    path = folder.path / name
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"\xff\x00\n" + b"".join(lines[2:]))
    before = {file: file.read_bytes() for file in folder.path.rglob("*.jsonl")}

    with pytest.raises(ResumeError, match=rf"{name}.*line 2 is missing or damaged"):
        folder.cut_back(2, heldout=(0, 1, 2))
    with pytest.raises(ResumeError, match=rf"line 2 of .*{name}"):
        _ = folder.read_metrics(), folder.read_heldout()

    assert before == {file: file.read_bytes() for file in folder.path.rglob("*.jsonl")}


@pytest.mark.parametrize(
    "tail", ["{", '{"step": 4', '{"step": 4}\n', '{"step": 3}\n{"st']
)
def test_half_a_line_at_the_end_is_cut_off(folder: RunFolder, tail: str) -> None:
    with folder.metrics.open("a") as file:
        file.write(tail)

    folder.cut_back(3)

    assert [row.step for row in folder.read_metrics()] == [1, 2, 3]


def test_a_checkpoint_whose_steps_are_missing_cannot_be_resumed(
    folder: RunFolder,
) -> None:
    with pytest.raises(ResumeError, match="every step from 1 to 5"):
        folder.cut_back(5)


def test_a_rollout_row_has_no_room_for_what_the_judge_saw() -> None:
    with pytest.raises(ValueError, match="passage") as caught:
        RolloutRow.model_validate(
            {**rollout(1).model_dump(), "passage": "the secret text"}
        )

    assert "secret" not in str(caught.value)


def test_only_a_cluster_has_figures_of_one_and_no_entropy(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_metrics(metrics(1))
    folder.write_metrics(
        metrics(2).model_copy(update={"cluster": CLUSTER, "entropy": None})
    )

    first, second = folder.metrics.read_text().splitlines()
    assert "cluster" not in first
    assert '"cluster":{"sampler_gap":0.01' in second
    plain, clustered = folder.read_metrics()
    assert plain.cluster is None
    assert clustered.cluster == CLUSTER
    assert clustered.entropy is None
