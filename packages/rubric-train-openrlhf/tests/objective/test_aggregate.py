import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rubric_train_openrlhf.errors import ObjectiveShapeError
from rubric_train_openrlhf.objective import (
    UpdateSize,
    sequence_mean,
    token_mean,
    update_size,
)

VALUES = torch.tensor(
    [[1.0, 2.0, 9.0], [4.0, 9.0, 9.0], [9.0, 9.0, 9.0]], dtype=torch.float64
)
MASK = torch.tensor([[True, True, False], [True, False, False], [False, False, False]])


def test_size_counts_tokens_and_responses_that_have_one() -> None:
    assert update_size(MASK) == UpdateSize(tokens=3, sequences=2)


def test_token_mean_weighs_tokens_alike() -> None:
    assert float(token_mean(VALUES, mask_BT=MASK, total_tokens=3)) == pytest.approx(
        7 / 3
    )


def test_sequence_mean_weighs_responses_alike() -> None:
    assert float(
        sequence_mean(VALUES, mask_BT=MASK, total_sequences=2)
    ) == pytest.approx(2.75)


def test_means_agree_for_responses_of_one_length() -> None:
    values, mask = VALUES[:2], torch.ones(2, 3, dtype=torch.bool)
    size = update_size(mask)
    tokens = token_mean(values, mask_BT=mask, total_tokens=size.tokens)
    sequences = sequence_mean(values, mask_BT=mask, total_sequences=size.sequences)
    torch.testing.assert_close(tokens, sequences)


@given(
    lengths=st.lists(st.integers(0, 5), min_size=2, max_size=8).filter(any),
    cut=st.integers(1, 7),
    seed=st.integers(0, 2**31),
)
def test_micro_batches_add_up_to_the_whole(
    lengths: list[int], cut: int, seed: int
) -> None:
    mask = torch.arange(5)[None] < torch.tensor(lengths)[:, None]
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(*mask.shape, generator=generator, dtype=torch.float64)
    size = update_size(mask)

    def both(rows: slice) -> torch.Tensor:
        part, part_mask = values[rows], mask[rows]
        return torch.stack(
            [
                token_mean(part, mask_BT=part_mask, total_tokens=size.tokens),
                sequence_mean(part, mask_BT=part_mask, total_sequences=size.sequences),
            ]
        )

    torch.testing.assert_close(
        both(slice(cut)) + both(slice(cut, None)), both(slice(None))
    )


def test_padding_may_hold_anything() -> None:
    values = torch.where(MASK, VALUES, math.nan)
    assert float(token_mean(values, mask_BT=MASK, total_tokens=3)) == pytest.approx(
        7 / 3
    )
    assert float(
        sequence_mean(values, mask_BT=MASK, total_sequences=2)
    ) == pytest.approx(2.75)


def test_part_without_a_token_adds_zero_with_a_zero_gradient() -> None:
    values = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    part = token_mean(values, mask_BT=nothing, total_tokens=5)
    (gradient,) = torch.autograd.grad(part, values)
    assert part.item() == 0.0
    assert torch.equal(gradient, torch.zeros_like(gradient))


def test_update_without_a_token_is_refused() -> None:
    with pytest.raises(
        ObjectiveShapeError, match="at least one response token, got 0 tokens"
    ):
        update_size(torch.zeros(2, 3, dtype=torch.bool))
