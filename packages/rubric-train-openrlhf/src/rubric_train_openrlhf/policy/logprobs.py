"""Log-probabilities of given responses under a policy, with gradients, never holding all logits."""

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers import PreTrainedModel

from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy import distribution, onednn
from rubric_train_openrlhf.policy.holding import hold_rope
from rubric_train_openrlhf.policy.rollouts import TokenBatch
from rubric_train_openrlhf.policy.sharing import (
    body_of,
    has_groups,
    response_states,
    tell_unshared,
)

# Logits held at once: 4 MiB of float32 on a CPU, 256 MiB on a GPU. A CPU multiplies tiles of fewer
# columns twice as fast as rows of a whole vocabulary; on a GPU each row stays whole.
_CPU_TILE_LOGITS = 2**20
_CPU_TILE_ROWS = 512
_GPU_TILE_LOGITS = 2**26
_GPU_FEWEST_ROWS = 128


class Positions(NamedTuple):
    """N positions of a batch, with the token that follows each."""

    tokens_N: Tensor
    prompts_N: Tensor
    """Which of the distinct prompts each position is in an answer to."""
    banned_PV: Tensor | None
    temperature: float

    def scores(
        self,
        logits_NV: Tensor,
        rows: slice = slice(None),
        columns: slice = slice(None),
    ) -> Tensor:
        """Scores of some of the positions and tokens, under the policy's own distribution."""
        banned = None
        if self.banned_PV is not None:
            banned = self.banned_PV[:, columns][self.prompts_N[rows]]
        return distribution.scores(logits_NV, banned, temperature=self.temperature)

    def chosen(self, rows: slice, columns: slice) -> tuple[Tensor, Tensor]:
        """Place of each row's token among the columns, and whether it is one of them; [N, 1]."""
        place_N1 = self.tokens_N[rows, None] - columns.start
        width = columns.stop - columns.start
        return place_N1.clamp(0, width - 1), (place_N1 >= 0) & (place_N1 < width)


def head_logprobs(
    features_NH: Tensor, head: torch.nn.Linear, positions: Positions
) -> tuple[Tensor, Tensor]:
    """Log-probability of each position's token, and the entropy there.

        log π(y) = s_y − log Σ_v exp s_v,   H = −Σ_v π(v) log π(v),   s = (W h + b) / τ

    Args:
        features_NH: last hidden states.
        head: W and b.
        positions: the tokens, banned tokens and temperature.

    Returns:
        Both [N] in float32; the first with gradient to the features and the head.
    """
    device = features_NH.device.type
    dtype = head.weight.dtype
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    parameters: list[Tensor | None] = [features_NH, head.weight, head.bias]
    inputs = [
        None if parameter is None else parameter.to(dtype) for parameter in parameters
    ]
    function: Any = _HeadLogprobs
    with torch.autocast(device, enabled=False):
        return function.apply(*inputs, positions)


class _HeadLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features_NH: Tensor,
        weight_VH: Tensor,
        bias_V: Tensor | None,
        positions: Positions,
    ) -> tuple[Tensor, Tensor]:
        logprobs_N = features_NH.new_empty(len(features_NH), dtype=torch.float32)
        entropy_N = torch.empty_like(logprobs_N)
        normaliser_N = torch.empty_like(logprobs_N)
        rows_of, columns_of = _tiles(features_NH, weight_VH)
        for rows in rows_of:
            softmax = _RunningSoftmax.empty(logprobs_N[rows, None])
            for columns in columns_of:
                bias = None if bias_V is None else bias_V[columns]
                logits = onednn.product(features_NH[rows], weight_VH[columns], bias)
                scores = positions.scores(logits, rows, columns)
                softmax = softmax.with_tile(scores, *positions.chosen(rows, columns))
            log_total = softmax.total_N1.log()
            logprobs_N[rows] = (softmax.chosen_N1 - softmax.top_N1 - log_total)[:, 0]
            entropy_N[rows] = (log_total - softmax.weighted_N1 / softmax.total_N1)[:, 0]
            normaliser_N[rows] = (softmax.top_N1 + log_total)[:, 0]
        ctx.save_for_backward(features_NH, weight_VH, bias_V, normaliser_N)
        ctx.positions = positions
        ctx.mark_non_differentiable(entropy_N)
        return logprobs_N, entropy_N

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] -- torch's own pattern
        ctx: Any, gradient_N: Tensor, _: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None, None]:
        features_NH, weight_VH, bias_V, normaliser_N = ctx.saved_tensors
        positions: Positions = ctx.positions
        to_features = torch.zeros_like(features_NH, dtype=torch.float32)
        to_weight = torch.zeros_like(weight_VH, dtype=torch.float32)
        to_bias = (
            None if bias_V is None else torch.zeros_like(bias_V, dtype=torch.float32)
        )
        rows_of, columns_of = _tiles(features_NH, weight_VH)
        # A caller may go backward inside autocast; forward was computed outside of it.
        with torch.autocast(features_NH.device.type, enabled=False):
            for rows, columns in product(rows_of, columns_of):
                features = features_NH[rows]
                weight = weight_VH[columns]
                bias = None if bias_V is None else bias_V[columns]
                logits = onednn.product(features, weight, bias)
                scores = positions.scores(logits, rows, columns)
                place_N1, is_inside_N1 = positions.chosen(rows, columns)
                # d log π(y) / d logit_v = ([v = y] − π(v)) / τ
                slope_N1 = gradient_N[rows, None] / positions.temperature
                by_logit = scores.sub_(normaliser_N[rows, None]).exp_().mul_(-slope_N1)
                by_logit.scatter_add_(-1, place_N1, slope_N1 * is_inside_N1)
                by_logit = by_logit.to(weight.dtype)
                to_features[rows] += onednn.product(by_logit, weight.T)
                to_weight[columns] += onednn.product(by_logit.T, features.T)
                if to_bias is not None:
                    to_bias[columns] += by_logit.sum(dim=0)
        if to_bias is not None:
            to_bias = to_bias.to(weight_VH.dtype)
        return (
            to_features.to(features_NH.dtype),
            to_weight.to(weight_VH.dtype),
            to_bias,
            None,
        )


class _RunningSoftmax(NamedTuple):
    """State of N softmaxes after some of their columns; each [N, 1]."""

    top_N1: Tensor
    """The highest score."""
    total_N1: Tensor
    """Σ exp(s − top)."""
    weighted_N1: Tensor
    """Σ (s − top) · exp(s − top)."""
    chosen_N1: Tensor
    """Score of the row's token."""

    @classmethod
    def empty(cls, like_N1: Tensor) -> "_RunningSoftmax":
        zeros_N1 = torch.zeros_like(like_N1)
        return cls(torch.full_like(like_N1, -torch.inf), zeros_N1, zeros_N1, zeros_N1)

    def with_tile(
        self,
        scores_NV: Tensor,
        place_N1: Tensor,
        is_inside_N1: Tensor,
    ) -> "_RunningSoftmax":
        """Take more columns; their scores are overwritten."""
        top_N1 = torch.maximum(self.top_N1, scores_NV.amax(dim=-1, keepdim=True))
        chosen_N1 = torch.where(
            is_inside_N1, scores_NV.gather(-1, place_N1), self.chosen_N1
        )
        # The bound keeps 0 · ∞ away where all before are banned; its exponential is 0.
        fall_N1 = (self.top_N1 - top_N1).clamp(min=_NO_WEIGHT)
        kept_N1 = fall_N1.exp()
        shifted_NV = scores_NV.sub_(top_N1)
        weights_NV = shifted_NV.exp()
        weighted_N1 = (weights_NV[:, None] @ shifted_NV[:, :, None])[:, 0]
        return _RunningSoftmax(
            top_N1,
            self.total_N1 * kept_N1 + weights_NV.sum(dim=-1, keepdim=True),
            (self.weighted_N1 + self.total_N1 * fall_N1) * kept_N1 + weighted_N1,
            chosen_N1,
        )


_NO_WEIGHT = -1e4
"""A score so far below the highest that its exponential is 0 in float32."""


def _tiles(
    features_NH: Tensor, weight_VH: Tensor
) -> tuple[Sequence[slice], Sequence[slice]]:
    """Cut the logits [N, V] into rows and columns."""
    n = len(features_NH)
    v = len(weight_VH)
    if features_NH.is_cuda:
        height = max(_GPU_FEWEST_ROWS, _GPU_TILE_LOGITS // v)
        width = v
    else:
        height = max(1, min(n, _CPU_TILE_ROWS))
        width = _CPU_TILE_LOGITS // height
    return _cut(n, height), _cut(v, width)


def _cut(n: int, size: int) -> list[slice]:
    return [slice(start, min(n, start + size)) for start in range(0, n, size)]


_plain_heads: WeakKeyDictionary[torch.nn.Module, bool] = WeakKeyDictionary()


class ResponseLogprobs(NamedTuple):
    """Log-probability and entropy at each response token; 0 outside the response mask."""

    logprobs_BT: Tensor
    """log π(token), float32, with gradient where the caller has it enabled."""
    entropy_BT: Tensor
    """Entropy of the next-token distribution in nats, float32, without gradient."""


def response_logprobs(
    model: PreTrainedModel,
    batch: TokenBatch,
    *,
    temperature: float = 1.0,
    share_prompts: bool = True,
) -> ResponseLogprobs:
    """Recompute the log-probabilities of sampled responses.

        log π(y_t | x, y_<t) = score_t(y_t) − log Σ_v exp score_t(v),  score = logit / τ

    The same banned tokens are left out as when sampling, so at equal weights the result equals
    the sampler's. Prompts are read once per group, and only response positions go through the
    vocabulary, in chunks.

    Args:
        model: any Hugging Face causal language model; its mode and gradients are the caller's. A
            rotary embedding that follows the length is held to one, as by `hold_rope`.
        batch: B sequences on the model's device.
        temperature: τ > 0, the one the responses were drawn with (1 for greedy ones).
        share_prompts: read the prompt of several rows once where the architecture allows.

    Returns:
        Log-probabilities and entropies, both [B, T].

    Raises:
        PolicyInputError: a temperature that is not positive, or a row with more tokens than the
            model has learned positions.
    """
    if not temperature > 0:
        raise PolicyInputError(
            f"temperature {temperature!r} must be above 0 to compute log-probabilities"
        )
    if hold_rope(model) is None:
        _check_lengths(model, batch)
    mask_BT = batch.response_mask_BT
    rows_N, steps_N = mask_BT.nonzero(as_tuple=True)
    tokens_N = batch.response_tokens_BT[rows_N, steps_N]
    prompts_N = batch.prompt_index_B[rows_N]
    if has_plain_head(model):
        head = cast("torch.nn.Linear", model.get_output_embeddings())
        banned_PV = batch.prompts.banned_PV(len(head.weight))
        positions = Positions(tokens_N, prompts_N, banned_PV, temperature)
        with onednn.by_onednn(head.weight):
            states_NH = response_states(model, batch, share_prompts=share_prompts)
        logprobs_N, entropy_N = head_logprobs(states_NH, head, positions)
    else:
        if share_prompts and has_groups(batch):
            tell_unshared(model, {"head": "logits are more than the output embedding"})
        logits_BSV = model(input_ids=batch.input_ids_BS, use_cache=False).logits
        banned_PV = batch.prompts.banned_PV(logits_BSV.shape[-1])
        positions = Positions(tokens_N, prompts_N, banned_PV, temperature)
        logprobs_N, entropy_N = _from_logits(
            logits_BSV[batch.predicting_positions], positions
        )
    blank_BT = torch.zeros(mask_BT.shape, device=mask_BT.device)
    return ResponseLogprobs(
        blank_BT.index_put((rows_N, steps_N), logprobs_N),
        blank_BT.index_put((rows_N, steps_N), entropy_N),
    )


def _check_lengths(model: PreTrainedModel, batch: TokenBatch) -> None:
    config: Any = model.config.get_text_config()
    positions: int | None = getattr(config, "max_position_embeddings", None)
    if positions is None or batch.input_ids_BS.shape[1] <= positions:
        return
    if not _has_table(model, positions):
        return  # a rotation or a slope goes on; the sampler refuses what no response may reach
    row = int((batch.prompt_lengths_B + batch.response_mask_BT.sum(1)).argmax())
    prompt = int(batch.prompt_lengths_B[row])
    response = int(batch.response_mask_BT[row].sum())
    raise PolicyInputError(
        f"row {row} is too long: {prompt} tokens of prompt and {response} of response exceed "
        f"the model's {positions} positions; shorten the question or the response"
    )


def _has_table(model: PreTrainedModel, positions: int) -> bool:
    """Whether positions are learned, a row each; some architectures leave a few rows out."""
    tables = (
        module for module in model.modules() if isinstance(module, torch.nn.Embedding)
    )
    words = model.get_input_embeddings()
    return any(
        0 <= len(table.weight) - positions < _SPARE
        for table in tables
        if table is not words
    )


_SPARE = 8


def has_plain_head(model: PreTrainedModel) -> bool:
    """Tell whether the logits are the output embedding of the last hidden state and no more.

    Some architectures cap or scale their logits. A short input is put through both ways, once
    per model, and only bit-equal logits count.

    Args:
        model: any Hugging Face causal language model.

    Returns:
        True where hidden states may be gathered before the vocabulary is spread out.
    """
    known = _plain_heads.get(model)
    if known is None:
        head = cast("torch.nn.Module | None", model.get_output_embeddings())
        probe_BS = torch.arange(2, device=model.device)[None]
        with torch.no_grad():
            full_BSV = model(input_ids=probe_BS, use_cache=False).logits
            hidden_BSH = body_of(model)(input_ids=probe_BS, use_cache=False)[0]
            known = type(head) is torch.nn.Linear and torch.equal(
                head(hidden_BSH), full_BSV
            )
        torch.clear_autocast_cache()  # as after sampling
        _plain_heads[model] = known
    return known


def _from_logits(logits_NV: Tensor, positions: Positions) -> tuple[Tensor, Tensor]:
    logprobs_NV = positions.scores(logits_NV).log_softmax(dim=-1)
    known_NV = logprobs_NV.detach()
    entropy_N = -(known_NV.exp() * known_NV).sum(dim=-1)
    return logprobs_NV.gather(-1, positions.tokens_N[:, None])[:, 0], entropy_N
