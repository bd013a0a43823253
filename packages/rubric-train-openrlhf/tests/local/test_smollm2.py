from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from rubric_core import PolicyView
from rubric_train_openrlhf.local.start import run_grpo
from rubric_train_openrlhf.policy import load_policy, pack_responses, response_logprobs
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import RolloutRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rubric_train_openrlhf.config.train import TrainConfig


def _loglikelihoods(folder: Path, rows: Sequence[RolloutRow]) -> torch.Tensor:
    """Of each response, in nats, under the model of a folder."""
    policy = load_policy(folder)
    views = [PolicyView(task_id=row.task_id, question=row.prompt) for row in rows]
    batch = pack_responses(
        [policy.codec.encode_prompt(view) for view in views],
        [policy.codec.encode_text(row.response) for row in rows],
    )
    with torch.no_grad():
        logprobs_BT, _ = response_logprobs(policy.model, batch)
    return logprobs_BT.sum(-1)


@pytest.mark.slow
def test_a_step_makes_what_earned_more_likelier(
    smollm2_folder: Path, make_config: Callable[..., TrainConfig]
) -> None:
    config = make_config(
        model={"type": "smollm2"},
        data={"validation": None},
        rollout={"prompts": 2, "group_size": 4, "max_new_tokens": 24},
        optim={
            "learning_rate": 1e-6,
            "warmup_steps": 0,
            "updates_per_rollout": 1,
            "micro_batch": 8,
        },
        checkpoint={"every": 1},
        steps=1,
    )
    run_grpo(config)

    folder = RunFolder(config.out)
    (metrics,) = folder.read_metrics()
    assert metrics.grad_norm > 0
    assert metrics.ratio_mean == pytest.approx(1, abs=1e-4)
    lines = (folder.rollouts / "step_000001.jsonl").read_text("utf-8").splitlines()
    rows = [RolloutRow.model_validate_json(line) for line in lines]
    assert len(rows) == 8
    before_B = _loglikelihoods(smollm2_folder, rows)
    after_B = _loglikelihoods(folder.checkpoints / "step_000001", rows)
    advantages_B = torch.tensor([row.advantage for row in rows])
    assert (advantages_B * (after_B - before_B)).sum() > 0
