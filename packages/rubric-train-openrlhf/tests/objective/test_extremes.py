"""The loss and its gradient stay finite wherever the log-probabilities are."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rubric_train_openrlhf.objective import (
    IcePop,
    ObjectiveBatch,
    ObjectiveConfig,
    SeqMaskTruncated,
    Truncated,
    UpdateSize,
    policy_loss,
)

VARIANTS = {
    "paper": ObjectiveConfig(),
    "dual-clip": ObjectiveConfig(dual_clip=3.0),
    "gspo": ObjectiveConfig(ratio="sequence", aggregation="sequence"),
    "plain-is": ObjectiveConfig(importance=Truncated(cap=math.inf)),
    "plain-is-sequence": ObjectiveConfig(
        importance=Truncated(cap=math.inf, level="sequence")
    ),
    "icepop": ObjectiveConfig(importance=IcePop()),
    "seq-mask-tis": ObjectiveConfig(importance=SeqMaskTruncated()),
    "gspo-tis": ObjectiveConfig(
        ratio="sequence", aggregation="sequence", importance=Truncated()
    ),
}

each_variant = pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
DIFFERENCES = st.lists(st.floats(-1e4, 1e4, width=32), min_size=3, max_size=3)


def _batch(
    offsets: torch.Tensor, advantage: float = 1.0
) -> tuple[torch.Tensor, ObjectiveBatch]:
    """Policy at −1, the others away from it by an offset for each token."""
    logprobs = torch.full_like(offsets, -1.0).requires_grad_()
    batch = ObjectiveBatch(
        gen_logprobs_BT=-1 - offsets,
        advantages_B=torch.full((len(offsets),), advantage, dtype=offsets.dtype),
        mask_BT=torch.ones(offsets.shape, dtype=torch.bool),
        ref_logprobs_BT=-1 + offsets,
        old_logprobs_BT=-1 + offsets / 2,
    )
    return logprobs, batch


@each_variant
@given(differences=DIFFERENCES, advantage=st.sampled_from([-3.0, 0.0, 3.0]))
def test_loss_and_gradient_are_finite(
    config: ObjectiveConfig, differences: list[float], advantage: float
) -> None:
    logprobs, batch = _batch(torch.tensor([differences]), advantage)
    result = policy_loss(logprobs, batch, config=config)
    (gradient,) = torch.autograd.grad(result.loss, logprobs)
    assert result.loss.isfinite()
    assert gradient.isfinite().all()
    assert all(value.isfinite() for value in result.metrics.values())


@each_variant
@pytest.mark.parametrize("sign", [-1, 1])
def test_tokens_impossible_elsewhere_leave_loss_and_gradient_finite(
    config: ObjectiveConfig, sign: int
) -> None:
    offsets = torch.tensor([[0.1, sign * math.inf, -0.1]])
    logprobs, batch = _batch(offsets)
    result = policy_loss(logprobs, batch, config=config)
    (gradient,) = torch.autograd.grad(result.loss, logprobs)
    assert result.loss.isfinite()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("log_ratio", [-20.0, 20.0])
@pytest.mark.parametrize("advantage", [-1.0, 1.0])
def test_ratio_at_its_bound_has_the_loss_of_the_formula(
    log_ratio: float, advantage: float
) -> None:
    logprobs, batch = _batch(
        torch.tensor([[log_ratio]], dtype=torch.float64), advantage
    )
    config = ObjectiveConfig(kl_coef=0.0)
    ratio = math.exp(log_ratio)
    expected = -min(ratio * advantage, min(max(ratio, 0.8), 1.2) * advantage)
    loss = policy_loss(logprobs, batch, config=config).loss.item()
    assert loss == pytest.approx(expected, rel=1e-12)


def test_dual_clip_bounds_the_loss_of_the_largest_ratio() -> None:
    logprobs, batch = _batch(
        torch.tensor([[1000.0]], dtype=torch.float64), advantage=-2.0
    )
    result = policy_loss(
        logprobs, batch, config=ObjectiveConfig(dual_clip=3.0, kl_coef=0.0)
    )
    assert result.loss.item() == 6.0
    assert result.metrics["dual_clip_frac"].item() == 1.0


@each_variant
def test_micro_batch_of_masked_responses_adds_nothing(config: ObjectiveConfig) -> None:
    logprobs, batch = _batch(torch.full((2, 3), math.nan), advantage=math.nan)
    masked = replace(batch, mask_BT=torch.zeros(2, 3, dtype=torch.bool))
    result = policy_loss(
        logprobs, masked, config=config, size=UpdateSize(tokens=7, sequences=2)
    )
    (gradient,) = torch.autograd.grad(result.loss, logprobs)
    assert result.loss.item() == 0.0
    assert torch.equal(gradient, torch.zeros_like(gradient))
    assert all(value.item() == 0.0 for value in result.metrics.values())


def test_not_a_number_on_a_response_token_is_not_hidden() -> None:
    logprobs, batch = _batch(torch.tensor([[0.1, math.nan, 0.2]]))
    assert policy_loss(logprobs, batch, config=ObjectiveConfig()).loss.isnan()


@given(st.floats(-5, 5), st.floats(-2, 2))
def test_single_precision_follows_double(offset: float, advantage: float) -> None:
    double = torch.tensor([[offset, offset / 3, -offset / 7]], dtype=torch.float64)
    losses = []
    for offsets in (double, double.float()):
        logprobs, batch = _batch(offsets, advantage)
        losses.append(
            policy_loss(logprobs, batch, config=ObjectiveConfig()).loss.item()
        )
    # Ratios up to e⁵ near a log-probability of 1: some 1e-6 relative to the largest term.
    scale = 1 + math.exp(abs(offset)) * (abs(advantage) + 0.01)
    assert abs(losses[0] - losses[1]) <= 2e-6 * scale
