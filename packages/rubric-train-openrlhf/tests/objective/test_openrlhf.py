"""Against `PolicyLoss`, `compute_approx_kl` and the advantages of OpenRLHF 0.11.2."""

from __future__ import annotations

import math
import types
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from rubric_core import group_advantages
from rubric_train_openrlhf.objective import (
    K2,
    IcePop,
    ObjectiveConfig,
    PolicyLoss,
    SeqMaskTruncated,
    Truncated,
    bounded_divergence,
    k3,
    policy_loss,
    update_size,
)

if TYPE_CHECKING:
    from conftest import MakeResponses, Responses

pytestmark = pytest.mark.stacks
EXACT = {"rtol": 1e-12, "atol": 1e-12}
# Their mean over a response divides by T + 1e-8.
ALMOST = {"rtol": 1e-7, "atol": 1e-7}
# Their divergence is computed in float32 whatever the input.
SINGLE = {"rtol": 1e-6, "atol": 1e-6}
REWARDS = np.array([[0.0, 0.25, 0.5, 1.0], [1.0, 0.0, 0.0, 0.0], [0.3, 0.7, 0.2, 0.25]])


def _theirs(
    openrlhf_loss: types.ModuleType,
    r: Responses,
    sizes: dict[str, float] | None = None,
    **settings: object,
) -> tuple[torch.Tensor, ...]:
    return openrlhf_loss.PolicyLoss(**settings)(
        r.logprobs,
        r.old,
        r.advantages[:, None].expand_as(r.logprobs),
        r.mask.double(),
        r.gen,
        **(sizes or {}),
    )


def _ours(r: Responses, **settings: object) -> PolicyLoss:
    config = ObjectiveConfig(**({"kl_coef": 0.0} | settings))
    same_sampler = r if config.importance.type != "none" else replace(r, gen=r.old)
    return policy_loss(r.logprobs, same_sampler.batch(), config=config)


def _assert_equal(
    theirs: torch.Tensor,
    ours: torch.Tensor,
    r: Responses,
    tolerance: dict[str, float] | None = None,
) -> None:
    tolerance = tolerance or EXACT
    torch.testing.assert_close(ours, theirs, **tolerance)
    gradients = [
        torch.autograd.grad(x, r.logprobs, retain_graph=True)[0] for x in (ours, theirs)
    ]
    torch.testing.assert_close(*gradients, **tolerance)


@pytest.mark.parametrize("spread", [0.1, 1.0, 30.0])
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({}, {}),
        ({"clip_eps_high": 0.28}, {"clip_high": 0.28}),
        ({"dual_clip": 3.0}, {"dual_clip": 3.0}),
    ],
    ids=["plain", "clip-higher", "dual clip"],
)
def test_surrogate_and_its_clip_share_are_equal(
    openrlhf_loss: types.ModuleType,
    make_responses: MakeResponses,
    theirs: dict[str, float],
    ours: dict[str, float],
    spread: float,
) -> None:
    """Also far off policy: both bound the log-ratio at ±20."""
    r = make_responses(spread=spread)
    loss, clip_ratio, *_ = _theirs(openrlhf_loss, r, **theirs)
    result = _ours(r, **ours)
    _assert_equal(loss, result.loss, r)
    assert result.metrics["clip_frac"].item() == pytest.approx(
        clip_ratio.item(), abs=1e-7
    )


def test_means_over_responses_are_equal(
    openrlhf_loss: types.ModuleType, make_responses: MakeResponses
) -> None:
    """Responses without a token are left out by both."""
    r = make_responses(lengths=(4, 0, 2, 3))
    loss, *_ = _theirs(openrlhf_loss, r, token_level_loss=False)
    _assert_equal(loss, _ours(r, aggregation="sequence").loss, r, ALMOST)


def test_micro_batches_of_a_known_update_are_equal(
    openrlhf_loss: types.ModuleType, responses: Responses
) -> None:
    r, first = responses, slice(2)
    size = update_size(r.mask)
    part = replace(
        r,
        logprobs=r.logprobs[first],
        old=r.old[first],
        gen=r.gen[first],
        advantages=r.advantages[first],
        mask=r.mask[first],
    )
    sizes = {"batch_num_tokens": size.tokens, "global_batch_size": size.sequences}
    for aggregation in ("token", "sequence"):
        loss, *_ = _theirs(
            openrlhf_loss, part, sizes, token_level_loss=aggregation == "token"
        )
        ours = policy_loss(
            part.logprobs,
            replace(r, gen=r.old).batch(first),
            config=ObjectiveConfig(kl_coef=0.0, aggregation=aggregation),
            size=size,
        )
        _assert_equal(loss, ours.loss, r, ALMOST)


def test_gspo_is_equal(openrlhf_loss: types.ModuleType, responses: Responses) -> None:
    """Theirs is always averaged over responses."""
    loss, *_ = _theirs(
        openrlhf_loss,
        responses,
        policy_loss_type="gspo",
        clip_eps_low=3e-4,
        clip_eps_high=4e-4,
    )
    ours = _ours(
        responses,
        ratio="sequence",
        aggregation="sequence",
        clip_low=3e-4,
        clip_high=4e-4,
    )
    _assert_equal(loss, ours.loss, responses, ALMOST)


def test_difference_gspo_replaces_the_correction_by_a_ratio_to_the_sampler_there(
    openrlhf_loss: types.ModuleType, responses: Responses
) -> None:
    """With any correction on, theirs is our uncorrected loss, whose ratio is to π_gen."""
    r = responses
    loss, *_ = _theirs(
        openrlhf_loss, r, policy_loss_type="gspo", is_correction_level="token"
    )
    config = ObjectiveConfig(kl_coef=0.0, ratio="sequence", aggregation="sequence")
    ours = policy_loss(r.logprobs, r.batch(), config=config).loss
    _assert_equal(loss, ours, r, ALMOST)
    with_weights = _ours(
        r, ratio="sequence", aggregation="sequence", importance=IcePop()
    ).loss
    assert abs(loss - with_weights) > 1e-4


def test_difference_gspo_ratio_has_no_bound_there(
    openrlhf_loss: types.ModuleType, responses: Responses
) -> None:
    bad = replace(responses, advantages=-torch.ones(6, dtype=torch.float64))
    far = replace(bad, old=bad.logprobs.detach() - 25.0)
    loss, *_ = _theirs(openrlhf_loss, far, policy_loss_type="gspo")
    assert loss.item() == pytest.approx(math.exp(25))
    ours = _ours(far, ratio="sequence", aggregation="sequence").loss
    assert ours.item() == pytest.approx(math.exp(20))


CORRECTIONS = {
    "tis": (
        {
            "is_correction_level": "token",
            "is_correction_mode": "clip",
            "is_correction_threshold": (0.0, 2.0),
        },
        Truncated(cap=2.0),
    ),
    "icepop (their default)": (
        {"is_correction_level": "token"},
        IcePop(low=0.5, high=5.0),
    ),
    "seq-mask-tis": (
        {"is_correction_level": "seq", "is_correction_threshold": (0.9, 1.1)},
        SeqMaskTruncated(low=0.9, high=1.1),
    ),
    "seq-mask-tis, narrow": (
        {"is_correction_level": "seq", "is_correction_threshold": (0.999, 1.002)},
        SeqMaskTruncated(),
    ),
}


@pytest.mark.parametrize("mismatch", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("case", CORRECTIONS.values(), ids=CORRECTIONS)
def test_corrected_loss_and_share_of_bounded_weights_are_equal(
    openrlhf_loss: types.ModuleType,
    make_responses: MakeResponses,
    case: tuple[dict[str, Any], Any],
    mismatch: float,
) -> None:
    settings, importance = case
    r = make_responses(mismatch=mismatch)
    loss, _, _, _, filtered = _theirs(openrlhf_loss, r, dual_clip=3.0, **settings)
    result = _ours(r, dual_clip=3.0, importance=importance)
    _assert_equal(loss, result.loss, r)
    if importance.type != "seq_mask_tis":  # theirs counts responses, ours their tokens
        bounded = result.metrics["is_weight_bounded_frac"].item()
        assert bounded == pytest.approx(filtered.item(), abs=1e-7)


def test_difference_clip_mode_also_raises_small_weights_there(
    openrlhf_loss: types.ModuleType, make_responses: MakeResponses
) -> None:
    """Their clip has a lower end, 0.5 by default; TIS has none, so a zero there gives ours."""
    r = make_responses(mismatch=1.0)
    settings = {"is_correction_level": "token", "is_correction_mode": "clip"}
    loss, *_ = _theirs(openrlhf_loss, r, **settings)
    ours = _ours(r, importance=Truncated(cap=5.0)).loss
    assert abs(loss - ours) > 1e-4
    raised = replace(r, gen=torch.minimum(r.gen, r.old + math.log(2)))
    _assert_equal(loss, _ours(raised, importance=Truncated(cap=5.0)).loss, r)


def test_difference_importance_weights_have_no_bound_there(
    openrlhf_loss: types.ModuleType, responses: Responses
) -> None:
    """Kept by an infinite band, a weight of e²⁵ stays; ours ends at e²⁰."""
    far = replace(responses, gen=responses.old - 25.0)
    settings = {
        "is_correction_level": "token",
        "is_correction_threshold": (0.0, math.inf),
    }
    loss, *_ = _theirs(openrlhf_loss, far, **settings)
    ours = _ours(far, importance=Truncated(cap=math.inf)).loss
    assert (loss / ours).item() == pytest.approx(math.exp(5))


@pytest.mark.parametrize("spread", [0.1, 1.0, 15.0])
def test_k3_is_equal_once_its_output_is_clamped_at_ten(
    openrlhf_models: types.ModuleType, make_responses: MakeResponses, spread: float
) -> None:
    """Theirs clamps u at 10 from above and nothing from below; under a divergence of at most 10
    no u beyond either clamp can be told apart."""
    r = make_responses(spread=spread)
    theirs = openrlhf_models.compute_approx_kl(r.logprobs, r.ref, kl_estimator="k3")
    ours = k3(r.logprobs, r.ref, output_clamp=10.0)
    torch.testing.assert_close(ours.float(), theirs, rtol=1e-6, atol=1e-6)
    gradients = [torch.autograd.grad(x.sum(), r.logprobs)[0] for x in (ours, theirs)]
    # e^u is near 10 where the gradient is largest.
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-6)


def test_k2_is_equal_within_their_bound(
    openrlhf_models: types.ModuleType, make_responses: MakeResponses
) -> None:
    """Theirs clamps the result at 10, which a difference below 4.4 does not reach."""
    r = make_responses(spread=0.5)
    theirs = openrlhf_models.compute_approx_kl(r.logprobs, r.ref, kl_estimator="k2")
    ours = bounded_divergence(r.logprobs, r.ref, K2().of_log_ratio)
    assert ours.max() < 10
    torch.testing.assert_close(ours.float(), theirs.float(), rtol=1e-6, atol=1e-6)


def test_difference_k3_is_clamped_at_ten_there(
    openrlhf_models: types.ModuleType,
) -> None:
    u = torch.tensor([0.0, 3.0, 5.0, 25.0])
    theirs = openrlhf_models.compute_approx_kl(torch.zeros(4), u, kl_estimator="k3")
    assert theirs.tolist() == [0.0, 10.0, 10.0, 10.0]
    assert k3(torch.zeros(4), u)[1].item() == pytest.approx(16.0855, abs=1e-4)


def test_difference_unbiased_gradient_is_that_of_half_the_square(
    openrlhf_models: types.ModuleType, responses: Responses
) -> None:
    r = responses
    theirs = openrlhf_models.compute_approx_kl(
        r.logprobs, r.ref, kl_estimator="k3", unbiased_gradient=True
    )
    torch.testing.assert_close(
        theirs.double(), k3(r.logprobs, r.ref, output_clamp=10.0), **SINGLE
    )
    (gradient,) = torch.autograd.grad(theirs.sum(), r.logprobs)
    torch.testing.assert_close(gradient, (r.logprobs - r.ref).detach(), **SINGLE)


def _advantages(
    openrlhf_experience: types.ModuleType, estimator: str, rewards: np.ndarray
) -> np.ndarray:
    """Their advantages of one-token responses, [P, G]."""
    count = rewards.size
    advantage = types.SimpleNamespace(estimator=estimator, gamma=1.0, no_std_norm=True)
    args = types.SimpleNamespace(
        algo=types.SimpleNamespace(advantage=advantage),
        reward=types.SimpleNamespace(
            clip_range=None, overlong_buffer_len=None, stop_properly_penalty_coef=None
        ),
        rollout=types.SimpleNamespace(n_samples_per_prompt=rewards.shape[1]),
    )
    maker_type = openrlhf_experience.RemoteExperienceMaker
    maker = types.SimpleNamespace(
        strategy=types.SimpleNamespace(args=args),
        advantage_estimator=estimator,
        kl_ctl=types.SimpleNamespace(value=0.0),
        get_cumulative_returns=lambda *a: maker_type.get_cumulative_returns(maker, *a),
    )
    experience = openrlhf_experience.Experience(
        rewards=torch.tensor(rewards).reshape(-1),
        kl=torch.zeros(count, 1, dtype=torch.float64),
        action_mask=torch.ones(count, 1, dtype=torch.bool),
        index=list(range(count)),
        info={},
    )
    (done,) = maker_type.compute_advantages_and_returns(maker, [experience])
    return done.advantages.reshape(rewards.shape).numpy()


def test_rloo_advantages_are_the_unscaled_ones(
    openrlhf_experience: types.ModuleType,
) -> None:
    theirs = _advantages(openrlhf_experience, "rloo", REWARDS)
    np.testing.assert_allclose(
        group_advantages(REWARDS, std="none"), theirs, rtol=0, atol=1e-12
    )


def test_difference_group_norm_uses_the_mean_of_all_and_another_delta(
    openrlhf_experience: types.ModuleType,
) -> None:
    """(R − mean) / (std + 1e-9), ddof 1: our sample std with their δ, times (G − 1)/G."""
    theirs = _advantages(openrlhf_experience, "group_norm", REWARDS)
    ours = group_advantages(REWARDS, std="sample", delta=1e-9) * 3 / 4
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def test_difference_constant_groups_are_noise_there(
    openrlhf_experience: types.ModuleType,
) -> None:
    """Rounding noise over 1e-9: equal float32 rewards get advantages above 1 there, 0 here."""
    rewards = np.repeat(np.arange(101, dtype=np.float32)[:, None] / 100, 32, axis=1)
    noise = np.abs(_advantages(openrlhf_experience, "group_norm", rewards)).max()
    assert noise > 0.9
    assert not group_advantages(rewards).any()
