"""Attention of groups in one row: each prompt stands once, and each response sees it and itself.

A row of N tokens holds P prompts and then their responses, without padding. What a response sees
falls into its prompt and its own tokens; each part goes through torch's attention kernel for CPUs,
and the two softmaxes are joined by their normalisers:

    o = Σ_i o_i · exp(l_i − l),   l = log Σ_i exp l_i

The kernel's backward pass takes o and l of the whole, so that the gradients of the parts add up to
those of one softmax.

Source: Dao et al., "FlashAttention" (2022), §3.1 and appendix B.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from transformers import PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from rubric_train_openrlhf.policy.rollouts import TokenBatch

NAME = "rubric_groups"
"""Name of this attention among those of transformers."""
_ATEN: Any = torch.ops.aten


class NoGroupedAttentionError(Exception):
    """A model's attention is not the plain one; the message says what it has beside."""


class Group(NamedTuple):
    """Places of a prompt and of all its responses in the row."""

    prompt: slice
    answers: slice


@dataclass(frozen=True, slots=True)
class GroupedRow:
    """P prompts and B responses as one row of N tokens, without the last of each response."""

    token_ids_1N: Tensor
    positions_1N: Tensor
    """Index of each token in its own prompt and response."""
    groups: tuple[Group, ...]
    answers: slice
    """All responses."""
    rectangle_RT: Tensor
    """Place among the responses' tokens of each token of R responses side by side; 0 beyond the
    end. Those of which no token is read are left out."""
    inside_RT: Tensor
    """False beyond the end of a response."""
    predicting_N: Tensor
    """Place whose state speaks of each masked response token of the batch, in its order."""

    @classmethod
    def of(cls, batch: TokenBatch) -> GroupedRow:
        """Lay out a batch; rows of one prompt need not be neighbours in it."""
        prompts = batch.prompts
        device = batch.prompt_index_B.device
        order_B = batch.prompt_index_B.argsort(stable=True)
        prompt_B = batch.prompt_index_B[order_B]
        read_BT = batch.response_mask_BT[order_B, 1:]
        read_B = read_BT.sum(1)
        lengths_P = prompts.lengths_P
        within_BT = torch.arange(read_BT.shape[1], device=device).expand_as(read_BT)
        answers_N = within_BT[read_BT] + lengths_P[prompt_B].repeat_interleave(read_B)
        n_prompts = int(lengths_P.sum())
        ends_B = read_B.cumsum(0)
        starts_B = ends_B - read_B
        rectangle_BT = (starts_B[:, None] + within_BT).masked_fill(~read_BT, 0)
        is_read_B = read_B > 0
        # A response's first token is predicted by the last of its prompt, others by the one before.
        first_B1 = lengths_P.cumsum(0)[prompt_B, None] - 1
        places_BT = torch.cat((first_B1, n_prompts + rectangle_BT), dim=1)
        places_BT = places_BT[order_B.argsort()]
        widths = torch.zeros_like(lengths_P).index_add_(0, prompt_B, read_B)
        return cls(
            token_ids_1N=torch.cat(
                (
                    prompts.token_ids_PS[prompts.mask_PS],
                    batch.response_tokens_BT[order_B, :-1][read_BT],
                )
            )[None],
            positions_1N=torch.cat((prompts.positions_PS[prompts.mask_PS], answers_N))[
                None
            ],
            groups=_groups(
                cast("list[int]", lengths_P.tolist()),
                cast("list[int]", widths.tolist()),
            ),
            answers=slice(n_prompts, n_prompts + len(answers_N)),
            rectangle_RT=rectangle_BT[is_read_B],
            inside_RT=read_BT[is_read_B],
            predicting_N=places_BT[batch.response_mask_BT],
        )

    def by_response(self, x_HND: Tensor) -> Tensor:
        """Put the responses side by side, [H, N, D] to [R, H, T, D]."""
        flat = x_HND[:, self.answers].index_select(1, self.rectangle_RT.flatten())
        return _split(flat, 1, *self.rectangle_RT.shape).transpose(0, 1)

    def in_row(self, x_RHTD: Tensor) -> Tensor:
        """Undo `by_response`, [R, H, T, …] to [H, answers, …]."""
        flat = x_RHTD.transpose(0, 1).flatten(1, 2)
        return flat.index_select(1, self.inside_RT.flatten().nonzero()[:, 0])


def _groups(prompts: Sequence[int], answers: Sequence[int]) -> tuple[Group, ...]:
    groups: list[Group] = []
    prompt = 0
    answer = sum(prompts)
    for length, width in zip(prompts, answers, strict=True):
        groups.append(
            Group(slice(prompt, prompt + length), slice(answer, answer + width))
        )
        prompt = prompt + length
        answer = answer + width
    return tuple(groups)


def grouped_attention(
    q_HND: Tensor,
    k_KND: Tensor,
    v_KND: Tensor,
    row: GroupedRow,
    *,
    scale: float,
) -> Tensor:
    """Attend causally within each prompt, and of each response to its prompt and itself.

    Args:
        q_HND: rotated queries, float32 on a CPU.
        k_KND: rotated keys, H a multiple of K.
        v_KND: values.
        row: where what stands.
        scale: of the products.

    Returns:
        [H, N, D], with gradient to all three.
    """
    function: Any = _Grouped
    return function.apply(q_HND, k_KND, v_KND, row, scale)


class _Grouped(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        row: GroupedRow,
        scale: float,
    ) -> Tensor:
        times = len(q) // len(k)
        out = torch.empty_like(q)
        normaliser = q.new_empty(q.shape[:2])
        for prompt, answers in row.groups:
            keys = k[None, :, prompt]
            values = v[None, :, prompt]
            wide = (q[None, :, prompt], _wide(keys, times), _wide(values, times))
            out[:, prompt], normaliser[:, prompt] = _attend(
                *wide, scale, is_causal=True
            )
            if answers.start < answers.stop:
                # Queries that share a key stand where a sequence would.
                joined = _joined(q[:, answers], len(k))
                joined_out, heights = _attend(joined, keys, values, scale)
                out[:, answers] = _split(joined_out, 1, times, -1).flatten(0, 1)
                normaliser[:, answers] = _split(heights, 1, times, -1).flatten(0, 1)
        if len(row.rectangle_RT):
            own_k = _wide(row.by_response(k), times)
            own_v = _wide(row.by_response(v), times)
            mixed, own_normaliser = _attend_rows(
                row.by_response(q), own_k, own_v, scale
            )
            _join(
                out,
                normaliser,
                row.answers,
                row.in_row(mixed),
                row.in_row(own_normaliser),
            )
        ctx.save_for_backward(q, k, v, out, normaliser)
        ctx.row = row
        ctx.scale = scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride] -- torch's own pattern
        q, k, v, out, normaliser = ctx.saved_tensors
        row: GroupedRow = ctx.row
        times = len(q) // len(k)
        scale = cast("float", ctx.scale)
        to_q = torch.zeros_like(q)
        to_k = torch.zeros_like(k)
        to_v = torch.zeros_like(v)
        for prompt, answers in row.groups:
            keys = k[None, :, prompt]
            values = v[None, :, prompt]
            seen = _Seen(
                gradient[None, :, prompt],
                q[None, :, prompt],
                out[None, :, prompt],
                normaliser[None, :, prompt],
            )
            wide = (_wide(keys, times), _wide(values, times))
            by_q, by_k, by_v = _slopes(seen, *wide, scale, is_causal=True)
            to_q[:, prompt] = by_q[0]
            to_k[:, prompt] = _narrow(by_k, times)[0]
            to_v[:, prompt] = _narrow(by_v, times)[0]
            if answers.start < answers.stop:
                seen = _Seen(
                    _joined(gradient[:, answers], len(k)),
                    _joined(q[:, answers], len(k)),
                    _joined(out[:, answers], len(k)),
                    _joined(normaliser[:, answers], len(k)),
                )
                by_q, by_k, by_v = _slopes(seen, keys, values, scale, is_causal=False)
                to_q[:, answers] = _split(by_q[0], 1, times, -1).flatten(0, 1)
                to_k[:, prompt] += by_k[0]
                to_v[:, prompt] += by_v[0]
        if len(row.rectangle_RT):
            # Places beyond the end of a response have neither gradient nor weight.
            beyond = ~row.inside_RT[:, None]
            heights = row.by_response(normaliser[..., None])[..., 0]
            seen = _Seen(
                row.by_response(gradient).masked_fill(beyond[..., None], 0.0),
                row.by_response(q),
                row.by_response(out),
                heights.masked_fill(beyond, torch.finfo(q.dtype).max),
            )
            own_k = _wide(row.by_response(k), times)
            own_v = _wide(row.by_response(v), times)
            by_q, by_k, by_v = _slopes(seen, own_k, own_v, scale, is_causal=True)
            to_q[:, row.answers] += row.in_row(by_q)
            to_k[:, row.answers] = row.in_row(_narrow(by_k, times))
            to_v[:, row.answers] = row.in_row(_narrow(by_v, times))
        return to_q, to_k, to_v, None, None


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    *,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor]:
    """Attention of one row, [1, H, S, D], and the logarithms of its normalisers, without rows."""
    out, normaliser = _attend_rows(q, k, v, scale, is_causal=is_causal)
    return out[0], normaliser[0]


def _attend_rows(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    *,
    is_causal: bool = True,
) -> tuple[Tensor, Tensor]:
    return _ATEN._scaled_dot_product_flash_attention_for_cpu(  # noqa: SLF001
        q, k, v, 0.0, is_causal, attn_mask=None, scale=scale
    )


class _Seen(NamedTuple):
    """Queries of a backward pass, with what the whole softmax made of them."""

    gradient: Tensor
    queries: Tensor
    out: Tensor
    normaliser: Tensor


def _slopes(
    seen: _Seen, k: Tensor, v: Tensor, scale: float, *, is_causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to queries, keys and values by the keys of one part."""
    gradient, q, out, normaliser = seen
    return _ATEN._scaled_dot_product_flash_attention_for_cpu_backward(  # noqa: SLF001
        gradient, q, k, v, out, normaliser, 0.0, is_causal, attn_mask=None, scale=scale
    )


def _join(
    out: Tensor,
    normaliser: Tensor,
    place: slice,
    mixed: Tensor,
    own: Tensor,
) -> None:
    """Add a part of the softmax to the part that is already at a place."""
    before = normaliser[:, place]
    both = torch.logaddexp(before, own)
    weight_before = (before - both).exp_()[..., None]
    weight_own = (own - both).exp_()[..., None]
    out[:, place] = out[:, place] * weight_before + mixed * weight_own
    normaliser[:, place] = both


def _joined(x_HR: Tensor, keys: int) -> Tensor:
    """Put the queries of one key after one another, [H, R, …] to [1, K, H/K·R, …]."""
    return _split(x_HR, 0, keys, -1).flatten(1, 2)[None]


def _wide(x: Tensor, times: int) -> Tensor:
    return x.repeat_interleave(times, dim=1) if times > 1 else x


def _narrow(x: Tensor, times: int) -> Tensor:
    """Add up what goes to one key, the reverse of `_wide`."""
    return _split(x, 1, -1, times).sum(2) if times > 1 else x


def _split(x: Tensor, axis: int, *sizes: int) -> Tensor:
    """Make several axes of one."""
    return x.reshape(*x.shape[:axis], *sizes, *x.shape[axis + 1 :])


@dataclass(frozen=True, slots=True)
class _Pass:
    """A pass of one model over one row."""

    config: Any
    row: GroupedRow
    mask: Tensor
    """Mask that the model is given; plain attention leaves it as it is."""

    @contextmanager
    def running(self) -> Generator[None]:
        """Let the model's layers attend by groups in a block."""
        before = self.config._attn_implementation  # noqa: SLF001  # the library's own name
        token = _CURRENT.set(self)
        self.config._attn_implementation = NAME  # noqa: SLF001
        try:
            yield
        finally:
            self.config._attn_implementation = before  # noqa: SLF001
            _CURRENT.reset(token)


_CURRENT: ContextVar[_Pass | None] = ContextVar("grouped_pass", default=None)

_PASSED = frozenset({
    "cache", "cache_position", "cu_seq_lens_k", "cu_seq_lens_q", "head_mask", "is_causal",
    "layer_idx", "max_length_k", "max_length_q", "num_items_in_batch", "output_attentions",
    "output_hidden_states", "output_router_logits", "past_key_value", "past_key_values",
    "position_ids", "return_dict", "sliding_window", "use_cache",
})  # fmt: skip
"""Arguments that layers pass to any attention. The caller checks that a window is wider
than the row."""


def _attention(  # noqa: PLR0913, PLR0917 -- transformers' own call
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **named: Any,
) -> tuple[Tensor, None]:
    """Attend by groups, as transformers calls it: [1, H, N, D] to [1, N, H, D]."""
    current = _CURRENT.get()
    if current is None:
        raise NoGroupedAttentionError("another thread computes by groups")
    beside = [
        name
        for name, value in named.items()
        if value is not None and name not in _PASSED
    ]
    if named.get("is_causal") is False or not getattr(module, "is_causal", True):
        beside.append("attention to what comes later")
    if (
        attention_mask is not None
        and attention_mask.data_ptr() != current.mask.data_ptr()
    ):
        beside.append("a mask of its own")
    if named.get("head_mask") is not None or dropout:
        beside.append("heads or weights that are dropped")
    if beside or query.shape[2] != key.shape[2] or key.shape != value.shape:
        raise NoGroupedAttentionError(", ".join(beside) or "keys of another shape")
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    out_HND = grouped_attention(query[0], key[0], value[0], current.row, scale=scale)
    return out_HND.transpose(0, 1)[None].contiguous(), None


cast("Any", ALL_ATTENTION_FUNCTIONS).register(NAME, _attention)


def row_states(body: PreTrainedModel, row: GroupedRow) -> Tensor:
    """Run a model without its head over a row, and give the last hidden states [N, H].

    Raises:
        NoGroupedAttentionError: its attention is not the plain one.
    """
    mask = torch.zeros(1, 1, 1, 1, device=row.token_ids_1N.device)
    of_pass = _Pass(cast("Any", body.config).get_text_config(), row, mask)
    with of_pass.running():
        return cast("Any", body)(
            input_ids=row.token_ids_1N,
            attention_mask=mask,
            position_ids=row.positions_1N,
            use_cache=False,
        )[0][0]


def resuming(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Let a layer that is computed again in the backward pass attend as it did in this pass."""
    current = _CURRENT.get()
    if current is None:
        return forward

    def resumed(*inputs: Any, **named: Any) -> Any:
        with current.running():
            return forward(*inputs, **named)

    return resumed
