"""From hidden states to token log-probabilities without ever holding all logits.

N positions times a vocabulary of 128,000 would be the largest tensor of a training step by far.
Here the positions pass in chunks: forward keeps one number per position, backward computes each
chunk's logits again. On a CPU the chunks also stay in cache, which is several times faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 -- torch's own convention

from rubric_train_openrlhf.policy import distribution

if TYPE_CHECKING:
    from collections.abc import Iterator

# Logits held at once: 4 MiB of float32 on a CPU, 256 MiB on a GPU.
_CPU_CHUNK_LOGITS = 2**20
_GPU_CHUNK_LOGITS = 2**26


class Positions(NamedTuple):
    """N positions of a batch, with the token that follows each."""

    tokens_N: torch.Tensor
    rows_N: torch.Tensor
    """Row of the batch that each position belongs to."""
    banned_BV: torch.Tensor | None
    temperature: float

    def scores(self, logits_NV: torch.Tensor, part: slice) -> torch.Tensor:
        """Scores of some of the positions, under the policy's own distribution."""
        banned = None if self.banned_BV is None else self.banned_BV[self.rows_N[part]]
        return distribution.scores(logits_NV, banned, temperature=self.temperature)


def head_logprobs(
    features_NH: torch.Tensor, head: torch.nn.Linear, positions: Positions
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability of each position's token, and the entropy there.

        log π(y) = s_y − log Σ_v exp s_v,   H = −Σ_v π(v) log π(v),   s = (W h + b) / τ

    Args:
        features_NH: last hidden states.
        head: W and b.
        positions: the tokens, banned tokens and temperature.

    Returns:
        Both [N] in float32; the first with gradient to the features and the head.
    """
    device, dtype = features_NH.device.type, head.weight.dtype
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    parameters: list[torch.Tensor | None] = [features_NH, head.weight, head.bias]
    inputs = [None if one is None else one.to(dtype) for one in parameters]
    function: Any = _HeadLogprobs
    with torch.autocast(device, enabled=False):
        return function.apply(*inputs, positions)


class _HeadLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 -- torch's context object
        features_NH: torch.Tensor,
        weight_VH: torch.Tensor,
        bias_V: torch.Tensor | None,
        positions: Positions,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        logprobs_N = features_NH.new_empty(len(features_NH), dtype=torch.float32)
        entropy_N, normaliser_N = torch.empty_like(logprobs_N), torch.empty_like(logprobs_N)
        for part in _parts(features_NH, weight_VH):
            logits_NV = F.linear(features_NH[part], weight_VH, bias_V)
            scores_NV = positions.scores(logits_NV, part)
            top = scores_NV.amax(dim=-1, keepdim=True)
            shifted = scores_NV.sub_(top)
            chosen = shifted.gather(-1, positions.tokens_N[part, None])[:, 0]
            weights = shifted.exp()
            total = weights.sum(dim=-1)
            logprobs_N[part] = chosen - total.log()
            mean = (weights[:, None] @ shifted[:, :, None])[:, 0, 0] / total
            entropy_N[part] = total.log() - mean
            normaliser_N[part] = top[:, 0] + total.log()
        ctx.save_for_backward(features_NH, weight_VH, bias_V, normaliser_N)
        ctx.positions = positions
        ctx.mark_non_differentiable(entropy_N)
        return logprobs_N, entropy_N

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] -- torch's own pattern
        ctx: Any,  # noqa: ANN401 -- torch's context object
        gradient_N: torch.Tensor,
        _: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, None]:
        features_NH, weight_VH, bias_V, normaliser_N = ctx.saved_tensors
        positions: Positions = ctx.positions
        to_features = torch.empty_like(features_NH)
        to_weight = torch.zeros_like(weight_VH, dtype=torch.float32)
        to_bias = None if bias_V is None else torch.zeros_like(bias_V, dtype=torch.float32)
        for part in _parts(features_NH, weight_VH):
            # A caller may go backward inside autocast; forward was computed outside of it.
            with torch.autocast(features_NH.device.type, enabled=False):
                logits_NV = F.linear(features_NH[part], weight_VH, bias_V)
                scores_NV = positions.scores(logits_NV, part)
                # d log π(y) / d logit_v = ([v = y] − π(v)) / τ
                slope_N1 = gradient_N[part, None] / positions.temperature
                by_logit = scores_NV.sub_(normaliser_N[part, None]).exp_().mul_(-slope_N1)
                by_logit.scatter_add_(-1, positions.tokens_N[part, None], slope_N1)
                by_logit = by_logit.to(weight_VH.dtype)
                to_features[part] = by_logit @ weight_VH
                to_weight += by_logit.T @ features_NH[part]
                if to_bias is not None:
                    to_bias += by_logit.sum(dim=0)
        if to_bias is not None:
            to_bias = to_bias.to(weight_VH.dtype)
        return to_features, to_weight.to(weight_VH.dtype), to_bias, None


def _parts(features_NH: torch.Tensor, weight_VH: torch.Tensor) -> Iterator[slice]:
    limit = _GPU_CHUNK_LOGITS if features_NH.is_cuda else _CPU_CHUNK_LOGITS
    size = max(1, limit // len(weight_VH))
    for start in range(0, len(features_NH), size):
        yield slice(start, start + size)
