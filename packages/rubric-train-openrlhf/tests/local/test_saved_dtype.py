"""A model of 16 bits is trained in 32 and saved in 16; what a run goes on from keeps the 32."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from rubric_train_openrlhf.local.start import run_grpo
from rubric_train_openrlhf.policy import load_policy
from rubric_train_openrlhf.run.checkpoints import checkpoint_path, load_state
from rubric_train_openrlhf.run.folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_judge.testing import ScriptedJudge
    from rubric_train_openrlhf.config.train import TrainConfig
    from rubric_train_openrlhf.policy import Policy


@pytest.fixture
def make_half(
    make_config: Callable[..., TrainConfig], policy: Policy, tmp_path: Path
) -> Callable[..., TrainConfig]:
    """A run of a model whose folder holds bfloat16."""
    replace(policy, saved_dtype=torch.bfloat16).save(tmp_path / "half")
    return lambda **changes: make_config(model={"path": tmp_path / "half"}, **changes)


def _checkpoint(config: TrainConfig, *, step: int) -> Path:
    return checkpoint_path(RunFolder(config.out).checkpoints, step=step)


def test_weights_are_saved_as_they_came_unless_it_is_said(
    make_half: Callable[..., TrainConfig], spread_judge: ScriptedJudge, tmp_path: Path
) -> None:
    for name, asked, dtype in (
        ("a", {}, torch.bfloat16),
        ("b", {"dtype": "float32"}, None),
    ):
        config = make_half(steps=1, out=tmp_path / name, checkpoint=asked)
        run_grpo(config, judge=spread_judge)
        for step in (0, 1):
            saved = load_policy(_checkpoint(config, step=step), dtype="auto").model
            assert saved.dtype == (dtype or torch.float32)
        kept = load_state(_checkpoint(config, step=1)).weights
        assert bool(kept) == (dtype is not None)


def test_a_resumed_run_goes_on_with_the_weights_that_were_trained(
    make_half: Callable[..., TrainConfig], spread_judge: ScriptedJudge, tmp_path: Path
) -> None:
    whole, broken = (
        make_half(steps=4, out=tmp_path / name) for name in ("whole", "broken")
    )
    run_grpo(whole, judge=spread_judge)

    class Killed(Exception):  # noqa: N818
        pass

    def kill(row: Any) -> None:
        if row.step == 3:
            raise Killed

    with pytest.raises(Killed):
        run_grpo(broken, judge=spread_judge, on_step=kill)
    run_grpo(broken, judge=spread_judge, resume=True)

    ends = [
        load_state(_checkpoint(config, step=4)).weights for config in (whole, broken)
    ]
    assert ends[0].keys() == ends[1].keys()
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    start = load_policy(_checkpoint(whole, step=0)).model.state_dict()
    assert any(not torch.equal(start[name], ends[0][name]) for name in start)


def test_the_divergence_of_the_first_step_is_from_what_was_saved(
    make_half: Callable[..., TrainConfig], spread_judge: ScriptedJudge
) -> None:
    sft = {"steps": 2, "batch_size": 2, "learning_rate": 1e-3}
    config = make_half(steps=1, sft=sft, optim={"updates_per_rollout": 1})
    run_grpo(config, judge=spread_judge)
    (row,) = RunFolder(config.out).read_metrics()
    assert row.kl == pytest.approx(0, abs=1e-7)
