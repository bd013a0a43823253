"""Matrix products of float32 on a CPU by oneDNN, in float32 and with gradients.

Torch gives float32 to MKL, which on some processors takes instructions half as wide as they have.
oneDNN takes the widest, but sums a long product in one go. Cut into the lengths that MKL sums, its
results are as exact as MKL's, and 1.7 times as fast on an AMD EPYC with AVX-512.
"""

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812 -- torch's own convention
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode

from rubric_core.files import read_file

# What torch.compile uses on a CPU; `serves` says whether this torch has it.
_ONEDNN: Any = torch.ops.mkldnn
# Rows that the layout is chosen for; it serves other numbers of rows nearly as well.
_ROWS = 16
_FEWEST_OPERATIONS = 2**27
"""oneDNN writes a kernel for each new shape: a millisecond, in which MKL does most of these."""
_LENGTH = 192
"""Terms that are summed in one go: as many as MKL sums. In twice as many float32 loses more."""


def serves(weight: Tensor) -> bool:
    """Tell whether oneDNN may multiply by such weights now: float32 on a CPU, without autocast."""
    return (
        weight.device.type == "cpu"
        and weight.dtype is torch.float32
        and not torch.is_autocast_enabled("cpu")
        and _has_onednn()
    )


@lru_cache
def _has_onednn() -> bool:
    """Tell whether this torch multiplies by matrices of each layout as by any other."""
    x = torch.arange(12.0).reshape(3, 4)
    weight = torch.arange(20.0).reshape(5, 4)
    turned = weight.T.contiguous().T
    ways = (lambda: packed(weight), lambda: weight, lambda: turned)
    try:
        return all(torch.allclose(times(x, way(), None), x @ weight.T) for way in ways)
    except (AttributeError, RuntimeError, TypeError):  # not of its public interface
        return False


def packed(weight: Tensor) -> Tensor:
    """Copy weights [O, I] into oneDNN's layout for inputs of a few rows."""
    return _ONEDNN._reorder_linear_weight(weight, _ROWS)  # noqa: SLF001


def times(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Give x·Wᵀ + b without gradients, [..., I] to [..., O]; weights packed or as they are."""
    return _ONEDNN._linear_pointwise(x, weight, bias, "none", [], "")  # noqa: SLF001


@lru_cache
def _outruns_mkl() -> bool:
    """Tell whether oneDNN may be faster here: MKL takes the widest instructions of Intel alone."""
    if not torch.backends.mkl.is_available():
        return False
    try:
        processor = read_file(Path("/proc/cpuinfo"))
    except OSError:
        return False
    return b"GenuineIntel" not in processor


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Give x·Wᵀ + b without gradients, [N, I] to [N, O], by oneDNN where that is faster."""
    if _outruns_mkl() and serves(weight) and _is_large(x, weight, bias):
        return _summed(x, weight, bias)
    return F.linear(x, weight, bias)


def _summed(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Give x·Wᵀ + b, [N, I] to [N, O], as the sum of products of few terms."""
    first, *later = (
        slice(start, start + _LENGTH) for start in range(0, x.shape[1], _LENGTH)
    )
    total = times(_dense(x[:, first]), _dense(weight[:, first]), bias)
    for terms in later:
        total.add_(times(_dense(x[:, terms]), _dense(weight[:, terms])))
    return total


def _dense(x: Tensor) -> Tensor:
    """Copy a matrix unless it, or its transpose, is without gaps: oneDNN is slow on others."""
    return x if x.is_contiguous() or x.T.is_contiguous() else x.contiguous()


_IS_CURRENT: ContextVar[bool] = ContextVar("by_onednn", default=False)


@contextmanager
def by_onednn(weight: Tensor) -> Generator[None]:
    """Let large linear maps of a block go through oneDNN where it serves such weights."""
    if not (_outruns_mkl() and serves(weight)):
        yield
        return
    token = _IS_CURRENT.set(True)
    try:
        with _Products():
            yield
    finally:
        _IS_CURRENT.reset(token)


class _Products(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        del types
        if func is F.linear and _is_large(*args, **(kwargs or {})):
            return _linear(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _is_large(
    input: Tensor,  # noqa: A002 -- torch's own name
    weight: Tensor,
    bias: Tensor | None = None,
) -> bool:
    rows = math.prod(input.shape[:-1])
    return (
        2 * rows * weight.numel() >= _FEWEST_OPERATIONS
        and weight.ndim == 2  # noqa: PLR2004 -- a matrix
        and all(
            x.dtype is torch.float32 and x.device.type == "cpu" for x in (input, weight)
        )
        and (bias is None or bias.dtype is torch.float32)
        and not torch.is_autocast_enabled("cpu")
    )


def _linear(
    input: Tensor,  # noqa: A002 -- torch's own name
    weight: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    function: Any = _Linear
    return function.apply(input, weight, bias)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        out_NO = _summed(x.reshape(-1, x.shape[-1]), weight, bias)
        return out_NO.view(*x.shape[:-1], len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride] -- torch's own pattern
        x, weight = cast("tuple[Tensor, Tensor]", ctx.saved_tensors)
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        gradient_NO = gradient.reshape(-1, len(weight))
        to_x = to_weight = to_bias = None
        if needs_x:
            to_x = _summed(gradient_NO, weight.T).view(x.shape)
        if needs_weight:
            to_weight = _summed(gradient_NO.T, x.reshape(-1, x.shape[-1]).T)
        if needs_bias:
            to_bias = gradient_NO.sum(dim=0)
        return to_x, to_weight, to_bias


def resuming(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Let a layer that is computed again in the backward pass multiply as it does now."""
    if not _IS_CURRENT.get():
        return forward

    def resumed(*inputs: Any, **named: Any) -> Any:
        with _Products():
            return forward(*inputs, **named)

    return resumed
