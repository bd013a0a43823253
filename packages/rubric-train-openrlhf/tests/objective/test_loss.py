from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rubric_train_openrlhf.errors import ObjectiveShapeError
from rubric_train_openrlhf.objective import (
    METRIC_NAMES,
    IcePop,
    ObjectiveBatch,
    ObjectiveConfig,
    PolicyLoss,
    SeqMaskTruncated,
    Truncated,
    policy_loss,
    update_size,
)

if TYPE_CHECKING:
    from conftest import MakeResponses, Responses

PAPER = ObjectiveConfig()
VARIANTS = {
    "paper": PAPER,
    "clip-higher": ObjectiveConfig(clip_high=0.28),
    "dual-clip": ObjectiveConfig(dual_clip=3.0),
    "no-kl": ObjectiveConfig(kl_coef=0.0),
    "kl-output-clamp": ObjectiveConfig(kl_output_clamp=0.5),
    "gspo": ObjectiveConfig(ratio="sequence", aggregation="sequence"),
    "gspo-token-mean": ObjectiveConfig(ratio="sequence"),
    "tis": ObjectiveConfig(importance=Truncated()),
    "tis-sequence": ObjectiveConfig(importance=Truncated(level="sequence")),
    "icepop": ObjectiveConfig(importance=IcePop()),
    "icepop-sequence": ObjectiveConfig(importance=IcePop(level="sequence")),
    "seq-mask-tis": ObjectiveConfig(importance=SeqMaskTruncated(low=0.9, high=1.1)),
    "gspo-tis": ObjectiveConfig(
        ratio="sequence", aggregation="sequence", importance=Truncated()
    ),
    "everything": ObjectiveConfig(
        clip_high=0.28,
        dual_clip=2.0,
        kl_output_clamp=10.0,
        importance=IcePop(),
        aggregation="sequence",
    ),
}

each_variant = pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)


def _gradient(result: PolicyLoss, logprobs: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(result.loss, logprobs, retain_graph=True)[0]


def _assert_equal_losses(
    first: PolicyLoss, second: PolicyLoss, logprobs: torch.Tensor
) -> None:
    torch.testing.assert_close(first.loss, second.loss)
    torch.testing.assert_close(_gradient(first, logprobs), _gradient(second, logprobs))


def _worked() -> tuple[torch.Tensor, ObjectiveBatch]:
    # Ratios 1.5 and 0.5, then 1; u = 0 and ln 2, then 0; advantages 1 and −1.
    gen = torch.full((2, 2), -1.0, dtype=torch.float64)
    ratios = torch.tensor([[1.5, 0.5], [1.0, 1.0]], dtype=torch.float64)
    logprobs = (gen + ratios.log()).requires_grad_()
    ref = logprobs.detach().clone()
    ref[0, 1] += math.log(2)
    batch = ObjectiveBatch(
        gen_logprobs_BT=gen,
        advantages_B=torch.tensor([1.0, -1.0], dtype=torch.float64),
        mask_BT=torch.tensor([[True, True], [True, False]]),
        ref_logprobs_BT=ref,
    )
    return logprobs, batch


def test_loss_of_a_worked_example() -> None:
    logprobs, batch = _worked()
    result = policy_loss(logprobs, batch, config=PAPER)
    # ℓ = −1.2, −0.5, 1 and KL = 0, 1 − ln 2, 0 over three tokens.
    divergence = 1 - math.log(2)
    assert result.loss.item() == pytest.approx((-0.7 + 0.01 * divergence) / 3)
    assert {
        name: value.item() for name, value in result.metrics.items()
    } == pytest.approx(
        {
            "kl": divergence / 3,
            "ratio_mean": 1.0,
            "clip_frac": 1 / 3,
            "dual_clip_frac": 0.0,
            "is_weight_mean": 1.0,
            "is_weight_bounded_frac": 0.0,
        }
    )


def test_loss_of_a_worked_example_averaged_over_responses() -> None:
    logprobs, batch = _worked()
    result = policy_loss(
        logprobs, batch, config=ObjectiveConfig(aggregation="sequence")
    )
    first = (-1.2 - 0.5 + 0.01 * (1 - math.log(2))) / 2
    assert result.loss.item() == pytest.approx((first + 1.0) / 2)


def test_gradient_of_a_worked_example() -> None:
    logprobs, batch = _worked()
    result = policy_loss(logprobs, batch, config=PAPER)
    # Clipped: only the divergence is left, which has no gradient at u = 0. Then −A r and
    # −β (e^u − 1) = −0.01, then −A r with A = −1, and padding.
    expected = torch.tensor([[0.0, -0.51 / 3], [1 / 3, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(_gradient(result, logprobs), expected)


def test_importance_weight_multiplies_the_surrogate_but_not_the_divergence() -> None:
    logprobs, batch = _worked()
    # π_old / π_gen = 3 everywhere, and the ratio of the surrogate is taken to π_old.
    old = batch.gen_logprobs_BT
    batch = replace(batch, gen_logprobs_BT=old - math.log(3), old_logprobs_BT=old)
    result = policy_loss(
        logprobs, batch, config=ObjectiveConfig(importance=Truncated(cap=2.0))
    )
    divergence = 1 - math.log(2)
    assert result.loss.item() == pytest.approx((2 * -0.7 + 0.01 * divergence) / 3)
    assert result.metrics["is_weight_mean"].item() == pytest.approx(2.0)
    assert result.metrics["is_weight_bounded_frac"].item() == 1.0
    assert result.metrics["ratio_mean"].item() == pytest.approx(1.0)


def test_gradient_on_policy_is_that_of_reinforce() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(
        3, 4, 7, generator=generator, dtype=torch.float64, requires_grad=True
    )
    tokens = torch.randint(7, (3, 4, 1), generator=generator)
    logprobs = logits.log_softmax(-1).gather(-1, tokens)[..., 0]
    advantages = torch.tensor([1.0, -0.5, 2.0], dtype=torch.float64)
    mask = torch.ones(3, 4, dtype=torch.bool)
    batch = ObjectiveBatch(logprobs.detach(), advantages, mask)
    loss = policy_loss(logprobs, batch, config=ObjectiveConfig(kl_coef=0.0)).loss
    reinforce = -(advantages[:, None] * logprobs).sum() / 12
    torch.testing.assert_close(
        *(
            torch.autograd.grad(x, logits, retain_graph=True)[0]
            for x in (loss, reinforce)
        )
    )


@each_variant
def test_gradient_agrees_with_finite_differences(
    responses: Responses, config: ObjectiveConfig
) -> None:
    r = responses
    if config.ratio == "sequence":
        # The straight-through form has the gradient of the plain one: see test_ratio.py.
        r = replace(r, mask=r.mask & (torch.arange(9) < 1))
    assert torch.autograd.gradcheck(
        lambda x: policy_loss(x, r.batch(), config=config).loss, (r.logprobs,)
    )


@each_variant
@settings(max_examples=20)
@given(cuts=st.sets(st.integers(1, 5)), seed=st.integers(0, 1000))
def test_micro_batches_add_up_to_the_whole(
    make_responses: MakeResponses, config: ObjectiveConfig, cuts: set[int], seed: int
) -> None:
    r = make_responses(seed)
    whole = policy_loss(r.logprobs, r.batch(), config=config)
    size = update_size(r.mask)
    edges = [0, *sorted(cuts), 6]
    parts = [
        policy_loss(r.logprobs[a:b], r.batch(slice(a, b)), config=config, size=size)
        for a, b in pairwise(edges)
    ]
    torch.testing.assert_close(sum(part.loss for part in parts), whole.loss)
    torch.testing.assert_close(
        sum(_gradient(part, r.logprobs) for part in parts), _gradient(whole, r.logprobs)
    )
    for name in METRIC_NAMES:
        torch.testing.assert_close(
            sum(part.metrics[name] for part in parts), whole.metrics[name]
        )


@each_variant
@settings(max_examples=20)
@given(order=st.permutations(range(6)))
def test_order_of_responses_is_irrelevant(
    make_responses: MakeResponses, config: ObjectiveConfig, order: list[int]
) -> None:
    r = make_responses()
    mixed = replace(
        r,
        **{
            name: getattr(r, name)[list(order)]
            for name in ("logprobs", "gen", "old", "ref", "advantages", "mask")
        },
    )
    _assert_equal_losses(
        policy_loss(mixed.logprobs, mixed.batch(), config=config),
        policy_loss(r.logprobs, r.batch(), config=config),
        r.logprobs,
    )


@each_variant
@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf])
def test_padding_is_irrelevant(
    make_responses: MakeResponses, config: ObjectiveConfig, garbage: float
) -> None:
    r = make_responses()

    def padded(values: torch.Tensor) -> torch.Tensor:
        kept = torch.where(r.mask, values, garbage)
        return torch.nn.functional.pad(kept, (0, 3), value=garbage)

    wide = replace(
        r,
        **{
            name: padded(getattr(r, name)) for name in ("logprobs", "gen", "old", "ref")
        },
        mask=torch.nn.functional.pad(r.mask, (0, 3), value=False),
    )
    _assert_equal_losses(
        policy_loss(wide.logprobs, wide.batch(), config=config),
        policy_loss(r.logprobs, r.batch(), config=config),
        r.logprobs,
    )


@each_variant
def test_masked_response_is_left_out_whatever_its_advantage(
    make_responses: MakeResponses, config: ObjectiveConfig
) -> None:
    r = make_responses()
    with torch.no_grad():
        r.advantages[2] = math.nan
    masked = replace(r, mask=r.mask.clone())
    masked.mask[2] = False
    others = [0, 1, 3, 4, 5]
    alone = replace(
        r,
        **{
            name: getattr(r, name)[others]
            for name in ("logprobs", "gen", "old", "ref", "advantages", "mask")
        },
    )
    _assert_equal_losses(
        policy_loss(masked.logprobs, masked.batch(), config=config),
        policy_loss(alone.logprobs, alone.batch(), config=config),
        r.logprobs,
    )


@each_variant
def test_metrics_have_the_same_names_and_no_gradient(
    responses: Responses, config: ObjectiveConfig
) -> None:
    metrics = policy_loss(responses.logprobs, responses.batch(), config=config).metrics
    assert tuple(metrics) == METRIC_NAMES
    assert not any(value.requires_grad for value in metrics.values())
    assert all(value.shape == () for value in metrics.values())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(
    make_responses: MakeResponses, dtype: torch.dtype
) -> None:
    half = make_responses(dtype=dtype)
    single = replace(
        half,
        **{
            name: getattr(half, name).float()
            for name in ("gen", "old", "ref", "advantages")
        },
    )
    low = policy_loss(half.logprobs, half.batch(), config=PAPER)
    high = policy_loss(half.logprobs.float(), single.batch(), config=PAPER)
    assert low.loss.dtype == torch.float32
    assert torch.equal(low.loss, high.loss)
    assert _gradient(low, half.logprobs).dtype == dtype


def test_advantages_may_come_in_double_precision(make_responses: MakeResponses) -> None:
    r = make_responses(dtype=torch.float32)
    double = replace(r, advantages=r.advantages.double())
    losses = [
        policy_loss(x.logprobs, x.batch(), config=PAPER).loss for x in (r, double)
    ]
    assert losses[1].dtype == torch.float32
    assert torch.equal(*losses)


@pytest.mark.parametrize(
    ("change", "config", "words"),
    [
        (
            {"ref_logprobs_BT": None},
            PAPER,
            "ref_logprobs_BT is missing while kl_coef=0.01",
        ),
        (
            {"old_logprobs_BT": None},
            ObjectiveConfig(importance=IcePop()),
            "old_logprobs_BT is missing while importance.type='icepop'",
        ),
        (
            {"gen_logprobs_BT": torch.zeros(6, 8)},
            PAPER,
            r"gen_logprobs_BT .*\(6, 9\), got \(6, 8",
        ),
        (
            {"advantages_B": torch.zeros(6, 9)},
            PAPER,
            r"advantages_B must have shape \[B\]",
        ),
        ({"mask_BT": torch.ones(6, 9)}, PAPER, "mask_BT must be boolean"),
        (
            {"mask_BT": torch.zeros(6, 9, dtype=torch.bool)},
            PAPER,
            "at least one response token",
        ),
    ],
)
def test_batch_that_does_not_fit_is_refused(
    responses: Responses, change: dict[str, object], config: ObjectiveConfig, words: str
) -> None:
    batch = replace(responses.batch(), **change)
    with pytest.raises(ObjectiveShapeError, match=words):
        policy_loss(responses.logprobs, batch, config=config)
