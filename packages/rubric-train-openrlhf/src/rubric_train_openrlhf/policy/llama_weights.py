"""The weights of a plain Hugging Face Llama, read into typed records without copying."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from transformers import LlamaForCausalLM

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedModel

# Rotary embeddings whose angles depend on the position alone, not on the longest one so far.
_STATIC_ROPE = frozenset({"default", "linear", "llama3", "yarn"})


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear map."""

    weight: torch.Tensor
    bias: torch.Tensor | None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Apply it to the last axis."""
        return torch.nn.functional.linear(x, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One decoder layer."""

    attention_norm: torch.Tensor
    queries: Linear
    keys: Linear
    values: Linear
    attention_out: Linear
    mlp_norm: torch.Tensor
    gate: Linear
    up: Linear
    down: Linear
    activation: Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class LlamaWeights:
    """A whole model, and the shape of its attention."""

    embedding: torch.Tensor
    layers: tuple[LayerWeights, ...]
    norm: torch.Tensor
    head: Linear
    epsilon: float
    head_dim: int
    kv_heads: int
    queries_per_key: int
    scaling: float
    rotary: Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
    """From any tensor of the model's type and positions [1, S] to cosines and sines [1, S, D]."""


def is_plain_llama(model: PreTrainedModel) -> bool:
    """Tell whether the weights alone say what the model computes.

    Args:
        model: any causal language model.

    Returns:
        False for other architectures, adapters, quantised layers, and rotary embeddings that
        change with the length of the text.
    """
    if type(model) is not LlamaForCausalLM:
        return False
    llama = cast("Any", model)
    modules = cast("list[tuple[str, torch.nn.Module]]", list(llama.named_modules()))
    return llama.model.rotary_emb.rope_type in _STATIC_ROPE and all(
        type(module) is torch.nn.Linear
        for name, module in modules
        if name.endswith("_proj") or name == "lm_head"
    )


def read_weights(model: PreTrainedModel) -> LlamaWeights:
    """Read the weights of a model that `is_plain_llama` accepts.

    Args:
        model: on any device, in any floating type.

    Returns:
        Records that share the model's memory.
    """
    llama = cast("Any", model)
    attention = llama.model.layers[0].self_attn
    return LlamaWeights(
        embedding=llama.model.embed_tokens.weight,
        layers=tuple(_layer(layer) for layer in llama.model.layers),
        norm=llama.model.norm.weight,
        head=_linear(llama.lm_head),
        epsilon=llama.config.rms_norm_eps,
        head_dim=attention.head_dim,
        kv_heads=llama.config.num_key_value_heads,
        queries_per_key=attention.num_key_value_groups,
        scaling=attention.scaling,
        rotary=llama.model.rotary_emb,
    )


def _layer(layer: Any) -> LayerWeights:  # noqa: ANN401 -- the library leaves its modules untyped
    attention, mlp = layer.self_attn, layer.mlp
    return LayerWeights(
        attention_norm=layer.input_layernorm.weight,
        queries=_linear(attention.q_proj),
        keys=_linear(attention.k_proj),
        values=_linear(attention.v_proj),
        attention_out=_linear(attention.o_proj),
        mlp_norm=layer.post_attention_layernorm.weight,
        gate=_linear(mlp.gate_proj),
        up=_linear(mlp.up_proj),
        down=_linear(mlp.down_proj),
        activation=mlp.act_fn,
    )


def _linear(module: torch.nn.Linear) -> Linear:
    return Linear(module.weight, module.bias)
