from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.policy import (
    Policy,
    TinyConfig,
    build_tiny_policy,
    load_policy,
)
from rubric_train_openrlhf.run.checkpoints import (
    TrainerState,
    checkpoint_path,
    drop_after,
    latest_checkpoint,
    load_state,
    mark_best,
    prune,
    save_checkpoint,
    step_of,
)

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = TinyConfig(
    vocab_size=300, hidden_size=8, intermediate_size=8, layers=1, heads=1, kv_heads=1
)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return build_tiny_policy(["some text"], SHAPE, seed=0)


def state(step: int) -> TrainerState:
    moments = {
        "state": {0: {"exp_avg": torch.full((2,), 0.1)}},
        "param_groups": [{"lr": 0.1}],
    }
    return TrainerState(
        step=step,
        prompts_drawn=8 * step,
        wall_s=1.5,
        optimizer=moments,
        schedule={"last_epoch": step},
    )


def test_a_checkpoint_is_a_model_folder_with_the_trainers_state(
    policy: Policy, tmp_path: Path
) -> None:
    path = save_checkpoint(tmp_path, policy, state(2))

    read = load_state(path)
    assert path.name == "step_000002"
    assert (read.step, read.prompts_drawn, read.wall_s) == (2, 16, 1.5)
    assert torch.equal(read.optimizer["state"][0]["exp_avg"], torch.full((2,), 0.1))
    loaded = load_policy(path).model.state_dict()
    for name, tensor in policy.model.state_dict().items():
        assert torch.equal(loaded[name], tensor)
    assert {child.name for child in tmp_path.iterdir()} == {"step_000002"}


def test_the_first_the_best_and_the_newest_are_kept(
    policy: Policy, tmp_path: Path
) -> None:
    for step in (0, 1, 2, 3, 10):
        save_checkpoint(tmp_path, policy, state(step))
    mark_best(tmp_path, step=1)

    prune(tmp_path, keep=2, best={1})

    assert {path.name for path in tmp_path.iterdir()} == {
        "best",
        "step_000000",
        "step_000001",
        "step_000003",
        "step_000010",
    }
    latest = latest_checkpoint(tmp_path)
    assert latest is not None
    assert step_of(latest) == 10
    assert load_state(tmp_path / "best").step == 1


def test_checkpoints_of_steps_that_are_done_again_are_dropped(tmp_path: Path) -> None:
    for step in (0, 5, 10, 15):
        checkpoint_path(tmp_path, step=step).mkdir()
    (tmp_path / "trainer").mkdir()
    drop_after(tmp_path, step=5)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step_000000",
        "step_000005",
        "trainer",
    ]


def test_without_a_checkpoint_there_is_no_latest(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path) is None


def test_names_that_no_checkpoint_gets_are_ignored(
    policy: Policy, tmp_path: Path
) -> None:
    for name in ("step_foo", "step_9", "step_000009.bak"):
        (tmp_path / name).mkdir()
    save_checkpoint(tmp_path, policy, state(1))
    save_checkpoint(tmp_path, policy, state(2))

    prune(tmp_path, keep=1, best=())

    assert latest_checkpoint(tmp_path) == tmp_path / "step_000002"
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"step_foo", "step_9", "step_000009.bak", "step_000002"}


@pytest.mark.parametrize("damage", ["cut", "flip", "fields", "types"])
def test_any_damage_to_the_state_is_one_error(
    policy: Policy, tmp_path: Path, damage: str
) -> None:
    path = save_checkpoint(tmp_path, policy, state(2)) / "trainer_state.pt"
    whole = path.read_bytes()
    if damage == "types":
        torch.save({**vars(state(2)), "step": "2"}, path)
        contents = [path.read_bytes()]
    elif damage == "fields":
        torch.save({"step": 2}, path)
        contents = [path.read_bytes()]
    elif damage == "cut":
        contents = [whole[:size] for size in range(0, len(whole), 101)]
    else:
        contents = [
            whole[:80],
            b"\x80\x02",
            b"\x80\x02cfoo\nbar\n.",
            b"\x80\x02J\x00",
            b"\x80X\xff",
        ]

    for content in contents:
        path.write_bytes(content)
        with pytest.raises(
            ResumeError, match=r"trainer_state\.pt.*move step_000002 away"
        ):
            load_state(path.parent)


@pytest.mark.parametrize("content", [None, b"not a pickle"])
def test_a_checkpoint_without_its_state_cannot_be_resumed(
    tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "trainer_state.pt").write_bytes(content)

    with pytest.raises(ResumeError, match="no trainer state"):
        load_state(tmp_path)
