"""Step-by-step decoding of Llama models by plain matrix products on their own weights.

On a CPU these are laid out once for inputs of a few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812 -- torch's own convention
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedModel

from rubric_train_openrlhf.policy import onednn
from rubric_train_openrlhf.policy.rollouts import PaddedPrompts

Map = Callable[[Tensor], Tensor]


def product(modules: Sequence[torch.nn.Linear], *, packed: bool) -> Map:
    """Make one map of linear layers with the same input; their outputs stand side by side.

    Args:
        modules: at least one, all with a bias or none; weights of shape [O, I].
        packed: copy the weights into oneDNN's layout, where `onednn.serves` allows: 1.7 times as
            fast for 16 rows. A later change of the modules does not reach the copy.

    Returns:
        From [..., I] to [..., sum of O].
    """
    if packed:
        layout = onednn.packed(
            torch.cat([module.weight.detach() for module in modules])
        )
        biased = cast("Any", modules[0].bias) is not None
        bias = (
            torch.cat([module.bias.detach() for module in modules]) if biased else None
        )
        return lambda x: onednn.times(x, layout, bias)
    # To call the module itself takes longer than a small product.
    if len(modules) == 1:
        weight = modules[0].weight
        bias = modules[0].bias
        return lambda x: F.linear(x, weight, bias)
    return lambda x: torch.cat(
        [F.linear(x, module.weight, module.bias) for module in modules], dim=-1
    )


def rms_norm(module: Any, *, packed: bool) -> Map:
    """Make the map w·x / √(mean x² + ε) of a norm with a weight and an epsilon.

    Args:
        module: one of Llama's.
        packed: as w·√n·x / √(|x|² + n·ε), four kernels where torch takes seven on a CPU.
    """
    weight: Tensor = module.weight
    epsilon = float(module.variance_epsilon)
    n = len(weight)
    if not packed:
        return lambda x: F.rms_norm(x, (n,), weight, epsilon)
    scaled = weight * n**0.5
    floor = torch.tensor((n * epsilon) ** 0.5)
    vector_norm = cast("Any", torch.linalg).vector_norm

    def norm(x: Tensor) -> Tensor:
        length: Tensor = vector_norm(x, dim=-1, keepdim=True)
        return x / length.hypot(floor) * scaled

    return norm


Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]

# Rotary embeddings whose angles depend on the position alone, not on the longest one so far.
_STATIC_ROPE = frozenset({"default", "linear", "llama3", "yarn"})


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One decoder layer."""

    attention_norm: Map
    queries_keys_values: Map
    attention_out: Map
    mlp_norm: Map
    gate_up: Map
    down: Map
    activation: Map


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


def _layer(layer: Any, *, packed: bool) -> LayerWeights:
    attention = layer.self_attn
    mlp = layer.mlp
    inputs = (attention.q_proj, attention.k_proj, attention.v_proj)
    return LayerWeights(
        attention_norm=rms_norm(layer.input_layernorm, packed=packed),
        queries_keys_values=product(inputs, packed=packed),
        attention_out=product([attention.o_proj], packed=packed),
        mlp_norm=rms_norm(layer.post_attention_layernorm, packed=packed),
        gate_up=product([mlp.gate_proj, mlp.up_proj], packed=packed),
        down=product([mlp.down_proj], packed=packed),
        activation=mlp.act_fn,
    )


@dataclass(frozen=True, slots=True)
class GroupLayout:
    """N rows in prompt-major order as a grid of P prompts by the largest group left, G."""

    n_prompts: int
    group_size: int
    slots_N: Tensor
    """Place of each row in the grid, counted along it."""
    rows_PG: Tensor
    """Row at each place, flat; row 0 stands in where a group is smaller than G."""

    @classmethod
    def full(
        cls, n_prompts: int, group_size: int, *, device: torch.device
    ) -> GroupLayout:
        """Lay out groups that are all of one size, without gaps."""
        rows = torch.arange(n_prompts * group_size, device=device)
        return cls(n_prompts, group_size, rows, rows)

    def keep(self, rows_N: Tensor) -> tuple[Tensor, GroupLayout]:
        """Thin the groups out.

        Args:
            rows_N: rows to keep, in rising order.

        Returns:
            The prompts that still have a row, and the layout of what is left.
        """
        prompts_N = self.slots_N[rows_N] // self.group_size
        sizes_P = torch.bincount(prompts_N, minlength=self.n_prompts)
        kept_P = sizes_P.nonzero()[:, 0]
        sizes_P = sizes_P[kept_P]
        group_size = int(sizes_P.max())
        starts_P = sizes_P.cumsum(0) - sizes_P
        rows = torch.arange(len(rows_N), device=rows_N.device)
        prompt_N = torch.arange(len(kept_P), device=rows_N.device).repeat_interleave(
            sizes_P
        )
        slots_N = prompt_N * group_size + rows - starts_P[prompt_N]
        rows_PG = torch.zeros(
            len(kept_P) * group_size, dtype=torch.long, device=rows_N.device
        )
        rows_PG[slots_N] = rows
        return kept_P, GroupLayout(len(kept_P), group_size, slots_N, rows_PG)

    def by_prompt(self, x_NHQD: Tensor) -> Tensor:
        """Join the queries of each group, [N, H, Q, …] to [P, H, G·Q, …]."""
        if not self._gapless:
            x_NHQD = x_NHQD[self.rows_PG]
        _, heads, queries, width = x_NHQD.shape
        grid = x_NHQD.reshape(self.n_prompts, self.group_size, heads, queries, width)
        return grid.transpose(1, 2).reshape(self.n_prompts, heads, -1, width)

    def by_row(self, x_PHJD: Tensor) -> Tensor:
        """Undo `by_prompt`, [P, H, G·Q, …] to [N, H, Q, …]."""
        _, heads, joined, width = x_PHJD.shape
        grid = x_PHJD.reshape(
            self.n_prompts, heads, self.group_size, -1, width
        ).transpose(1, 2)
        rows = grid.reshape(-1, heads, joined // self.group_size, width)
        return rows if self._gapless else rows[self.slots_N]

    @property
    def _gapless(self) -> bool:
        return len(self.slots_N) == len(self.rows_PG)


# Response tokens that the key-value buffers hold at first; they double when full.
_FIRST_CAPACITY = 64
# Most tokens, padding included, that are read at once where prompts differ in length.
_READ_AT_ONCE = 4096


def of_like_length(lengths_P: Tensor) -> list[Tensor]:
    """Cut prompts into parts that are read at once, so that little of each part is padding.

    Args:
        lengths_P: tokens of each prompt.

    Returns:
        Indices of each part, all prompts together; one part where all fit.
    """
    lengths, order_P = lengths_P.sort(descending=True)
    parts: list[Tensor] = []
    first = 0
    while first < len(order_P):
        rows = max(_READ_AT_ONCE // int(lengths[first]), 1)
        parts.append(order_P[first : first + rows])
        first += rows
    return parts if len(parts) > 1 else [torch.arange(len(lengths_P))]


class LlamaDecoder:
    """Decoding of a plain Llama (see `is_plain_llama`), grouped queries included."""

    def __init__(self, model: PreTrainedModel, *, max_tokens: int) -> None:
        """Read the weights and lay out the rotary angles.

        Args:
            model: on any device, in any floating type.
            max_tokens: longest prompt plus response.
        """
        llama = cast("Any", model)
        body = llama.model
        attention = llama.model.layers[0].self_attn
        self._embedding: Tensor = body.embed_tokens.weight
        packed = onednn.serves(self._embedding)
        self._layers = [_layer(layer, packed=packed) for layer in body.layers]
        self._norm = rms_norm(body.norm, packed=packed)
        self._head = product([llama.lm_head], packed=packed)
        self._head_dim: int = attention.head_dim
        self._kv_heads: int = llama.config.num_key_value_heads
        self._queries_per_key: int = attention.num_key_value_groups
        self._scaling: float = attention.scaling
        positions = torch.arange(max_tokens, device=model.device)[None]
        cos, sin = body.rotary_emb(self._embedding[:1], positions)
        # The first half of a head turns by the second half, negated.
        first, second = sin[0].chunk(2, dim=-1)
        self._cos_SD = cos[0]
        self._sin_SD = torch.cat((-first, second), dim=-1)
        self._prompt_keys: list[Tensor] = []
        self._prompt_values: list[Tensor] = []
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._filled = 0

    def start(self, prompts: PaddedPrompts, group_size: int) -> Tensor:
        """Read each prompt once, and share what was read with its G rows; logits [P·G, V]."""
        logits_PV = self.prefill(prompts)
        self.repeat(group_size)
        return logits_PV.repeat_interleave(group_size, dim=0)

    def prefill(self, prompts: PaddedPrompts) -> Tensor:
        """Read the prompts once and give the logits [P, V] of each first response token."""
        self._next_position_N = prompts.lengths_P
        unseen_PS = torch.zeros_like(prompts.mask_PS, dtype=self._embedding.dtype)
        unseen_PS = unseen_PS.masked_fill_(~prompts.mask_PS, float("-inf"))
        self._unseen_P11S = unseen_PS[:, None, None, :]
        parts = of_like_length(prompts.lengths_P)
        if len(parts) == 1:
            logits_PV, self._prompt_keys, self._prompt_values = self._read(prompts)
            return logits_PV
        n_prompts, width = prompts.mask_PS.shape
        shape = (n_prompts, self._kv_heads, width, self._head_dim)
        logits: list[Tensor] = []
        for rows_R in parts:
            part = prompts.part(rows_R)
            logits_RV, keys, values = self._read(part)
            if not logits:
                self._prompt_keys = [key.new_zeros(shape) for key in keys]
                self._prompt_values = [value.new_zeros(shape) for value in values]
            logits.append(logits_RV)
            start = width - part.mask_PS.shape[1]
            for whole, read in (
                *zip(self._prompt_keys, keys, strict=True),
                *zip(self._prompt_values, values, strict=True),
            ):
                whole[rows_R, :, start:] = read
        return torch.cat(logits)[torch.cat(parts).argsort()]

    def _read(
        self, prompts: PaddedPrompts
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Give the last logits [P, V], and each layer's keys and values [P, K, S, D]."""
        mask_PS = prompts.mask_PS
        seen_P1SS = None
        if not mask_PS.all():
            width = mask_PS.shape[1]
            ones_SS = torch.ones(width, width, dtype=torch.bool, device=mask_PS.device)
            # A padding position sees itself, since a softmax over nothing is not a number.
            itself_SS = torch.eye(width, dtype=torch.bool, device=mask_PS.device)
            seen_P1SS = (ones_SS.tril() & mask_PS[:, None, None, :]) | itself_SS
        keys: list[Tensor] = []
        values: list[Tensor] = []

        def attend(_: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            # Without gaps: a product with a cache that has some copies it at each token.
            keys.append(k.to(v.dtype).contiguous())  # autocast leaves keys wider
            values.append(v.contiguous())
            k, v = (x.repeat_interleave(self._queries_per_key, dim=1) for x in (k, v))
            return F.scaled_dot_product_attention(
                q,
                k,
                v,
                attn_mask=seen_P1SS,
                is_causal=seen_P1SS is None,
                scale=self._scaling,
            )

        logits_PV = self._forward(prompts.token_ids_PS, prompts.positions_PS, attend)
        return logits_PV, keys, values

    def repeat(self, group_size: int) -> None:
        """Share what was read of each prompt with the G rows of its group."""
        n_prompts = len(self._next_position_N)
        self._next_position_N = self._next_position_N.repeat_interleave(group_size)
        self._layout = GroupLayout.full(
            n_prompts, group_size, device=self._unseen_P11S.device
        )
        shape = (
            n_prompts * group_size,
            self._kv_heads,
            _FIRST_CAPACITY,
            self._head_dim,
        )
        self._keys = [key.new_zeros(shape) for key in self._prompt_keys]
        self._values = [value.new_zeros(shape) for value in self._prompt_values]

    def keep(self, rows_N: Tensor) -> None:
        """Go on with these rows alone."""
        self._next_position_N = self._next_position_N[rows_N]
        self._keys = [key[rows_N] for key in self._keys]
        self._values = [value[rows_N] for value in self._values]
        prompts_P, self._layout = self._layout.keep(rows_N)
        if len(prompts_P) < len(self._unseen_P11S):
            self._unseen_P11S = self._unseen_P11S[prompts_P]
            self._prompt_keys = [key[prompts_P] for key in self._prompt_keys]
            self._prompt_values = [value[prompts_P] for value in self._prompt_values]

    def advance(self, tokens_N: Tensor) -> Tensor:
        """Append one token per row and give the logits [N, V] of the next."""
        capacity = self._keys[0].shape[2]
        if self._filled == capacity:
            self._keys = [F.pad(key, (0, 0, 0, capacity)) for key in self._keys]
            self._values = [F.pad(value, (0, 0, 0, capacity)) for value in self._values]
        self._filled += 1
        logits_NV = self._forward(
            tokens_N[:, None], self._next_position_N[:, None], self._attend_to_all
        )
        self._next_position_N = self._next_position_N + 1
        return logits_NV

    def _attend_to_all(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Let one new token per row look at its prompt and at its own response so far."""
        layout = self._layout
        self._keys[layer][:, :, self._filled - 1] = k[:, :, 0]
        self._values[layer][:, :, self._filled - 1] = v[:, :, 0]
        keys, values = (
            x[layer][:, :, : self._filled] for x in (self._keys, self._values)
        )
        # Queries that share a key stand where a sequence would; rows of a group join them.
        shape = (-1, self._kv_heads, self._queries_per_key, self._head_dim)
        grouped = (q * self._scaling).reshape(shape)
        to_prompt = layout.by_prompt(grouped) @ self._prompt_keys[layer].transpose(2, 3)
        to_prompt = layout.by_row(to_prompt + self._unseen_P11S)
        to_own = grouped @ keys.transpose(2, 3)
        shares = torch.cat((to_prompt, to_own), dim=-1).softmax(
            dim=-1, dtype=torch.float32
        )
        shares = shares.to(v.dtype)
        prompt_width = to_prompt.shape[-1]
        of_prompt = shares[..., :prompt_width]
        of_own = shares[..., prompt_width:]
        mixed = layout.by_row(layout.by_prompt(of_prompt) @ self._prompt_values[layer])
        return (mixed + of_own @ values).reshape(q.shape)

    def _forward(
        self, tokens_NS: Tensor, positions_NS: Tensor, attend: Attend
    ) -> Tensor:
        rows, width = tokens_NS.shape
        cos = self._cos_SD[positions_NS][:, None]
        sin = self._sin_SD[positions_NS][:, None]

        def heads(x: Tensor) -> Tensor:
            return x.view(rows, width, -1, self._head_dim).transpose(1, 2)

        x = F.embedding(tokens_NS, self._embedding)
        for index, layer in enumerate(self._layers):
            normed = layer.attention_norm(x)
            joined = heads(layer.queries_keys_values(normed))
            rotated = _rotated(joined[:, : -self._kv_heads], cos, sin)
            q = rotated[:, : -self._kv_heads]
            k = rotated[:, -self._kv_heads :]
            mixed = attend(index, q, k, joined[:, -self._kv_heads :])
            x = x + layer.attention_out(mixed.transpose(1, 2).reshape(rows, width, -1))
            normed = layer.mlp_norm(x)
            gate, up = layer.gate_up(normed).chunk(2, dim=-1)
            x = x + layer.down(layer.activation(gate) * up)
        return self._head(self._norm(x[:, -1]))


def _rotated(x: Tensor, cos: Tensor, signed_sin: Tensor) -> Tensor:
    return x * cos + x.roll(x.shape[-1] // 2, -1) * signed_sin
