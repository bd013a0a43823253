"""Shape and dtype checks shared by the formulas of the objective.

Axes: B rows (one sampled response each, prompt-major), T response tokens, padded on the right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from rubric_train_openrlhf.errors import ObjectiveShapeError

if TYPE_CHECKING:
    from torch import Tensor

_TOKEN_AXES = 2


def check_mask(mask_BT: Tensor) -> None:
    """Refuse a token mask that is not a boolean matrix.

    Args:
        mask_BT: shape [B, T], True on response tokens.

    Raises:
        ObjectiveShapeError: not two axes, or not boolean.
    """
    if mask_BT.dim() != _TOKEN_AXES:
        raise ObjectiveShapeError(f"mask_BT must have shape [B, T], got {tuple(mask_BT.shape)!r}")
    if mask_BT.dtype != torch.bool:
        raise ObjectiveShapeError(
            f"mask_BT must be boolean, got {mask_BT.dtype!r}: pass mask.bool()"
        )


def check_tokens(mask_BT: Tensor, **tensors_BT: Tensor) -> None:
    """Refuse per-token tensors that are not real or do not have the mask's shape.

    Args:
        mask_BT: shape [B, T], boolean.
        tensors_BT: named tensors, each of shape [B, T] and a floating dtype.

    Raises:
        ObjectiveShapeError: another shape than the mask's, or not a floating dtype.
    """
    check_mask(mask_BT)
    for name, tensor in tensors_BT.items():
        if tensor.shape != mask_BT.shape:
            raise ObjectiveShapeError(
                f"{name} must have the shape [B, T] of mask_BT, {tuple(mask_BT.shape)!r}, "
                f"got {tuple(tensor.shape)!r}"
            )
        _check_real(name, tensor)


def check_rows(rows: int, **tensors_B: Tensor) -> None:
    """Refuse per-response tensors that are not real or do not have one value per row.

    Args:
        rows: B, the number of responses.
        tensors_B: named tensors, each of shape [B] and a floating dtype.

    Raises:
        ObjectiveShapeError: another shape than [B], or not a floating dtype.
    """
    for name, tensor in tensors_B.items():
        if tensor.shape != (rows,):
            raise ObjectiveShapeError(
                f"{name} must have shape [B] = {(rows,)!r}, one value per response, "
                f"got {tuple(tensor.shape)!r}"
            )
        _check_real(name, tensor)


def _check_real(name: str, tensor: Tensor) -> None:
    if not tensor.is_floating_point():
        raise ObjectiveShapeError(f"{name} must have a floating dtype, got {tensor.dtype!r}")
