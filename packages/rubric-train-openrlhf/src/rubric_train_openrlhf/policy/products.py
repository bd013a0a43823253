"""Products with weight matrices; on a CPU, matrices laid out once for inputs of a few rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 -- torch's own convention

Map: TypeAlias = Callable[[torch.Tensor], torch.Tensor]

# Rows that the layout is chosen for; it serves other numbers of rows nearly as well.
_ROWS = 16


def product(modules: Sequence[torch.nn.Linear], *, packed: bool) -> Map:
    """Make one map of linear layers with the same input; its outputs stand side by side.

    Args:
        modules: at least one; weights of shape [O, I].
        packed: copy the weights into oneDNN's layout (twice as fast for 16 rows of float32), where
            `can_pack` allows; a later change of the modules does not reach the copy.

    Returns:
        From [..., I] to [..., sum of O].
    """
    if packed:
        weight = torch.cat([module.weight for module in modules])
        biases = [module.bias for module in modules if module.bias is not None]
        layout: Any = _packed(weight)
        bias = torch.cat(biases) if biases else None
        return lambda x: _times(x, layout, bias)
    # To call the module itself takes longer than a small product.
    if len(modules) == 1:
        weight, bias = modules[0].weight, modules[0].bias
        return lambda x: F.linear(x, weight, bias)
    return lambda x: torch.cat([F.linear(x, one.weight, one.bias) for one in modules], dim=-1)


@lru_cache
def can_pack(dtype: torch.dtype, device: str) -> bool:
    """Tell whether this torch packs matrices of a kind, and multiplies by them as by any other."""
    if device != "cpu" or dtype is not torch.float32:
        return False
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.rand(n, 48, generator=generator, dtype=dtype) for n in (3, 32))
    try:
        found = _times(x, _packed(weight), None)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):
        return False  # operators of torch.compile, which other versions and builds may lack
    return torch.allclose(found, x @ weight.T, rtol=1e-5)


def _packed(weight: torch.Tensor) -> torch.Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _ROWS)


def _times(x: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
