"""Step-by-step decoding of Llama models by plain matrix products on their own weights.

The model's forward spends most of a small decoding step in Python. This reads the same weights
with a handful of calls per layer and writes keys and values into buffers that grow by doubling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812 -- torch's own convention
from transformers import LlamaForCausalLM

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedModel
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

    from rubric_train_openrlhf.policy.prompts import PaddedPrompts

# Rotary embeddings whose angles depend on the position alone, not on the longest one so far.
_STATIC_ROPE = frozenset({"default", "linear", "llama3", "yarn"})
# Response tokens that the key-value buffers hold at first; they double when full.
_FIRST_CAPACITY = 64


def is_plain_llama(model: PreTrainedModel) -> bool:
    """Tell whether `LlamaDecoder` computes what the model's own forward would.

    Args:
        model: any causal language model.

    Returns:
        False for other architectures, adapters, quantised layers and rotary embeddings that
        change with the length: those go through the model's own forward.
    """
    return (
        type(model) is LlamaForCausalLM
        and model.model.rotary_emb.rope_type in _STATIC_ROPE
        and all(
            type(module) is torch.nn.Linear
            for name, module in model.named_modules()
            if name.endswith("_proj") or name == "lm_head"
        )
    )


@dataclass(frozen=True, slots=True)
class _Layer:
    """One decoder layer: its weights, and the keys and values of all rows."""

    source: LlamaDecoderLayer
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    gate_up: torch.Tensor
    gate_up_bias: torch.Tensor | None


def _stacked(*linears: torch.nn.Linear) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Put linear maps of one input on top of each other, so that one product does for all."""
    weight = torch.cat([linear.weight for linear in linears])
    biases = [linear.bias for linear in linears if linear.bias is not None]
    return weight, torch.cat(biases) if biases else None


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class LlamaDecoder:
    """Decoding of a plain Llama (see `is_plain_llama`), any width, grouped queries included."""

    def __init__(self, model: LlamaForCausalLM, *, max_tokens: int) -> None:
        """Read the weights and lay out the rotary angles.

        Args:
            model: on any device, in any floating type.
            max_tokens: longest prompt plus response.
        """
        config = model.config
        attention = model.model.layers[0].self_attn
        self._model = model
        self._head_dim: int = attention.head_dim
        self._scaling: float = attention.scaling
        self._n_kv_heads: int = config.num_key_value_heads
        self._queries_per_key: int = attention.num_key_value_groups
        self._epsilon: float = config.rms_norm_eps
        self._layers = [_Layer(layer, *_fused(layer)) for layer in model.model.layers]
        weight = model.model.embed_tokens.weight
        positions = torch.arange(max_tokens, device=weight.device)[None]
        cos, sin = model.model.rotary_emb(weight[:1], position_ids=positions)
        self._cos_SD: torch.Tensor = cos[0]
        self._sin_SD: torch.Tensor = sin[0]
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []
        self._filled = 0
        self._bias_N11S = torch.empty(0)
        self._next_position_N = torch.empty(0)

    def prefill(self, prompts: PaddedPrompts) -> torch.Tensor:
        """Read the prompts once and give the logits [P, V] of each first response token."""
        mask_PS = prompts.mask_PS
        n_prompts, width = mask_PS.shape
        causal_SS = torch.ones(width, width, dtype=torch.bool, device=mask_PS.device).tril()
        # A padding position sees itself, since a softmax over nothing is not a number.
        seen_P1SS = (causal_SS & mask_PS[:, None, None, :]) | torch.eye(
            width, dtype=torch.bool, device=mask_PS.device
        )

        def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            del layer
            self._keys.append(k)
            self._values.append(v)
            repeated = (x.repeat_interleave(self._queries_per_key, dim=1) for x in (k, v))
            return F.scaled_dot_product_attention(
                q, *repeated, attn_mask=seen_P1SS, scale=self._scaling
            )

        self._filled = width
        self._next_position_N = prompts.lengths_P
        dtype = self._cos_SD.dtype
        self._bias_N11S = torch.zeros(n_prompts, 1, 1, width, dtype=dtype, device=mask_PS.device)
        self._bias_N11S.masked_fill_(~mask_PS[:, None, None, :], float("-inf"))
        return self._forward(prompts.token_ids_PS, prompts.positions_PS, attend)

    def repeat(self, group_size: int) -> None:
        """Share what was read of each prompt with the G rows of its group."""
        self._next_position_N = self._next_position_N.repeat_interleave(group_size)
        self._rebuild(lambda x: x.repeat_interleave(group_size, dim=0), _FIRST_CAPACITY)

    def keep(self, rows_N: torch.Tensor) -> None:
        """Go on with these rows alone."""
        self._next_position_N = self._next_position_N[rows_N]
        self._rebuild(lambda x: x[rows_N], 0)

    def advance(self, tokens_N: torch.Tensor) -> torch.Tensor:
        """Append one token per row and give the logits [N, V] of the next."""
        at = self._filled
        if at == self._keys[0].shape[2]:
            self._rebuild(lambda x: x, at)
        bias_N11S = self._bias_N11S[..., : at + 1]

        def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            self._keys[layer][:, :, at] = k[:, :, 0]
            self._values[layer][:, :, at] = v[:, :, 0]
            # With one query per row, the queries that share a key head stand in for a sequence.
            grouped = q.view(-1, self._n_kv_heads, self._queries_per_key, self._head_dim)
            keys = self._keys[layer][:, :, : at + 1]
            values = self._values[layer][:, :, : at + 1]
            out = F.scaled_dot_product_attention(
                grouped, keys, values, attn_mask=bias_N11S, scale=self._scaling
            )
            return out.reshape(q.shape)

        logits_NV = self._forward(tokens_N[:, None], self._next_position_N[:, None], attend)
        self._filled = at + 1
        self._next_position_N = self._next_position_N + 1
        return logits_NV

    def _rebuild(self, select: Callable[[torch.Tensor], torch.Tensor], room: int) -> None:
        """Copy every buffer through `select`, with free room at the end for more tokens."""
        for buffers in (self._keys, self._values):
            for layer, buffer in enumerate(buffers):
                buffers[layer] = F.pad(select(buffer), (0, 0, 0, room))
        self._bias_N11S = F.pad(select(self._bias_N11S), (0, room))

    def _forward(
        self,
        tokens_NS: torch.Tensor,
        positions_NS: torch.Tensor,
        attend: Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor],
    ) -> torch.Tensor:
        rows, width = tokens_NS.shape
        n_queries = self._n_kv_heads * self._queries_per_key
        cos, sin = self._cos_SD[positions_NS][:, None], self._sin_SD[positions_NS][:, None]
        x = F.embedding(tokens_NS, self._model.model.embed_tokens.weight)
        for index, layer in enumerate(self._layers):
            normed = self._normed(x, layer.source.input_layernorm.weight)
            heads = F.linear(normed, layer.qkv, layer.qkv_bias)
            heads = heads.view(rows, width, -1, self._head_dim).transpose(1, 2)
            q, k, v = heads.split((n_queries, self._n_kv_heads, self._n_kv_heads), dim=1)
            mixed = attend(index, _rotated(q, cos, sin), _rotated(k, cos, sin), v)
            x = x + layer.source.self_attn.o_proj(mixed.transpose(1, 2).reshape(rows, width, -1))
            normed = self._normed(x, layer.source.post_attention_layernorm.weight)
            gate, up = F.linear(normed, layer.gate_up, layer.gate_up_bias).chunk(2, dim=-1)
            x = x + layer.source.mlp.down_proj(layer.source.mlp.act_fn(gate) * up)
        last = self._normed(x[:, -1], self._model.model.norm.weight)
        return self._model.lm_head(last)

    def _normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (x.shape[-1],), weight, self._epsilon)


def _fused(
    layer: LlamaDecoderLayer,
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor, torch.Tensor | None]:
    attention, mlp = layer.self_attn, layer.mlp
    return (
        *_stacked(attention.q_proj, attention.k_proj, attention.v_proj),
        *_stacked(mlp.gate_proj, mlp.up_proj),
    )
