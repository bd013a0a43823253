import pytest
import torch

from rubric_train_openrlhf.errors import ObjectiveShapeError
from rubric_train_openrlhf.objective.shapes import (
    check_mask,
    check_rows,
    check_tokens,
)


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (
            torch.ones(3, dtype=torch.bool),
            r"mask_BT must have shape \[B, T\], got \(3,\)",
        ),
        (
            torch.ones(2, 3),
            r"mask_BT must be boolean, got torch.float32: pass mask.bool\(\)",
        ),
    ],
)
def test_mask_that_is_no_boolean_matrix_is_refused(
    mask: torch.Tensor, words: str
) -> None:
    with pytest.raises(ObjectiveShapeError, match=words):
        check_mask(mask)


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (
            torch.zeros(2, 4),
            r"logprobs_BT must have the shape .*\(2, 3\), got \(2, 4\)",
        ),
        (
            torch.zeros(2, 3, dtype=torch.int64),
            "logprobs_BT must have a floating dtype",
        ),
    ],
)
def test_token_tensor_that_does_not_fit_the_mask_is_refused(
    tensor: torch.Tensor, words: str
) -> None:
    with pytest.raises(ObjectiveShapeError, match=words):
        check_tokens(torch.ones(2, 3, dtype=torch.bool), logprobs_BT=tensor)


@pytest.mark.parametrize("shape", [(2, 3), (3,), ()])
def test_row_tensor_without_one_value_per_response_is_refused(
    shape: tuple[int, ...],
) -> None:
    with pytest.raises(
        ObjectiveShapeError, match=r"advantages_B must have shape \[B\] = \(2,\)"
    ):
        check_rows(2, advantages_B=torch.zeros(shape))


def test_row_tensor_of_whole_numbers_is_refused() -> None:
    with pytest.raises(
        ObjectiveShapeError, match="advantages_B must have a floating dtype"
    ):
        check_rows(2, advantages_B=torch.zeros(2, dtype=torch.int64))
