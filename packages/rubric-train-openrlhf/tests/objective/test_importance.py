from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rubric_train_openrlhf.objective import (
    IcePop,
    NoImportance,
    SeqMaskTruncated,
    Truncated,
    icepop_weights,
    importance_ratio,
    importance_weights,
    sequence_masked_weights,
    truncated_weights,
)

if TYPE_CHECKING:
    from conftest import MakeResponses, Responses
    from rubric_train_openrlhf.objective import Importance

EVERY = (
    NoImportance(),
    Truncated(),
    Truncated(level="sequence"),
    IcePop(),
    IcePop(level="sequence"),
    SeqMaskTruncated(),
)
UNBOUNDED = (
    Truncated(cap=math.inf),
    IcePop(low=0.0, high=math.inf),
    SeqMaskTruncated(low=0.0, high=math.inf),
)
RATIOS = torch.tensor([[0.25, 0.5, 1.0, 3.0, 6.0]], dtype=torch.float64)


def test_importance_ratio_of_a_worked_example() -> None:
    old = torch.tensor([[0.4, 0.1, 0.7]], dtype=torch.float64).log()
    gen = torch.tensor([[0.2, 0.4, 0.1]], dtype=torch.float64).log()
    mask = torch.tensor([[True, True, False]])
    tokens = importance_ratio(old, gen, mask_BT=mask)
    product = importance_ratio(old, gen, mask_BT=mask, level="sequence")
    torch.testing.assert_close(
        tokens, torch.tensor([[2.0, 0.25, 0.0]], dtype=torch.float64)
    )
    torch.testing.assert_close(
        product, torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64)
    )


def test_tis_caps_large_weights_alone() -> None:
    assert truncated_weights(RATIOS, cap=2.0).tolist() == [[0.25, 0.5, 1.0, 2.0, 2.0]]


def test_icepop_drops_weights_outside_its_band_and_keeps_its_ends() -> None:
    kept = icepop_weights(RATIOS, low=0.5, high=3.0)
    assert kept.tolist() == [[0.0, 0.5, 1.0, 3.0, 0.0]]


def test_seq_mask_drops_whole_responses_and_keeps_raw_token_weights() -> None:
    # Geometric means 1 (of 4 and 1/4) and 2 (of 2 and 2).
    old = torch.tensor([[4.0, 0.25], [2.0, 2.0]], dtype=torch.float64).log()
    weights = sequence_masked_weights(
        old,
        torch.zeros_like(old),
        mask_BT=torch.ones(2, 2, dtype=torch.bool),
        low=0.999,
        high=1.002,
    )
    torch.testing.assert_close(
        weights, torch.tensor([[4.0, 0.25], [0.0, 0.0]], dtype=torch.float64)
    )


@pytest.mark.parametrize(
    "importance", EVERY, ids=lambda x: f"{x.type}-{getattr(x, 'level', '')}"
)
def test_weights_are_one_where_trainer_and_sampler_agree(
    responses: Responses, importance: Importance
) -> None:
    r = responses
    weights = importance_weights(
        r.old, r.old.clone(), mask_BT=r.mask, importance=importance
    )
    assert torch.equal(weights, r.mask.to(weights.dtype))


@pytest.mark.parametrize("importance", UNBOUNDED, ids=lambda x: x.type)
def test_unbounded_corrections_are_plain_importance_sampling(
    make_responses: MakeResponses, importance: Importance
) -> None:
    r = make_responses(mismatch=2.0)
    weights = importance_weights(r.old, r.gen, mask_BT=r.mask, importance=importance)
    torch.testing.assert_close(weights, importance_ratio(r.old, r.gen, mask_BT=r.mask))


@pytest.mark.parametrize(
    "importance", EVERY, ids=lambda x: f"{x.type}-{getattr(x, 'level', '')}"
)
def test_weights_carry_no_gradient_and_no_padding(
    make_responses: MakeResponses, importance: Importance
) -> None:
    r = make_responses(mismatch=1.0)
    with torch.no_grad():
        r.gen[~r.mask] = math.nan
    weights = importance_weights(
        r.logprobs, r.gen, mask_BT=r.mask, importance=importance
    )
    assert not weights.requires_grad
    assert torch.equal(weights[~r.mask], torch.zeros_like(weights[~r.mask]))


def test_both_levels_agree_for_a_response_of_one_token(
    make_responses: MakeResponses,
) -> None:
    r = make_responses(lengths=(1, 1, 1))
    token, sequence = (
        importance_ratio(r.old, r.gen, mask_BT=r.mask, level=level)
        for level in ("token", "sequence")
    )
    assert torch.equal(token, sequence)


@given(st.floats(0, 1e9), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_icepop_and_tis_agree_inside_the_band(
    weight: float, low: float, width: float
) -> None:
    high = low + width
    ratio = torch.tensor([[weight]], dtype=torch.float64)
    kept = float(icepop_weights(ratio, low=low, high=high))
    assert kept == (
        float(truncated_weights(ratio, cap=high)) if low <= weight <= high else 0.0
    )
