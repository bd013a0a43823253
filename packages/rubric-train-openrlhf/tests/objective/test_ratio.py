from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rubric_train_openrlhf.errors import ObjectiveShapeError
from rubric_train_openrlhf.objective import (
    LOG_RATIO_BOUND,
    sequence_mean,
    sequence_ratio,
    sequence_token_ratio,
    token_mean,
    token_ratio,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import MakeResponses, Responses

    Ratio = Callable[..., torch.Tensor]

RATIOS = (token_ratio, sequence_ratio, sequence_token_ratio)


def _log(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64).log()


def test_token_ratio_of_a_worked_example() -> None:
    logprobs, gen = _log([0.5, 0.1, 0.3]), _log([0.25, 0.4, 0.3])
    mask = torch.tensor([[True, True, True]])
    expected = torch.tensor([[2.0, 0.25, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(token_ratio(logprobs, gen, mask_BT=mask), expected)


def test_sequence_ratio_is_the_geometric_mean_over_own_tokens() -> None:
    # Ratios (4, 1, padding) and (2, 1/2, 8): √4 = 2 and ∛8 = 2.
    logprobs, gen = (
        _log([0.8, 0.5, 0.9], [0.4, 0.2, 0.8]),
        _log([0.2, 0.5, 0.1], [0.2, 0.4, 0.1]),
    )
    mask = torch.tensor([[True, True, False], [True, True, True]])
    ratio = sequence_ratio(logprobs, gen, mask_BT=mask)
    torch.testing.assert_close(ratio, torch.tensor([2.0, 2.0], dtype=torch.float64))


def test_sequence_ratio_on_tokens_has_the_value_of_the_sequence_ratio(
    responses: Responses,
) -> None:
    r = responses
    on_tokens = sequence_token_ratio(r.logprobs, r.gen, mask_BT=r.mask)
    per_row = sequence_ratio(r.logprobs, r.gen, mask_BT=r.mask)
    torch.testing.assert_close(on_tokens, per_row[:, None].expand_as(on_tokens))


def test_sequence_ratio_on_tokens_passes_each_token_its_own_gradient(
    responses: Responses,
) -> None:
    r = responses
    on_tokens = sequence_token_ratio(r.logprobs, r.gen, mask_BT=r.mask)
    (gradient,) = torch.autograd.grad(on_tokens[0, 2], r.logprobs)
    expected = torch.zeros_like(gradient)
    expected[0, 2] = on_tokens[0, 2].detach()
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("aggregation", ["token", "sequence"])
def test_both_sequence_forms_have_one_gradient_under_any_mean(
    responses: Responses, aggregation: str
) -> None:
    r = responses

    def mean(values: torch.Tensor) -> torch.Tensor:
        weighted = values * r.advantages[:, None]
        if aggregation == "token":
            return token_mean(weighted, mask_BT=r.mask, total_tokens=int(r.mask.sum()))
        return sequence_mean(weighted, mask_BT=r.mask, total_sequences=len(r.mask))

    per_row = sequence_ratio(r.logprobs, r.gen, mask_BT=r.mask)[:, None].expand_as(
        r.logprobs
    )
    on_tokens = sequence_token_ratio(r.logprobs, r.gen, mask_BT=r.mask)
    gradients = [
        torch.autograd.grad(mean(x), r.logprobs)[0] for x in (per_row, on_tokens)
    ]
    torch.testing.assert_close(*gradients)


def test_sequence_ratio_of_one_token_is_the_token_ratio(
    make_responses: MakeResponses,
) -> None:
    r = make_responses(lengths=(1, 1, 1))
    tokens = token_ratio(r.logprobs, r.gen, mask_BT=r.mask)
    sequences = sequence_token_ratio(r.logprobs, r.gen, mask_BT=r.mask)
    torch.testing.assert_close(tokens, sequences)
    torch.testing.assert_close(
        tokens[:, 0], sequence_ratio(r.logprobs, r.gen, mask_BT=r.mask)
    )
    gradients = [
        torch.autograd.grad(x.sum(), r.logprobs)[0] for x in (tokens, sequences)
    ]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("ratio", RATIOS)
def test_ratio_is_one_where_the_policy_sampled_itself(
    responses: Responses, ratio: Ratio
) -> None:
    values = ratio(
        responses.logprobs, responses.logprobs.detach(), mask_BT=responses.mask
    )
    assert torch.equal(values, torch.ones_like(values))


@pytest.mark.parametrize("ratio", [token_ratio, sequence_ratio])
def test_ratio_gradient_agrees_with_finite_differences(
    responses: Responses, ratio: Ratio
) -> None:
    r = responses
    assert torch.autograd.gradcheck(
        lambda x: ratio(x, r.gen, mask_BT=r.mask), (r.logprobs,)
    )


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf])
def test_padding_enters_neither_ratio_nor_gradient(
    make_responses: MakeResponses, ratio: Ratio, garbage: float
) -> None:
    clean, dirty = make_responses(), make_responses()
    with torch.no_grad():
        dirty.logprobs[~dirty.mask] = garbage
        dirty.gen[~dirty.mask] = garbage
    values = [ratio(r.logprobs, r.gen, mask_BT=r.mask) for r in (clean, dirty)]
    torch.testing.assert_close(*values)
    gradients = [
        torch.autograd.grad(value.sum(), r.logprobs)[0]
        for value, r in zip(values, (clean, dirty), strict=True)
    ]
    torch.testing.assert_close(*gradients)


@given(st.floats(-1e6, 1e6))
def test_ratio_stays_within_its_bounds(log_ratio: float) -> None:
    logprobs = torch.tensor([[log_ratio]], dtype=torch.float32)
    mask = torch.ones(1, 1, dtype=torch.bool)
    for ratio in RATIOS:
        value = float(ratio(logprobs, torch.zeros(1, 1), mask_BT=mask))
        assert (
            math.exp(-LOG_RATIO_BOUND) * 0.999
            <= value
            <= math.exp(LOG_RATIO_BOUND) * 1.001
        )


def test_row_without_tokens_has_ratio_one() -> None:
    nothing = torch.zeros(1, 3, dtype=torch.bool)
    logprobs, gen = torch.zeros(1, 3), torch.full((1, 3), -1.0)
    assert float(sequence_ratio(logprobs, gen, mask_BT=nothing)) == 1.0


@pytest.mark.parametrize("ratio", RATIOS)
def test_ratio_of_unequal_shapes_is_refused(ratio: Ratio) -> None:
    mask = torch.ones(2, 3, dtype=torch.bool)
    with pytest.raises(ObjectiveShapeError, match="base_logprobs_BT"):
        ratio(torch.zeros(2, 3), torch.zeros(2, 2), mask_BT=mask)
