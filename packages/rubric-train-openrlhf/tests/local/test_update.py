"""The optimiser update against a reference written out in float64, and what must not change it."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from rubric_train_openrlhf.config.sections import OptimConfig
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import NonFiniteUpdateError
from rubric_train_openrlhf.local.update import Learner, UpdateBatch, equal_shares
from rubric_train_openrlhf.objective import ObjectiveConfig, Truncated, adamw, warmup

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from rubric_train_openrlhf.policy import Policy, Rollouts

ADVANTAGES = torch.tensor(
    [1.5, -0.5, 0.25, -1.25, 0.75, 0.0, -2.0, 1.25], dtype=torch.float64
)
# A large ε keeps AdamW linear in the gradient: with a small one its first step is lr · sign(g),
# which would turn rounding of a near-zero gradient into a full step.
OPTIM = OptimConfig(
    learning_rate=5.0, eps=1.0, max_grad_norm=0.2, updates_per_rollout=1, micro_batch=8
)


def learner_of(
    policy: Policy,
    *,
    optim: OptimConfig = OPTIM,
    objective: ObjectiveConfig | None = None,
) -> Learner:
    model = copy.deepcopy(policy.model)
    reference = copy.deepcopy(policy.model).requires_grad_(requires_grad=False)
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.mul_(1.01)
    optimizer = adamw(model.parameters(), config=optim)
    return Learner(
        model=model,
        reference=reference,
        optimizer=optimizer,
        schedule=warmup(optimizer, config=optim),
        config=TrainConfig.model_construct(
            objective=objective or ObjectiveConfig(kl_coef=0.1), optim=optim
        ),
    )


def batch_of(rollouts: Rollouts, *, masked: tuple[int, ...] = ()) -> UpdateBatch:
    valid_B = torch.ones(8, dtype=torch.bool)
    valid_B[list(masked)] = False
    return UpdateBatch(rollouts=rollouts, advantages_B=ADVANTAGES, valid_B=valid_B)


def reference_logprobs(
    model: PreTrainedModel, rollouts: Rollouts, row: int
) -> torch.Tensor:
    """log π of one response, one plain forward, no batching."""
    prompt = rollouts.prompt_of(row)
    response = rollouts.response(row)
    ids = torch.tensor([[*prompt.token_ids, *response]])
    logits_TV = model(input_ids=ids, use_cache=False).logits[
        0, len(prompt.token_ids) - 1 : -1
    ]
    logits_TV[:, list(prompt.banned_token_ids)] = -torch.inf
    logprobs_TV = torch.log_softmax(logits_TV, dim=-1)
    return logprobs_TV[torch.arange(len(response)), torch.tensor(response)]


def reference_update(learner: Learner, rollouts: Rollouts, rows: range) -> None:
    """One update as the paper's equations say, in float64; changes the learner's model."""
    model = learner.model.double()
    reference = copy.deepcopy(learner.reference).double() if learner.reference else None
    total = torch.zeros((), dtype=torch.float64)
    tokens = 0
    for row in rows:
        length = int(rollouts.lengths_B[row])
        logp = reference_logprobs(model, rollouts, row)
        ratio = (logp - rollouts.logprobs_BT[row, :length].double()).exp()
        clipped = ratio.clamp(0.8, 1.2)
        surrogate = -torch.minimum(ratio * ADVANTAGES[row], clipped * ADVANTAGES[row])
        u = (reference_logprobs(reference, rollouts, row).detach() - logp).clamp(
            -20, 20
        )
        total = total + (surrogate + 0.1 * (u.exp() - 1 - u)).sum()
        tokens += length
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(total / tokens, parameters)
    norm = torch.sqrt(sum((gradient**2).sum() for gradient in gradients))
    scale = min(1.0, 0.2 / (float(norm) + 1e-6))
    lr = 5.0 * 0.1
    for parameter, gradient in zip(parameters, gradients, strict=True):
        g = gradient * scale
        parameter.data -= lr * 0.01 * parameter.data
        # First step of AdamW: bias correction makes both moments g and g².
        parameter.data -= lr * g / (g.abs() + 1.0)


def largest_difference(one: PreTrainedModel, other: PreTrainedModel) -> float:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max(
        float((a.detach().double() - b.detach().double()).abs().max()) for a, b in pairs
    )


def test_one_update_equals_the_papers_equations_in_float64(
    policy: Policy, rollouts: Rollouts
) -> None:
    learner, by_hand = learner_of(policy), learner_of(policy)

    metrics = learner.update(batch_of(rollouts), step=1)
    reference_update(by_hand, rollouts, range(8))

    assert largest_difference(policy.model, learner.model) > 1e-2
    assert largest_difference(learner.model, by_hand.model) < 1e-6
    assert metrics.grad_norm > 0.2, "the case must exercise the clip of the norm"


@pytest.mark.parametrize("micro_batch", [1, 2, 3, 5])
@pytest.mark.parametrize("aggregation", ["token", "sequence"])
def test_micro_batches_do_not_change_the_update(
    policy: Policy, rollouts: Rollouts, micro_batch: int, aggregation: str
) -> None:
    objective = ObjectiveConfig(kl_coef=0.1, aggregation=aggregation)
    whole = learner_of(policy, objective=objective)
    cut = learner_of(
        policy,
        objective=objective,
        optim=OPTIM.model_copy(update={"micro_batch": micro_batch}),
    )

    expected = whole.update(batch_of(rollouts), step=1)
    metrics = cut.update(batch_of(rollouts), step=1)

    assert largest_difference(whole.model, cut.model) < 1e-6
    for name, value in vars(expected).items():
        assert getattr(metrics, name) == pytest.approx(value, rel=1e-4, abs=1e-6), name


def test_several_updates_per_rollout_are_as_many_updates_on_equal_shares(
    policy: Policy, rollouts: Rollouts
) -> None:
    learner = learner_of(
        policy, optim=OPTIM.model_copy(update={"updates_per_rollout": 2})
    )
    first, second = learner_of(policy), None
    batch = batch_of(rollouts)

    metrics = learner.update(batch, step=1)
    first.update(replace(batch, valid_B=torch.arange(8) < 4), step=1)
    second = first
    second.schedule.last_epoch -= 1
    for group in second.optimizer.param_groups:
        group["lr"] = 5.0 * 0.1
    second.update(replace(batch, valid_B=torch.arange(8) >= 4), step=1)

    assert largest_difference(learner.model, second.model) < 1e-6
    assert metrics.ratio_mean != 1.0, "the second share is off-policy"
    assert metrics.lr == pytest.approx(5.0 * 0.1), (
        "the warm-up counts steps, not updates"
    )


def test_a_masked_response_has_no_part_in_the_update(
    policy: Policy, rollouts: Rollouts
) -> None:
    learner, other = learner_of(policy), learner_of(policy)
    poisoned = ADVANTAGES.clone()
    poisoned[[2, 5]] = 1e6

    learner.update(batch_of(rollouts, masked=(2, 5)), step=1)
    other.update(
        replace(batch_of(rollouts, masked=(2, 5)), advantages_B=poisoned), step=1
    )

    assert largest_difference(learner.model, other.model) == 0.0


def test_a_share_without_a_valid_response_makes_no_update(
    policy: Policy, rollouts: Rollouts
) -> None:
    learner = learner_of(
        policy, optim=OPTIM.model_copy(update={"updates_per_rollout": 2})
    )
    half = learner_of(policy)

    learner.update(batch_of(rollouts, masked=(0, 1, 2, 3)), step=1)
    half.update(batch_of(rollouts, masked=(0, 1, 2, 3)), step=1)

    assert largest_difference(learner.model, half.model) == 0.0


def test_an_importance_correction_uses_the_log_probs_from_before_the_first_update(
    policy: Policy, rollouts: Rollouts
) -> None:
    noisy = replace(rollouts, logprobs_BT=rollouts.logprobs_BT - 0.3 * rollouts.mask_BT)
    plain = learner_of(policy, objective=ObjectiveConfig(kl_coef=0.1))
    corrected = learner_of(
        policy, objective=ObjectiveConfig(kl_coef=0.1, importance=Truncated(cap=10.0))
    )

    off_policy = plain.update(batch_of(noisy), step=1)
    on_policy = corrected.update(batch_of(noisy), step=1)

    assert off_policy.ratio_mean == pytest.approx(
        torch.tensor(0.3).exp().item(), rel=1e-4
    )
    assert on_policy.ratio_mean == pytest.approx(1.0, rel=1e-5)


def test_the_shares_of_dual_clip_and_importance_weights_are_measured(
    policy: Policy, rollouts: Rollouts
) -> None:
    # Every ratio to the sampler is e^0.3 = 1.35.
    noisy = replace(rollouts, logprobs_BT=rollouts.logprobs_BT - 0.3 * rollouts.mask_BT)
    dual = learner_of(policy, objective=ObjectiveConfig(kl_coef=0.1, dual_clip=1.2))
    capped = learner_of(
        policy, objective=ObjectiveConfig(kl_coef=0.1, importance=Truncated(cap=1.2))
    )

    bounded = dual.update(batch_of(noisy), step=1)
    weighted = capped.update(batch_of(noisy), step=1)

    bad = rollouts.lengths_B[ADVANTAGES < 0].sum() / rollouts.lengths_B.sum()
    assert 0 < float(bad) < 1
    assert bounded.dual_clip_frac == pytest.approx(float(bad))
    assert (bounded.is_weight_mean, bounded.is_weight_bounded_frac) == (1.0, 0.0)
    assert weighted.dual_clip_frac == 0.0
    assert weighted.is_weight_mean == pytest.approx(1.2)
    assert weighted.is_weight_bounded_frac == pytest.approx(1.0)


def test_a_loss_that_is_not_a_number_stops_before_the_weights_change(
    policy: Policy, rollouts: Rollouts
) -> None:
    learner = learner_of(policy)
    batch = replace(batch_of(rollouts), advantages_B=torch.full((8,), torch.nan))

    with pytest.raises(NonFiniteUpdateError, match="step 7: loss nan"):
        learner.update(batch, step=7)

    assert largest_difference(policy.model, learner.model) == 0.0


def test_shares_are_contiguous_and_equal() -> None:
    assert equal_shares(8, shares=4) == [
        range(2),
        range(2, 4),
        range(4, 6),
        range(6, 8),
    ]
