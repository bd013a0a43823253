"""Checks of the tensors that go into the objective, and of what its variants give."""

from collections.abc import Mapping

import torch
from torch import Tensor

from rubric_train_openrlhf.errors import ObjectiveShapeError

_TOKEN_AXES = 2


def check_mask(mask_BT: Tensor) -> None:
    """Refuse a token mask that is not a boolean matrix.

    Args:
        mask_BT: shape [B, T], True on response tokens.

    Raises:
        ObjectiveShapeError: not two axes, or not boolean.
    """
    if mask_BT.dim() != _TOKEN_AXES:
        raise ObjectiveShapeError(
            f"mask_BT must have shape [B, T], got {tuple(mask_BT.shape)!r}"
        )
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
    _check_real(
        f"the shape [B, T] of mask_BT, {tuple(mask_BT.shape)!r}",
        mask_BT.shape,
        tensors_BT,
    )


def check_rows(rows: int, **tensors_B: Tensor) -> None:
    """Refuse per-response tensors that are not real or do not have one value per row.

    Args:
        rows: B, the number of responses.
        tensors_B: named tensors, each of shape [B] and a floating dtype.

    Raises:
        ObjectiveShapeError: another shape than [B], or not a floating dtype.
    """
    _check_real(f"shape [B] = {(rows,)!r}, one value per response", (rows,), tensors_B)


def _check_real(
    what: str, shape: tuple[int, ...], tensors: Mapping[str, Tensor]
) -> None:
    for name, tensor in tensors.items():
        if tensor.shape != shape:
            raise ObjectiveShapeError(
                f"{name} must have {what}, got {tuple(tensor.shape)!r}"
            )
        if not tensor.is_floating_point():
            raise ObjectiveShapeError(
                f"{name} must have a floating dtype, got {tensor.dtype!r}"
            )


def check_shape(values: Tensor, *, like: Tensor, of: str) -> None:
    """Refuse values of a part of the objective that would be broadcast silently.

    Raises:
        ObjectiveShapeError: the shapes differ.
    """
    if values.shape != like.shape:
        raise ObjectiveShapeError(
            f"objective.{of} gives shape {tuple(values.shape)!r}, one value for each of "
            f"{tuple(like.shape)!r} tokens is needed"
        )
