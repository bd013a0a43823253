"""Every variant of the loss equals the simpler one that it generalises."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from rubric_train_openrlhf.objective import (
    IcePop,
    ObjectiveConfig,
    PolicyLoss,
    SeqMaskTruncated,
    Truncated,
    policy_loss,
)

if TYPE_CHECKING:
    from conftest import MakeResponses, Responses
    from rubric_train_openrlhf.objective import Importance

PAPER = ObjectiveConfig()


def _assert_equal_losses(
    first: PolicyLoss, second: PolicyLoss, logprobs: torch.Tensor
) -> None:
    torch.testing.assert_close(first.loss, second.loss)
    gradients = [
        torch.autograd.grad(x.loss, logprobs, retain_graph=True)[0]
        for x in (first, second)
    ]
    torch.testing.assert_close(*gradients)


REDUCTIONS = {
    "dual clip far away": (ObjectiveConfig(dual_clip=1e12), PAPER),
    "dual clip infinite": (ObjectiveConfig(dual_clip=math.inf), PAPER),
    "clip-higher without an end": (
        ObjectiveConfig(clip_low=1.0, clip_high=math.inf),
        ObjectiveConfig(clip_low=1.0, clip_high=1e12),
    ),
    "kl clamps infinite": (
        ObjectiveConfig(kl_input_clamp=math.inf, kl_output_clamp=math.inf),
        PAPER,
    ),
    "TIS cap infinite": (
        ObjectiveConfig(importance=Truncated(cap=math.inf)),
        ObjectiveConfig(importance=IcePop(low=0.0, high=math.inf)),
    ),
    "Seq-Mask band infinite": (
        ObjectiveConfig(importance=SeqMaskTruncated(low=0.0, high=math.inf)),
        ObjectiveConfig(importance=Truncated(cap=math.inf)),
    ),
    "TIS cap above every weight": (
        ObjectiveConfig(importance=Truncated(cap=1e9)),
        ObjectiveConfig(importance=Truncated(cap=math.inf)),
    ),
}


@pytest.mark.parametrize("pair", REDUCTIONS.values(), ids=REDUCTIONS)
def test_variant_reduces_to_its_special_case(
    responses: Responses, pair: tuple[ObjectiveConfig, ObjectiveConfig]
) -> None:
    general, special = (
        policy_loss(responses.logprobs, responses.batch(), config=config)
        for config in pair
    )
    _assert_equal_losses(general, special, responses.logprobs)


@pytest.mark.parametrize(
    "importance",
    [Truncated(), IcePop(), SeqMaskTruncated(), Truncated(level="sequence")],
)
def test_corrections_change_nothing_where_trainer_and_sampler_agree(
    responses: Responses, importance: Importance
) -> None:
    same = replace(responses, gen=responses.old)
    corrected = policy_loss(
        same.logprobs, same.batch(), config=ObjectiveConfig(importance=importance)
    )
    _assert_equal_losses(
        corrected, policy_loss(same.logprobs, same.batch(), config=PAPER), same.logprobs
    )


def test_plain_importance_sampling_is_the_uncorrected_ratio_inside_the_clip(
    make_responses: MakeResponses,
) -> None:
    r = make_responses(spread=0.01)
    wide = {"clip_low": 1.0, "clip_high": 100.0}
    corrected = ObjectiveConfig(**wide, importance=Truncated(cap=math.inf))
    _assert_equal_losses(
        policy_loss(r.logprobs, r.batch(), config=corrected),
        policy_loss(r.logprobs, r.batch(), config=ObjectiveConfig(**wide)),
        r.logprobs,
    )


def test_sequence_ratio_of_single_tokens_is_the_token_ratio(
    make_responses: MakeResponses,
) -> None:
    r = make_responses(lengths=(1, 1, 1, 1))
    gspo = policy_loss(
        r.logprobs,
        r.batch(),
        config=ObjectiveConfig(ratio="sequence", aggregation="sequence"),
    )
    _assert_equal_losses(
        gspo, policy_loss(r.logprobs, r.batch(), config=PAPER), r.logprobs
    )


def test_no_divergence_without_its_coefficient(responses: Responses) -> None:
    r = responses
    config = ObjectiveConfig(kl_coef=0.0)
    without_ref = policy_loss(
        r.logprobs, replace(r.batch(), ref_logprobs_BT=None), config=config
    )
    with_ref = policy_loss(r.logprobs, r.batch(), config=config)
    _assert_equal_losses(with_ref, without_ref, r.logprobs)
    assert with_ref.metrics["kl"].item() > 0
    assert without_ref.metrics["kl"].item() == 0


def test_divergence_enters_with_its_coefficient(responses: Responses) -> None:
    r = responses
    plain = policy_loss(r.logprobs, r.batch(), config=ObjectiveConfig(kl_coef=0.0))
    held = policy_loss(r.logprobs, r.batch(), config=ObjectiveConfig(kl_coef=0.5))
    torch.testing.assert_close(held.loss, plain.loss + 0.5 * plain.metrics["kl"])


def test_on_policy_loss_with_equal_lengths_is_minus_the_mean_advantage(
    make_responses: MakeResponses,
) -> None:
    r = make_responses(lengths=(4, 4, 4)).on_policy()
    loss = policy_loss(r.logprobs, r.batch(), config=ObjectiveConfig(kl_coef=0.0)).loss
    torch.testing.assert_close(loss, -r.advantages.mean())
