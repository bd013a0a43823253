"""What two steps left behind, with one thing wrong at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rubric_core import group_advantages
from rubric_train_openrlhf.cluster.rehearse import aftermath
from rubric_train_openrlhf.cluster.rehearse.checking import Finding, Status
from rubric_train_openrlhf.config.train import parse_config
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import (
    ClusterStep,
    HeldoutRow,
    MetricsRow,
    RolloutRow,
    row_id,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rubric_train_openrlhf.config.train import TrainConfig

P, G = 2, 4
REWARDS = np.array([[0.0, 0.25, 0.5, 1.0], [0.5, 0.5, 0.5, 0.5]])


def config(folder: Path, **sections: object) -> TrainConfig:
    values: dict[str, Any] = {
        "backend": "openrlhf",
        "model": {"type": "path", "path": "m"},
        "data": {"train": "t.jsonl", "validation": "v.jsonl"},
        "rollout": {"prompts": P, "group_size": G, "max_new_tokens": 10},
        "optim": {"updates_per_rollout": 1, "micro_batch": 2},
        "cluster": {
            "device": "cpu",
            "gpus_per_node": 1,
            "max_len": 64,
            "deepspeed": {"forward_micro_batch": 2},
        },
        "precision": "bfloat16",
        "steps": 2,
        "out": str(folder),
    }
    return parse_config(values | sections)


def metrics(step: int, **changes: object) -> MetricsRow:
    numbers = dict.fromkeys(MetricsRow.model_fields, 0.5)
    whole = ("step", "response_tokens_max", "generated_tokens", "resampled_prompts")
    row: dict[str, Any] = {**numbers, **dict.fromkeys(whole, 1), "step": step}
    row |= {"zero_reward_by_reason": {}, "criteria": {}, "by_fallback": {}}
    row |= {"audit": None, "monitor": {}}
    cluster = dict.fromkeys(ClusterStep.model_fields, 0.0)
    row["cluster"] = cluster | {"attribution": {}, "sampler_gap": 0.001}
    for name, value in changes.items():
        if name in ClusterStep.model_fields:
            row["cluster"][name] = value
        else:
            row[name] = value
    return MetricsRow.model_validate(row)


def rollout_rows(
    step: int, rewards_PG: np.ndarray, advantages_PG: np.ndarray
) -> list[RolloutRow]:
    return [
        RolloutRow(
            id=row_id(step=step, prompt=p, response=g),
            step=step,
            task_id=f"task-{p}",
            prompt="?",
            response="!",
            reward=None if np.isnan(rewards_PG[p, g]) else float(rewards_PG[p, g]),
            advantage=float(advantages_PG[p, g]),
            tokens=7,
            ended=True,
            outcome="unavailable" if np.isnan(rewards_PG[p, g]) else "scored",
        )
        for p in range(P)
        for g in range(G)
    ]


def write(folder: Path, rewards_PG: np.ndarray, advantages_PG: np.ndarray) -> RunFolder:
    run = RunFolder(folder)
    for step in (1, 2):
        rows = rollout_rows(step, rewards_PG, advantages_PG)
        run.write_step(metrics(step), rollouts=rows, judgements=[])
    return run


def statuses(found: Finding | Iterable[Finding]) -> list[Status]:
    return [one.status for one in ([found] if isinstance(found, Finding) else found)]


def test_right_advantages_pass(tmp_path: Path) -> None:
    run = write(tmp_path, REWARDS, group_advantages(REWARDS))
    checked = config(tmp_path)
    assert statuses(aftermath.check_steps(checked, run)) == [Status.PASSED]
    assert statuses(aftermath.check_rewards(checked, run)) == [Status.PASSED]
    assert statuses(aftermath.check_advantages(checked, run)) == [Status.PASSED]


def test_one_wrong_advantage_fails(tmp_path: Path) -> None:
    wrong = group_advantages(REWARDS)
    wrong[0, 2] += 1e-5
    found = aftermath.check_advantages(
        config(tmp_path), write(tmp_path, REWARDS, wrong)
    )
    assert found.status is Status.FAILED
    assert "1.0e-05" in found.detail


def test_another_divisor_fails(tmp_path: Path) -> None:
    run = write(tmp_path, REWARDS, group_advantages(REWARDS, std="population"))
    assert statuses(aftermath.check_advantages(config(tmp_path), run)) == [
        Status.FAILED
    ]
    right = config(tmp_path, advantage={"std": "population"})
    assert statuses(aftermath.check_advantages(right, run)) == [Status.PASSED]


def test_masked_members_are_left_out_and_reported(tmp_path: Path) -> None:
    masked = REWARDS.copy()
    masked[0, 1] = np.nan
    valid = ~np.isnan(masked)
    run = write(tmp_path, masked, group_advantages(masked, valid_PG=valid))
    assert statuses(aftermath.check_advantages(config(tmp_path), run)) == [
        Status.PASSED
    ]
    (found,) = aftermath.check_rewards(config(tmp_path), run)
    assert found.status is Status.FAILED
    assert "2 unavailable" in found.detail


def test_equal_rewards_are_a_warning(tmp_path: Path) -> None:
    equal = np.full((P, G), 0.5)
    run = write(tmp_path, equal, np.zeros((P, G)))
    assert statuses(aftermath.check_rewards(config(tmp_path), run)) == [Status.WARNING]


def test_advantages_that_are_all_0_show_nothing_of_the_formula(tmp_path: Path) -> None:
    run = write(tmp_path, np.full((P, G), 0.5), np.zeros((P, G)))
    found = aftermath.check_advantages(config(tmp_path), run)
    assert found.status is Status.UNCHECKED
    assert "all 16 advantages are 0" in found.detail
    assert "--judge fake" in found.remedy


@pytest.mark.parametrize(
    ("advantages", "status"), [(0.0, Status.WARNING), (0.7, Status.FAILED)]
)
def test_steps_without_a_gradient_do_not_pass(
    tmp_path: Path, advantages: float, status: Status
) -> None:
    run = RunFolder(tmp_path)
    for step in (1, 2):
        row = metrics(step, grad_norm=0.0, advantage_abs_mean=advantages)
        run.write_step(row, rollouts=[], judgements=[])
    found = aftermath.check_steps(config(tmp_path), run)
    assert found.status is status
    assert "every gradient of 2 steps is 0" in found.detail


def test_engines_are_not_seen_to_follow_a_policy_that_stands_still(
    tmp_path: Path,
) -> None:
    """A gradient in the last step comes after the engines have sampled for it."""
    run = RunFolder(tmp_path)
    for step, grad_norm in ((1, 0.0), (2, 0.5)):
        row = metrics(step, sampler_gap=0.001, grad_norm=grad_norm)
        run.write_step(row, rollouts=[], judgements=[])
    found = aftermath.check_sync(config(tmp_path), run)
    assert found.status is Status.UNCHECKED
    assert "no weight had moved by then" in found.detail


@pytest.mark.parametrize(
    ("gap", "status"), [(0.01, Status.PASSED), (0.8, Status.FAILED)]
)
def test_a_stale_engine_is_seen(tmp_path: Path, gap: float, status: Status) -> None:
    run = RunFolder(tmp_path)
    for step, one in ((1, 0.001), (2, gap)):
        run.write_step(metrics(step, sampler_gap=one), rollouts=[], judgements=[])
    assert statuses(aftermath.check_sync(config(tmp_path), run)) == [status]


def test_a_missing_step_fails(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_step(metrics(1), rollouts=[], judgements=[])
    assert statuses(aftermath.check_steps(config(tmp_path), run)) == [Status.FAILED]


def test_held_out_passes_are_counted(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    tmp_path.mkdir(exist_ok=True)
    for step in (0, 1):
        row = dict.fromkeys(HeldoutRow.model_fields, 0.5)
        row |= {"step": step, "n": 2, "criteria": {}, "best": False, "audit": None}
        run.write_heldout(HeldoutRow.model_validate(row))
    found = aftermath.check_heldout(config(tmp_path), run)
    assert found.status is Status.FAILED
    assert "[0, 1], not [0, 1, 2]" in found.detail
