"""Against numbers recorded from NeMo-RL, the paper's base, which this Python cannot import.

The numbers are float32, so agreement ends near 1e-6. `nemo_rl.json` says where they are from.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rubric_core import group_advantages
from rubric_train_openrlhf.objective import (
    IcePop,
    ObjectiveBatch,
    ObjectiveConfig,
    SeqMaskTruncated,
    Truncated,
    k3,
    policy_loss,
    token_mean,
)

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "nemo_rl.json").read_text(encoding="utf-8")
)
LOSSES: dict[str, Any] = RECORDED["clipped_pg_loss"]
PLAIN_IS = float("inf")
GSPO = {"ratio": "sequence", "aggregation": "sequence"}

# Name of the recorded case → our settings. NeMo-RL's ratio is always to the recomputed π_old;
# where it corrects nothing, our π_gen has to be that π_old.
UNCORRECTED = {
    "plain": ObjectiveConfig(kl_coef=0),
    "dual3": ObjectiveConfig(kl_coef=0, dual_clip=3.0),
    "gspo": ObjectiveConfig(kl_coef=0, **GSPO),
}
CORRECTED = {
    "IS": ObjectiveConfig(kl_coef=0, importance=Truncated(cap=PLAIN_IS)),
    "tis2": ObjectiveConfig(kl_coef=0, importance=Truncated(cap=2.0)),
    "icepop": ObjectiveConfig(kl_coef=0, importance=IcePop(low=0.8, high=1.3)),
    "seqmask": ObjectiveConfig(
        kl_coef=0, importance=SeqMaskTruncated(low=0.9, high=1.1)
    ),
    # With a sequence ratio NeMo-RL weights by the product over the response.
    "gspo+IS": ObjectiveConfig(
        kl_coef=0, **GSPO, importance=Truncated(cap=PLAIN_IS, level="sequence")
    ),
}


def _group(row: dict[str, list[float]]) -> str:
    return f"{row['rewards'][:4]} of {len(row['rewards'])}"


def _tensor(name: str) -> torch.Tensor:
    return torch.tensor(LOSSES["inputs"][name], dtype=torch.float64)


def _inputs() -> tuple[torch.Tensor, ObjectiveBatch]:
    batch = ObjectiveBatch(
        gen_logprobs_BT=_tensor("generation_logprobs"),
        advantages_B=_tensor("advantages"),
        mask_BT=_tensor("token_mask").bool(),
        ref_logprobs_BT=_tensor("reference_policy_logprobs"),
        old_logprobs_BT=_tensor("prev_logprobs"),
    )
    return _tensor("curr_logprobs").requires_grad_(), batch


def _assert_recorded(name: str, loss: torch.Tensor, logprobs: torch.Tensor) -> None:
    case = LOSSES["cases"][name]
    (gradient,) = torch.autograd.grad(loss, logprobs)
    assert loss.item() == pytest.approx(case["loss"], rel=1e-6, abs=1e-6)
    recorded = torch.tensor(case["grad"], dtype=torch.float64)
    torch.testing.assert_close(gradient, recorded, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", UNCORRECTED)
def test_loss_and_gradient_equal_the_recorded_ones(name: str) -> None:
    logprobs, batch = _inputs()
    assert batch.old_logprobs_BT is not None
    batch = replace(batch, gen_logprobs_BT=batch.old_logprobs_BT)
    loss = policy_loss(logprobs, batch, config=UNCORRECTED[name]).loss
    _assert_recorded(name, loss, logprobs)


@pytest.mark.parametrize("name", CORRECTED)
def test_corrected_loss_and_gradient_equal_the_recorded_ones(name: str) -> None:
    logprobs, batch = _inputs()
    loss = policy_loss(logprobs, batch, config=CORRECTED[name]).loss
    _assert_recorded(name, loss, logprobs)


def test_divergence_differs_by_the_score_factor_alone() -> None:
    """NeMo-RL ≥ 0.7 multiplies k3 by exp(log π_θ − sg[log π_θ]), then clamps it at 10."""
    logprobs, batch = _inputs()
    assert batch.old_logprobs_BT is not None
    assert batch.ref_logprobs_BT is not None
    batch = replace(batch, gen_logprobs_BT=batch.old_logprobs_BT)
    ours = policy_loss(
        logprobs, batch, config=ObjectiveConfig(kl_output_clamp=10.0)
    ).loss
    assert ours.item() == pytest.approx(LOSSES["cases"]["k3_0.01"]["loss"], rel=1e-6)
    plain = policy_loss(logprobs, batch, config=ObjectiveConfig(kl_coef=0)).loss
    score = (logprobs - logprobs.detach()).exp()
    divergence = (k3(logprobs, batch.ref_logprobs_BT) * score).clamp(max=10.0)
    total = int(batch.mask_BT.sum())
    theirs = plain + 0.01 * token_mean(
        divergence, mask_BT=batch.mask_BT, total_tokens=total
    )
    (gradient,) = torch.autograd.grad(ours, logprobs)
    recorded = torch.tensor(LOSSES["cases"]["k3_0.01"]["grad"], dtype=torch.float64)
    assert (gradient - recorded).abs().max() == pytest.approx(2.6e-3, rel=0.05)
    _assert_recorded("k3_0.01", theirs, logprobs)


@pytest.mark.parametrize(
    ("column", "output_clamp"), [("nemo_rl", 10.0), ("nemo_rl_no_output_clamp", None)]
)
def test_k3_equals_the_recorded_values(column: str, output_clamp: float | None) -> None:
    u = torch.tensor(RECORDED["k3"]["u"], dtype=torch.float64)
    recorded = torch.tensor(RECORDED["k3"][column], dtype=torch.float64)
    ours = k3(torch.zeros_like(u), u, output_clamp=output_clamp)
    torch.testing.assert_close(ours, recorded, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("row", RECORDED["advantages"], ids=_group)
def test_leave_one_out_advantages_equal_the_recorded_ones(
    row: dict[str, list[float]],
) -> None:
    ours = group_advantages([row["rewards"]], std="leave_one_out")
    if len(set(row["rewards"])) == 1:
        # float32 gives constant groups up to 3.4e-4; ours are exactly 0.
        assert np.abs(row["leave_one_out"]).max() < 4e-4
        assert not ours.any()
    else:
        np.testing.assert_allclose(ours[0], row["leave_one_out"], rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("row", RECORDED["advantages"], ids=_group)
def test_mean_baseline_is_ours_times_g_minus_one_over_g(
    row: dict[str, list[float]],
) -> None:
    """Their δ is 1e-6, and a mean over all G in the place of the mean over the other G − 1."""
    rewards = row["rewards"]
    if len(set(rewards)) == 1:
        return
    ours = group_advantages([rewards], std="sample", delta=1e-6)
    shrunk = ours[0] * (len(rewards) - 1) / len(rewards)
    np.testing.assert_allclose(shrunk, row["mean"], rtol=2e-5, atol=1e-6)


def test_whole_group_std_and_leave_one_out_std_are_two_formulas() -> None:
    """One success among 32: its siblings have no spread, so NeMo-RL does not scale it at all."""
    rewards = [[1.0] + [0.0] * 31]
    assert group_advantages(rewards, std="leave_one_out")[0, 0] == pytest.approx(1.0)
    assert group_advantages(rewards, std="sample")[0, 0] == pytest.approx(
        5.657, abs=5e-4
    )
    assert group_advantages(rewards, std="population")[0, 0] == pytest.approx(
        5.747, abs=5e-4
    )
