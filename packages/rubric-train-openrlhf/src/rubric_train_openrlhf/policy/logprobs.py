"""Log-probabilities of given responses under a policy, with gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast
from weakref import WeakKeyDictionary

import torch

from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy.hidden_states import response_states
from rubric_train_openrlhf.policy.vocabulary_head import Positions, head_logprobs

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from rubric_train_openrlhf.policy.batches import TokenBatch

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
    the sampler's. Prompts are read once per group, and only response positions go through the
    vocabulary, in chunks.

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
    rows_N, steps_N = mask_BT.nonzero(as_tuple=True)
    tokens_N = batch.response_tokens_BT[rows_N, steps_N]
    if has_plain_head(model):
        head = cast("torch.nn.Linear", model.get_output_embeddings())
        banned_BV = batch.banned.mask_BV(len(mask_BT), len(head.weight))
        positions = Positions(tokens_N, rows_N, banned_BV, temperature)
        logprobs_N, entropy_N = head_logprobs(response_states(model, batch), head, positions)
    else:
        logits_BSV = model(input_ids=batch.input_ids_BS, use_cache=False).logits
        banned_BV = batch.banned.mask_BV(len(mask_BT), logits_BSV.shape[-1])
        positions = Positions(tokens_N, rows_N, banned_BV, temperature)
        logprobs_N, entropy_N = _from_logits(logits_BSV[batch.predicting_positions], positions)
    blank_BT = torch.zeros(mask_BT.shape, device=mask_BT.device)
    return ResponseLogprobs(
        blank_BT.index_put((rows_N, steps_N), logprobs_N),
        blank_BT.index_put((rows_N, steps_N), entropy_N),
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
        head = cast("torch.nn.Module | None", model.get_output_embeddings())
        probe_BS = torch.arange(2, device=model.device)[None]
        with torch.no_grad():
            full_BSV = model(input_ids=probe_BS, use_cache=False).logits
            hidden_BSH = model.base_model(input_ids=probe_BS, use_cache=False)[0]
            known = type(head) is torch.nn.Linear and torch.equal(head(hidden_BSH), full_BSV)
        _plain_heads[model] = known
    return known


def _from_logits(
    logits_NV: torch.Tensor, positions: Positions
) -> tuple[torch.Tensor, torch.Tensor]:
    logprobs_NV = positions.scores(logits_NV, slice(None)).log_softmax(dim=-1)
    known_NV = logprobs_NV.detach()
    entropy_N = -(known_NV.exp() * known_NV).sum(dim=-1)
    return logprobs_NV.gather(-1, positions.tokens_N[:, None])[:, 0], entropy_N
