"""Against `core_algos` and `rollout_corr_helper` of verl 0.9.1."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from rubric_core import decoupled_advantages, group_advantages, leave_one_out_baseline
from rubric_train_openrlhf.objective import (
    K2,
    IcePop,
    ObjectiveConfig,
    PolicyLoss,
    Truncated,
    bounded_divergence,
    importance_weights,
    k3,
    policy_loss,
    sequence_masked_weights,
    update_size,
)

if TYPE_CHECKING:
    import types

    from conftest import MakeResponses, Responses

pytestmark = pytest.mark.stacks
EXACT = {"rtol": 1e-12, "atol": 1e-12}
# Their mean over a response divides by T + 1e-8.
ALMOST = {"rtol": 1e-7, "atol": 1e-7}
NO_DUAL_CLIP = 1e30
REWARDS = np.array([[0.0, 0.25, 0.5, 1.0], [1.0, 0.0, 0.0, 0.0], [0.3, 0.7, 0.2, 0.25]])


def _theirs(
    verl_algorithms: types.ModuleType,
    r: Responses,
    *,
    loss: str = "vanilla",
    aggregation: str = "token-mean",
    weights: torch.Tensor | None = None,
    **settings: object,
) -> tuple[torch.Tensor, dict[str, float]]:
    from verl.workers.config import ActorConfig

    clips = {"clip_ratio": 0.2, "clip_ratio_low": 0.2, "clip_ratio_high": 0.2}
    config = ActorConfig(
        strategy="fsdp",
        rollout_n=4,
        ppo_micro_batch_size_per_gpu=1,
        **(clips | {"clip_ratio_c": NO_DUAL_CLIP} | settings),
    )
    return verl_algorithms.get_policy_loss_fn(loss)(
        r.old,
        r.logprobs,
        r.advantages[:, None].expand_as(r.logprobs),
        r.mask.double(),
        aggregation,
        config,
        weights,
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
        ({"clip_ratio_high": 0.28}, {"clip_high": 0.28}),
        ({"clip_ratio_c": 3.0}, {"dual_clip": 3.0}),
    ],
    ids=["plain", "clip-higher", "dual clip (their default)"],
)
def test_surrogate_and_its_clip_shares_are_equal(
    verl_algorithms: types.ModuleType,
    make_responses: MakeResponses,
    theirs: dict[str, float],
    ours: dict[str, float],
    spread: float,
) -> None:
    """Also far off policy: both bound the log-ratio at ±20."""
    r = make_responses(spread=spread)
    loss, metrics = _theirs(verl_algorithms, r, **theirs)
    result = _ours(r, **ours)
    # Losses near e²⁰ keep 12 digits, not 12 decimals.
    _assert_equal(loss, result.loss, r)
    assert result.metrics["clip_frac"].item() == pytest.approx(
        metrics["actor/pg_clipfrac"], abs=1e-7
    )
    assert result.metrics["dual_clip_frac"].item() == pytest.approx(
        metrics["actor/pg_clipfrac_lower"], abs=1e-7
    )


def test_means_over_tokens_and_responses_are_equal(
    verl_algorithms: types.ModuleType, responses: Responses
) -> None:
    r = responses
    theirs, _ = _theirs(verl_algorithms, r, aggregation="seq-mean-token-mean")
    _assert_equal(theirs, _ours(r, aggregation="sequence").loss, r, ALMOST)


def test_micro_batches_of_a_known_update_are_equal(
    verl_algorithms: types.ModuleType, responses: Responses
) -> None:
    """`global_batch_info` there is our `size`."""
    r, first = responses, slice(2)
    size = update_size(r.mask)
    part = replace(
        r,
        logprobs=r.logprobs[first],
        old=r.old[first],
        advantages=r.advantages[first],
        mask=r.mask[first],
    )
    for aggregation, theirs_name, info in (
        ("token", "token-mean", {"batch_num_tokens": size.tokens}),
        ("sequence", "seq-mean-token-mean", {"global_batch_size": size.sequences}),
    ):
        theirs, _ = _theirs(
            verl_algorithms, part, aggregation=theirs_name, global_batch_info=info
        )
        ours = policy_loss(
            part.logprobs,
            replace(r, gen=r.old).batch(first),
            config=ObjectiveConfig(kl_coef=0.0, aggregation=aggregation),
            size=size,
        )
        _assert_equal(theirs, ours.loss, r, ALMOST)


@pytest.mark.parametrize(
    ("theirs", "ours"), [("seq-mean-token-mean", "sequence"), ("token-mean", "token")]
)
def test_gspo_is_equal(
    verl_algorithms: types.ModuleType, responses: Responses, theirs: str, ours: str
) -> None:
    loss, metrics = _theirs(
        verl_algorithms,
        responses,
        loss="gspo",
        aggregation=theirs,
        clip_ratio_low=3e-4,
        clip_ratio_high=4e-4,
    )
    result = _ours(
        responses, ratio="sequence", aggregation=ours, clip_low=3e-4, clip_high=4e-4
    )
    _assert_equal(loss, result.loss, responses, ALMOST)
    assert result.metrics["clip_frac"].item() == pytest.approx(
        metrics["actor/pg_clipfrac"], abs=1e-7
    )


def test_difference_gspo_log_ratio_is_bounded_at_ten_from_above_there(
    verl_algorithms: types.ModuleType, responses: Responses
) -> None:
    bad = replace(responses, advantages=-torch.ones(6, dtype=torch.float64))
    far = replace(bad, old=bad.logprobs.detach() - 12.0)
    theirs, _ = _theirs(verl_algorithms, far, loss="gspo")
    assert theirs.item() == pytest.approx(math.exp(10))
    assert _ours(far, ratio="sequence").loss.item() == pytest.approx(math.exp(12))


def test_difference_gspo_has_no_dual_clip_there(
    verl_algorithms: types.ModuleType, make_responses: MakeResponses
) -> None:
    r = make_responses(spread=3.0)
    theirs, _ = _theirs(verl_algorithms, r, loss="gspo", clip_ratio_c=1.5)
    _assert_equal(theirs, _ours(r, ratio="sequence").loss, r)
    assert (
        _ours(r, ratio="sequence", dual_clip=1.5).metrics["dual_clip_frac"].item() > 0
    )


def test_k3_is_equal_once_its_output_is_clamped_at_ten(
    verl_algorithms: types.ModuleType, make_responses: MakeResponses
) -> None:
    r = make_responses(spread=15.0)
    theirs = verl_algorithms.kl_penalty(r.logprobs, r.ref, "k3")
    ours = k3(r.logprobs, r.ref, output_clamp=10.0)
    _assert_equal(theirs.sum(), ours.sum(), r)
    assert k3(r.logprobs, r.ref).max() > 1e5


def test_k2_is_equal(
    verl_algorithms: types.ModuleType, make_responses: MakeResponses
) -> None:
    r = make_responses(spread=1.0)
    theirs = verl_algorithms.kl_penalty(r.logprobs, r.ref, "k2")
    ours = bounded_divergence(r.logprobs, r.ref, K2().of_log_ratio)
    _assert_equal(theirs.sum(), ours.sum(), r)


def test_difference_k3_plus_has_the_gradient_of_half_the_square(
    verl_algorithms: types.ModuleType, responses: Responses
) -> None:
    r = responses
    theirs = verl_algorithms.kl_penalty(r.logprobs, r.ref, "k3+")
    torch.testing.assert_close(
        theirs, k3(r.logprobs, r.ref, output_clamp=10.0), **EXACT
    )
    (gradient,) = torch.autograd.grad(theirs.sum(), r.logprobs)
    torch.testing.assert_close(gradient, (r.logprobs - r.ref).detach(), **EXACT)


CORRECTIONS = {
    "tis": ("token", 2.0, Truncated(cap=2.0)),
    "tis over a sequence": ("sequence", 2.0, Truncated(cap=2.0, level="sequence")),
    "icepop": ("token", "0.5_5.0", IcePop(low=0.5, high=5.0)),
    "icepop over a sequence": (
        "sequence",
        "0.5_5.0",
        IcePop(low=0.5, high=5.0, level="sequence"),
    ),
}


@pytest.mark.parametrize("mismatch", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("case", CORRECTIONS.values(), ids=CORRECTIONS)
def test_importance_weights_and_their_loss_are_equal(
    verl_algorithms: types.ModuleType,
    verl_corrections: types.ModuleType,
    make_responses: MakeResponses,
    case: tuple[str, Any, Any],
    mismatch: float,
) -> None:
    level, threshold, importance = case
    r = make_responses(mismatch=mismatch)
    weights, _ = verl_corrections.compute_rollout_correction_weights(
        r.old - r.gen, r.mask.double(), level, threshold
    )
    ours = importance_weights(r.old, r.gen, mask_BT=r.mask, importance=importance)
    torch.testing.assert_close(ours, weights, **EXACT)
    theirs, _ = _theirs(verl_algorithms, r, weights=weights)
    _assert_equal(theirs, _ours(r, importance=importance).loss, r)


def test_difference_nothing_kept_is_an_error_there(
    verl_corrections: types.ModuleType, make_responses: MakeResponses
) -> None:
    """Their metrics divide by the mean weight; ours are 0, and so is the loss."""
    r = make_responses(mismatch=0.0)
    far = replace(r, gen=r.old - 30.0)
    with pytest.raises(ZeroDivisionError):
        verl_corrections.compute_rollout_correction_weights(
            far.old - far.gen, far.mask.double(), "token", "0.5_5.0"
        )
    result = _ours(far, importance=IcePop())
    assert result.loss.item() == 0.0
    assert result.metrics["is_weight_mean"].item() == 0.0


def test_importance_weights_beyond_the_bound_are_equal(
    verl_corrections: types.ModuleType, make_responses: MakeResponses
) -> None:
    """Both bound the log-ratio at ±20."""
    r = make_responses(mismatch=30.0)
    for level in ("token", "sequence"):
        weights, _ = verl_corrections.compute_rollout_correction_weights(
            r.old - r.gen, r.mask.double(), level, 1e30
        )
        unbounded = Truncated(cap=math.inf, level=level)
        ours = importance_weights(r.old, r.gen, mask_BT=r.mask, importance=unbounded)
        torch.testing.assert_close(ours, weights, **EXACT)


def test_difference_sequence_band_is_inverted_there(
    verl_corrections: types.ModuleType, make_responses: MakeResponses
) -> None:
    """Their `seq_mean_k1` compares 1/(geometric mean): their [α, β] is our [1/β, 1/α]."""
    r = make_responses(seed=3, mismatch=0.2)
    low, high = 0.9, 1.02
    kept, _ = verl_corrections.compute_rollout_rejection_mask(
        r.old - r.gen, r.mask.double(), "seq_mean_k1", f"{low}_{high}"
    )

    def ours(a: float, b: float) -> torch.Tensor:
        weights = sequence_masked_weights(r.old, r.gen, mask_BT=r.mask, low=a, high=b)
        return (weights > 0).double()

    assert torch.equal(kept, ours(1 / high, 1 / low))
    assert not torch.equal(kept, ours(low, high))


def test_difference_rejected_responses_leave_the_average_there(
    verl_algorithms: types.ModuleType,
    verl_corrections: types.ModuleType,
    make_responses: MakeResponses,
) -> None:
    """They take dropped responses out of the mask, NeMo-RL, OpenRLHF and we give them weight 0."""
    r = make_responses(seed=3, mismatch=0.2)
    low, high = 0.9, 1.1
    weights = sequence_masked_weights(r.old, r.gen, mask_BT=r.mask, low=low, high=high)
    kept, _ = verl_corrections.compute_rollout_rejection_mask(
        r.old - r.gen, r.mask.double(), "seq_mean_k1", f"{1 / high!r}_{1 / low!r}"
    )
    rejected = replace(r, mask=kept.bool())
    theirs, _ = _theirs(verl_algorithms, rejected, weights=weights)
    ours = _ours(r, importance={"type": "seq_mask_tis", "low": low, "high": high}).loss
    assert 0 < kept.sum() < r.mask.sum()
    _assert_equal(theirs * kept.sum() / r.mask.sum(), ours, r)


def _grpo(
    verl_algorithms: types.ModuleType, name: str, rewards: np.ndarray
) -> np.ndarray:
    """Their advantages of one-token responses, [P, G]."""
    scores = torch.tensor(rewards).reshape(-1, 1)
    index = np.repeat(np.arange(len(rewards)), rewards.shape[1])
    estimate = getattr(verl_algorithms, f"compute_{name}_outcome_advantage")
    advantages, _ = estimate(scores, torch.ones_like(scores), index)
    return advantages.reshape(rewards.shape).numpy()


@pytest.mark.parametrize("name", ["grpo", "grpo_vectorized"])
def test_difference_advantages_use_the_mean_of_all_and_another_delta(
    verl_algorithms: types.ModuleType, name: str
) -> None:
    """(R − mean) / (std + 1e-6), ddof 1: our sample std with their δ, times (G − 1)/G."""
    theirs = _grpo(verl_algorithms, name, REWARDS)
    ours = group_advantages(REWARDS, std="sample", delta=1e-6) * 3 / 4
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


def test_rloo_advantages_are_the_unscaled_ones(
    verl_algorithms: types.ModuleType,
) -> None:
    theirs = _grpo(verl_algorithms, "rloo", REWARDS)
    ours = group_advantages(REWARDS, std="none")
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        ours, REWARDS - leave_one_out_baseline(REWARDS), rtol=0, atol=1e-12
    )


def test_difference_constant_groups_are_noise_there(
    verl_algorithms: types.ModuleType,
) -> None:
    rewards = np.repeat(np.arange(101, dtype=np.float32)[:, None] / 100, 32, axis=1)
    noise = np.abs(_grpo(verl_algorithms, "grpo", rewards)).max()
    assert noise == pytest.approx(0.106, abs=0.005)
    assert not group_advantages(rewards).any()


def test_decoupled_advantages_are_equal(verl_algorithms: types.ModuleType) -> None:
    """GDPO per criterion, with their two epsilons (1e-6, and 1e-8 inside a root) for our δ."""
    generator = np.random.default_rng(0)
    z_PGM = generator.uniform(size=(3, 4, 2)).round(2)
    weights = [3.0, 1.0]
    flat = z_PGM.reshape(-1, 2)
    ones = torch.ones(len(flat), 1)
    advantages, _ = verl_algorithms.compute_gdpo_outcome_advantage(
        ones,
        ones,
        np.repeat(np.arange(3), 4),
        config={"gdpo_reward_keys": ["a", "b"], "gdpo_reward_weights": [0.75, 0.25]},
        non_tensor_batch={"a": flat[:, 0], "b": flat[:, 1]},
        batch={
            "prompts": ones,
            "attention_mask": torch.ones(len(flat), 2, dtype=torch.int64),
        },
    )
    theirs = advantages.reshape(3, 4).double().numpy()
    ours = decoupled_advantages(z_PGM, [weights] * 3)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
