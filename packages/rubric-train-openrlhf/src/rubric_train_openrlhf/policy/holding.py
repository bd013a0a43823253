"""A model held to one law: its weights say what it computes, and nothing else does.

In training mode a model drops activations and shakes its routers at random; some rotary embeddings
follow the longest row of a batch. A token would then be updated under another probability than it
was drawn with. Here a model stays in evaluation mode whatever it is asked, recomputes its layers in
that mode, and rotates by the frequencies of one length.
"""

import inspect
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor
from torch.utils.checkpoint import (
    checkpoint,  # pyright: ignore[reportUnknownVariableType]  # overloads of another
)
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from rubric_core.data.model_files import read_settings
from rubric_train_openrlhf.policy import grouped_attention, onednn

_Module = TypeVar("_Module", bound=torch.nn.Module)


def hold_in_evaluation(model: _Module) -> _Module:
    """Put a model into evaluation mode for good: to ask it to train changes nothing.

    Gradients flow as before. Dropout and noise of routers depend on the mode alone.
    """
    model.eval()
    vars(model)["train"] = partial(_stays, model)
    return model


def _stays(model: torch.nn.Module, mode: bool = True) -> torch.nn.Module:  # noqa: FBT001, FBT002  # torch's own signature
    del mode
    return model


_RECOMPUTED: WeakSet[torch.nn.Module] = WeakSet()


def recompute_layers(model: torch.nn.Module) -> None:
    """Keep the input of each layer alone, and compute the rest again in the backward pass.

    The library's own switch works in training mode only. A layer that is given a cache would write
    it twice: whoever passes one asks `is_recomputed` first. One that attends by groups does so
    again in the backward pass.
    """
    if model in _RECOMPUTED:
        return
    _RECOMPUTED.add(model)
    for layer in _layers(model):
        vars(layer)["forward"] = partial(_recomputed, layer.forward)


def is_recomputed(model: torch.nn.Module) -> bool:
    """Whether layers are computed again in the backward pass, by us or by the library."""
    return model in _RECOMPUTED or is_recomputed_by_library(model)


def is_recomputed_by_library(model: torch.nn.Module) -> bool:
    """Whether layers are computed again in the backward pass by the library's own switch."""
    # Called otherwise since transformers 5.23, which warns of the old name.
    names = ("is_activation_checkpointing", "is_gradient_checkpointing")
    known = next((name for name in names if hasattr(type(model), name)), None)
    return model.training and known is not None and bool(getattr(model, known))


def _layers(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Yield the outermost layers of the kind that is recomputed; without any, the longest stack."""
    modules = list[torch.nn.Module]()
    inside = set[torch.nn.Module]()
    for module in model.modules():  # a module comes before its parts
        if isinstance(module, GradientCheckpointingLayer) and module not in inside:
            modules.append(module)
            inside.update(module.modules())
    stacks = (
        module_list
        for module_list in model.modules()
        if isinstance(module_list, torch.nn.ModuleList)
    )
    yield from modules or max(stacks, key=len, default=())


def _recomputed(forward: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*inputs, **named)
    # In evaluation mode no layer draws random numbers, whose state would have to be kept.
    return checkpoint(
        onednn.resuming(grouped_attention.resuming(forward)),
        *inputs,
        use_reentrant=False,
        preserve_rng_state=False,
        **named,
    )


ROTARY_FILE = "rotary.json"
"""Beside a saved policy whose rotary embedding follows the length: the one it was trained for."""
_KEY = "max_length"
_FOLLOWS = ("dynamic", "longrope")
_HELD: WeakKeyDictionary[torch.nn.Module, int] = WeakKeyDictionary()


def follows_length(model: torch.nn.Module) -> bool:
    """Whether a rotary embedding of the model takes other frequencies for longer rows."""
    return any(True for _ in _following(model))


def hold_rope(model: PreTrainedModel, *, longest: int | None = None) -> int | None:
    """Rotate every row by the frequencies of one length, whatever its own is.

    A response would otherwise be drawn under the frequencies of short rows up to a length, and be
    updated under those of the longest row beside it. vLLM chooses by `max_model_len` likewise.

    Args:
        model: changed in place; a model whose frequencies do not follow the length is left alone.
        longest: tokens of the longest row; left out, what it is held to already, and else the most
            that the model has positions for.

    Returns:
        The length that it is held to; None where nothing follows the length.
    """
    modules = list(_following(model))
    if not modules:
        return None
    if longest is None:
        longest = _HELD.get(model) or int(
            model.config.get_text_config().max_position_embeddings
        )
    if _HELD.get(model) != longest:
        _HELD[model] = longest
        for module in modules:
            held = vars(module).get("forward")
            forward = held.args[0] if isinstance(held, partial) else module.forward
            accepted = inspect.signature(forward).parameters
            rotated = partial(_rotated, forward, longest, module)
            table = partial(_table, forward, longest)
            vars(module)["forward"] = rotated if "position_ids" in accepted else table
    return longest


def write_rotary(model: PreTrainedModel, folder: Path) -> None:
    """Keep beside a saved policy what its rotary embedding is held to, if it is."""
    if follows_length(model) and (longest := _HELD.get(model)) is not None:
        text = json.dumps({_KEY: longest})
        (folder / ROTARY_FILE).write_text(f"{text}\n", encoding="utf-8")


def read_rotary(folder: Path) -> int | None:
    """Read what `write_rotary` kept; None where it kept nothing."""
    path = folder / ROTARY_FILE
    longest = read_settings(path).get(_KEY) if path.is_file() else None
    return longest if isinstance(longest, int) and longest > 0 else None


def _following(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    for module in model.modules():
        kinds = getattr(module, "rope_type", None)
        by_layer: dict[str, object] = {"": kinds}
        if isinstance(kinds, dict):
            by_layer = cast("dict[str, object]", kinds)
        for kind in by_layer.values():
            if isinstance(kind, str) and any(word in kind for word in _FOLLOWS):
                yield module
                break


def _rotated(
    forward: Callable[..., Any],
    longest: int,
    module: torch.nn.Module,
    x: Tensor,
    position_ids: Tensor,
    *others: Any,
    **named: Any,
) -> Any:
    """Ask for one more position, the last of the longest row, and drop its angles."""
    _forget_longer(module, longest)
    last = position_ids.new_full((*position_ids.shape[:-1], 1), longest - 1)
    angles = forward(x, torch.cat((position_ids, last), dim=-1), *others, **named)
    if isinstance(angles, Tensor):
        return angles[..., :-1, :]
    return tuple(angle[..., :-1, :] for angle in angles)


def _forget_longer(module: torch.nn.Module, longest: int) -> None:
    """Put back the frequencies that a dynamic embedding keeps from a row that was longer."""
    cached = "max_seq_len_cached"
    original = "original_inv_freq"
    for name in [name for name in vars(module) if name.endswith(cached)]:
        prefix = name.removesuffix(cached)  # the kind of layer, where kinds differ
        first = getattr(module, f"{prefix}{original}", None)
        shortest = int(vars(module)["original_max_seq_len"])
        if first is not None and getattr(module, name) > max(longest, shortest):
            # A copy: some versions write into the buffer.
            device = getattr(module, f"{prefix}inv_freq").device
            frequencies = first.detach().clone().to(device)
            module.register_buffer(f"{prefix}inv_freq", frequencies, persistent=False)
            setattr(module, name, shortest)


def _table(forward: Callable[..., Any], longest: int, x: Tensor, **_named: Any) -> Any:
    """Ask for the angles of all positions at once: a library of before 5.0, of one architecture."""
    return forward(x, seq_len=longest)
