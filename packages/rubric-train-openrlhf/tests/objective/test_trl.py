"""Against `GRPOTrainer._compute_loss` of TRL 1.16.0, called on a stand-in for the trainer."""

from __future__ import annotations

import collections
import types
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from rubric_core import group_advantages
from rubric_train_openrlhf.objective import (
    IcePop,
    ObjectiveConfig,
    Truncated,
    importance_weights,
    k3,
    policy_loss,
    token_mean,
    token_ratio,
)

if TYPE_CHECKING:
    from conftest import MakeResponses, Responses

pytestmark = pytest.mark.stacks
EXACT = {"rtol": 1e-12, "atol": 1e-12}


def _theirs(trl: types.ModuleType, r: Responses, **settings: object) -> torch.Tensor:
    """Their loss; the defaults are the plain surrogate with our constants."""
    weights = settings.pop("importance_sampling_ratio", None)
    args: dict[str, Any] = {
        "epsilon": 0.2,
        "epsilon_high": 0.2,
        "delta": None,
        "beta": 0.0,
        "loss_type": "bnpo",
        "importance_sampling_level": "token",
        "use_bias_correction_kl": False,
        "steps_per_generation": 1,
    } | settings
    trainer = types.SimpleNamespace(
        args=types.SimpleNamespace(**args),
        accelerator=types.SimpleNamespace(
            num_processes=1, gather=lambda x: x, reduce=lambda x, **_: x
        ),
        aux_loss_enabled=False,
        beta=args["beta"],
        current_gradient_accumulation_steps=1,
        epsilon_high=args["epsilon_high"],
        epsilon_low=args["epsilon"],
        importance_sampling_level=args["importance_sampling_level"],
        loss_type=args["loss_type"],
        max_completion_length=r.mask.shape[1],
        model=types.SimpleNamespace(training=True),
        off_policy_mask_threshold=None,
        top_entropy_quantile=1.0,
        use_vllm=weights is not None,
        vllm_importance_sampling_correction=weights is not None,
        _entropy_bonus_enabled=False,
        _get_per_token_logps_and_entropies=lambda *_, **__: (
            r.logprobs,
            torch.zeros_like(r.logprobs),
            None,
        ),
        _metrics={"train": collections.defaultdict(list)},
    )
    tokens = torch.ones_like(r.mask, dtype=torch.int64)
    inputs = {
        "prompt_ids": tokens[:, :1],
        "prompt_mask": tokens[:, :1],
        "completion_ids": tokens,
        "completion_mask": r.mask.long(),
        "advantages": r.advantages,
        "old_per_token_logps": r.old,
        "sampling_per_token_logps": r.gen,
        "ref_per_token_logps": r.ref,
        "num_items_in_batch": r.mask.sum(),
        "importance_sampling_ratio": weights,
    }
    return trl.GRPOTrainer._compute_loss(trainer, None, inputs)


def _ours(r: Responses, **settings: object) -> torch.Tensor:
    """Our loss with the ratio to π_old, as theirs."""
    config = ObjectiveConfig(**({"kl_coef": 0.0} | settings))
    same_sampler = r if config.importance.type != "none" else replace(r, gen=r.old)
    return policy_loss(r.logprobs, same_sampler.batch(), config=config).loss


def _assert_equal(theirs: torch.Tensor, ours: torch.Tensor, r: Responses) -> None:
    torch.testing.assert_close(ours, theirs, **EXACT)
    gradients = [
        torch.autograd.grad(x, r.logprobs, retain_graph=True)[0] for x in (ours, theirs)
    ]
    torch.testing.assert_close(*gradients, **EXACT)


SAME = {
    "plain": ({}, {}),
    "dapo": ({"loss_type": "dapo"}, {}),
    "clip-higher": ({"epsilon_high": 0.28}, {"clip_high": 0.28}),
    "delta is dual clip": ({"delta": 3.0}, {"dual_clip": 3.0}),
    "sequence mean": ({"loss_type": "grpo"}, {"aggregation": "sequence"}),
    "k3": ({"beta": 0.01}, {"kl_coef": 0.01}),
    "gspo": (
        {
            "loss_type": "grpo",
            "importance_sampling_level": "sequence",
            "epsilon": 3e-4,
            "epsilon_high": 4e-4,
        },
        {
            "ratio": "sequence",
            "aggregation": "sequence",
            "clip_low": 3e-4,
            "clip_high": 4e-4,
        },
    ),
    "gspo, token mean": (
        {"importance_sampling_level": "sequence"},
        {"ratio": "sequence"},
    ),
}


@pytest.mark.parametrize("spread", [0.1, 1.0])
@pytest.mark.parametrize("settings", SAME.values(), ids=SAME)
def test_loss_and_gradient_are_equal(
    trl: types.ModuleType,
    make_responses: MakeResponses,
    settings: tuple[dict[str, Any], dict[str, Any]],
    spread: float,
) -> None:
    theirs, ours = settings
    r = make_responses(spread=spread)
    _assert_equal(_theirs(trl, r, **theirs), _ours(r, **ours), r)


@pytest.mark.parametrize(
    "importance",
    [
        Truncated(cap=3.0),
        Truncated(cap=3.0, level="sequence"),
        IcePop(low=0.0, high=3.0),
        IcePop(low=0.0, high=3.0, level="sequence"),
    ],
    ids=[
        "token_truncate",
        "sequence_truncate",
        "token_mask",
        "sequence_mask (their default)",
    ],
)
def test_sampler_correction_multiplies_the_surrogate_as_theirs(
    trl: types.ModuleType,
    make_responses: MakeResponses,
    importance: Truncated | IcePop,
) -> None:
    """Their weights are made inside the generation method; their formula, which is copied here,
    gives exp of the sum over masked tokens for a sequence, in one column."""
    r = make_responses(mismatch=1.0)
    log_ratio = (r.old - r.gen) * r.mask
    if importance.level == "sequence":
        log_ratio = log_ratio.sum(-1, keepdim=True)
    weights = log_ratio.exp()
    if isinstance(importance, Truncated):
        weights = weights.clamp(max=importance.cap)
    else:
        weights = weights.masked_fill(weights > importance.high, 0.0)
    ours = importance_weights(r.old, r.gen, mask_BT=r.mask, importance=importance)
    torch.testing.assert_close(ours, weights.expand_as(ours) * r.mask, **EXACT)
    theirs = _theirs(trl, r, beta=0.01, importance_sampling_ratio=weights)
    _assert_equal(theirs, _ours(r, kl_coef=0.01, importance=importance), r)


def test_difference_divergence_is_weighted_by_the_ratio_there(
    trl: types.ModuleType, responses: Responses
) -> None:
    """`use_bias_correction_kl`, on by default there, multiplies k3 by r_t."""
    r = responses
    theirs = _theirs(trl, r, beta=0.01, use_bias_correction_kl=True)
    ratio = token_ratio(r.logprobs, r.old, mask_BT=r.mask)
    total = int(r.mask.sum())
    weighted = token_mean(
        k3(r.logprobs, r.ref) * ratio, mask_BT=r.mask, total_tokens=total
    )
    _assert_equal(theirs, _ours(r) + 0.01 * weighted, r)
    assert abs(theirs - _ours(r, kl_coef=0.01)) > 1e-4


def test_difference_divergence_has_no_clamp_there(
    trl: types.ModuleType, responses: Responses
) -> None:
    far = replace(responses, ref=responses.logprobs.detach() + 25.0)
    theirs = _theirs(trl, far, beta=0.01)
    _assert_equal(theirs, _ours(far, kl_coef=0.01, kl_input_clamp=float("inf")), far)
    assert theirs > 100 * _ours(far, kl_coef=0.01)


def test_difference_ratio_has_no_bound_there(
    trl: types.ModuleType, responses: Responses
) -> None:
    """Ours stops at e²⁰; theirs goes on, and is infinite from e⁷¹⁰ (float32: e⁸⁹)."""
    bad = replace(responses, advantages=-torch.ones(6, dtype=torch.float64))
    inside = replace(bad, old=bad.logprobs.detach() - 19.9)
    _assert_equal(_theirs(trl, inside), _ours(inside), inside)
    beyond = replace(bad, old=bad.logprobs.detach() - 25.0)
    assert _theirs(trl, beyond).item() == pytest.approx(np.exp(25.0))
    assert _ours(beyond).item() == pytest.approx(np.exp(20.0))


def test_difference_response_without_tokens_counts_there(
    trl: types.ModuleType, make_responses: MakeResponses
) -> None:
    """Their sequence mean divides by all rows, ours by those with a token."""
    r = make_responses(lengths=(4, 0, 2, 3))
    theirs = _theirs(trl, r, loss_type="grpo")
    _assert_equal(theirs, _ours(r, aggregation="sequence") * 3 / 4, r)


def test_difference_advantages_use_the_mean_of_all_and_another_delta(
    trl: types.ModuleType,
) -> None:
    """(R − mean) / (nanstd + 1e-4): our sample std with their δ, times (G − 1)/G.

    Their ddof factor n/(n − 1) is float32 even for float64 rewards.
    """
    rewards = torch.tensor(
        [[0.0, 0.25, 0.5, 1.0], [1.0, 0.0, 0.0, 0.0], [0.3, 0.7, 0.2, 0.25]],
        dtype=torch.float64,
    )
    centred = rewards - rewards.mean(dim=1, keepdim=True)
    theirs = centred / (trl.trainer.utils.nanstd(rewards, dim=1, keepdim=True) + 1e-4)
    ours = group_advantages(rewards.numpy(), std="sample", delta=1e-4)
    np.testing.assert_allclose(ours * 3 / 4, theirs.numpy(), rtol=0, atol=1e-7)
    unlike = group_advantages(rewards.numpy(), std="sample") * 3 / 4
    assert 1e-5 < np.abs(unlike - theirs.numpy()).max() < 1e-3


def test_difference_advantages_of_a_masked_response_and_of_constant_groups(
    trl: types.ModuleType,
) -> None:
    """Both leave a response without a score out; constant groups are exactly 0 only with us."""
    rewards = torch.tensor([[0.1, 0.5, float("nan"), 0.9]], dtype=torch.float64)
    centred = rewards - rewards.nanmean(dim=1, keepdim=True)
    theirs = (
        centred / (trl.trainer.utils.nanstd(rewards, dim=1, keepdim=True) + 1e-4)
    ).nan_to_num(0.0)
    valid = ~rewards.isnan().numpy()
    ours = group_advantages(rewards.nan_to_num(0.0).numpy(), delta=1e-4, valid_PG=valid)
    np.testing.assert_allclose(ours * 2 / 3, theirs.numpy(), rtol=0, atol=1e-7)
    constant = torch.full((1, 8), 0.7)
    noise = (constant - constant.mean()) / (trl.trainer.utils.nanstd(constant) + 1e-4)
    assert noise.abs().max() < 2e-3
    assert not group_advantages(constant.numpy()).any()
