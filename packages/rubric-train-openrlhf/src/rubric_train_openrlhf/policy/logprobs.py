"""Log-probabilities of given responses under a policy, with gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch.utils.checkpoint import checkpoint

from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy import distribution

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from rubric_train_openrlhf.policy.batches import TokenBatch

# Logits held at once: 2^26 of them are 256 MiB in float32, and rather more with their gradients.
_CHUNK_LOGITS = 2**26

_plain_heads: WeakKeyDictionary[torch.nn.Module, bool] = WeakKeyDictionary()


class ResponseLogprobs(NamedTuple):
    """What a policy makes of each response token; 0 outside the response mask."""

    logprobs_BT: torch.Tensor
    """log π(token), float32, with gradient where the caller has it enabled."""
    entropy_BT: torch.Tensor
    """Entropy of the next-token distribution in nats, float32, without gradient."""


def response_logprobs(
    model: PreTrainedModel, batch: TokenBatch, *, temperature: float = 1.0
) -> ResponseLogprobs:
    """Recompute the log-probabilities of sampled responses.

        log π(y_t | x, y_<t) = score_t(y_t) − log Σ_v exp score_t(v),  score = logit / τ

    The same banned tokens are left out as when sampling, so at equal weights the result equals
    the sampler's. Only response positions go through the vocabulary, in chunks that are computed
    again for the gradient when there is more than one: memory stays bounded for large
    vocabularies.

    Args:
        model: any Hugging Face causal language model; its mode and gradients are the caller's.
        batch: B sequences on the model's device.
        temperature: τ > 0, the one the responses were drawn with (1 for greedy ones).

    Returns:
        Log-probabilities and entropies, both [B, T].

    Raises:
        PolicyInputError: a temperature that is not positive.
    """
    if not temperature > 0:
        message = f"temperature {temperature!r} must be above 0 to compute log-probabilities"
        raise PolicyInputError(message)
    mask_BT = batch.response_mask_BT
    rows_N, columns_N = mask_BT.nonzero(as_tuple=True)
    # The logits at one position speak of the next token.
    positions_N = batch.prompt_lengths_B[rows_N] - 1 + columns_N
    if has_plain_head(model):
        hidden_BSH = model.base_model(input_ids=batch.input_ids_BS, use_cache=False)[0]
        features_NF = hidden_BSH[rows_N, positions_N]
        head = model.get_output_embeddings()
        vocab_size = head.weight.shape[0]
    else:
        logits_BSV = model(input_ids=batch.input_ids_BS, use_cache=False).logits
        features_NF = logits_BSV[rows_N, positions_N]
        head = torch.nn.Identity()
        vocab_size = logits_BSV.shape[-1]
    score = _Score(head, temperature, batch.banned.mask_BV(mask_BT.shape[0], vocab_size))
    tokens_N = batch.response_tokens_BT[rows_N, columns_N]
    logprobs_N, entropy_N = _in_chunks(
        score, features_NF, tokens_N, rows_N, chunk=max(1, _CHUNK_LOGITS // vocab_size)
    )
    blank_BT = torch.zeros(mask_BT.shape, device=mask_BT.device)
    return ResponseLogprobs(
        blank_BT.index_put((rows_N, columns_N), logprobs_N),
        blank_BT.index_put((rows_N, columns_N), entropy_N),
    )


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
        head = model.get_output_embeddings()
        probe_BS = torch.arange(2, device=model.device)[None]
        with torch.no_grad():
            full_BSV = model(input_ids=probe_BS, use_cache=False).logits
            hidden_BSH = model.base_model(input_ids=probe_BS, use_cache=False)[0]
            known = head is not None and torch.equal(head(hidden_BSH), full_BSV)
        _plain_heads[model] = known
    return known


class _Score(NamedTuple):
    """From features of N positions to the log-probability and entropy at each."""

    head: torch.nn.Module
    temperature: float
    banned_BV: torch.Tensor | None

    def __call__(
        self, features_NF: torch.Tensor, tokens_N: torch.Tensor, rows_N: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        banned_NV = None if self.banned_BV is None else self.banned_BV[rows_N]
        logits_NV = self.head(features_NF)
        scores_NV = distribution.scores(logits_NV, banned_NV, temperature=self.temperature)
        logprobs_NV = torch.log_softmax(scores_NV, dim=-1)
        known_NV = logprobs_NV.detach()
        entropy_N = -(known_NV.exp() * known_NV).sum(dim=-1)
        return logprobs_NV.gather(-1, tokens_N[:, None])[:, 0], entropy_N


def _in_chunks(
    score: _Score,
    features_NF: torch.Tensor,
    tokens_N: torch.Tensor,
    rows_N: torch.Tensor,
    *,
    chunk: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = (features_NF, tokens_N, rows_N)
    if tokens_N.shape[0] <= chunk:
        return score(*inputs)
    parts = [
        checkpoint(score, *part, use_reentrant=False, preserve_rng_state=False)
        for part in zip(*(one.split(chunk) for one in inputs), strict=True)
    ]
    logprobs, entropies = zip(*parts, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)
