"""The policy's next-token distribution: one definition for sampling and for recomputing."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import TopKLogitsWarper, TopPLogitsWarper

from rubric_train_openrlhf.errors import NonFiniteLogitsError

# Far below any logit, yet finite: its exp is exactly 0 in float32, and 0 times it is 0, not NaN.
BANNED_SCORE = -1e30
_UNREAD: Any = None
"""The tokens before, which neither warper of transformers reads."""


class Draw(NamedTuple):
    """One token per row, and how likely the policy held it."""

    tokens_N: Tensor
    logprobs_N: Tensor


def scores(
    logits_NV: Tensor, banned_NV: Tensor | None, *, temperature: float
) -> Tensor:
    """Turn logits into the scores whose softmax is the policy, in float32.

        π(v) ∝ exp(logit_v / τ), and π(v) = 0 for a banned v

    Args:
        logits_NV: the model's logits, any floating type.
        banned_NV: True where a token has probability zero; None for no ban.
        temperature: τ > 0.

    Returns:
        Scores [N, V] in float32, a new tensor where anything had to change.
    """
    scores_NV = logits_NV.float()
    if temperature != 1.0:
        scores_NV = scores_NV / temperature
    if banned_NV is not None:
        scores_NV = scores_NV.masked_fill(banned_NV, BANNED_SCORE)
    return scores_NV


def most_likely(scores_NV: Tensor) -> Draw:
    """Take the token of the highest score in each row.

    Args:
        scores_NV: from `scores`.

    Returns:
        The tokens [N] and their log-probabilities [N], float32.

    Raises:
        NonFiniteLogitsError: a row has no highest score that is a finite number.
    """
    highest_N1, tokens_N1 = scores_NV.max(dim=-1, keepdim=True)
    _check_finite(highest_N1[:, 0])
    logprobs_N1 = scores_NV.log_softmax(dim=-1).gather(-1, tokens_N1)
    return Draw(tokens_N1[:, 0], logprobs_N1[:, 0])


def sample(
    scores_NV: Tensor,
    *,
    rows_N: Tensor,
    total_rows: int,
    generator: torch.Generator,
) -> Draw:
    """Draw a token per row from the softmax of its scores.

    Args:
        scores_NV: from `scores`, float32. Overwritten.
        rows_N: which of the `total_rows` rows these are.
        total_rows: rows at the start of the generation.
        generator: on the device of the scores.

    Returns:
        The tokens [N] and their log-probabilities [N], float32. A banned token is never drawn.

    Raises:
        NonFiniteLogitsError: a row has no highest score that is a finite number.
    """
    highest_N1 = scores_NV.amax(dim=-1, keepdim=True)
    _check_finite(highest_N1[:, 0])
    weights_NV = scores_NV.sub_(highest_N1).exp_()
    if weights_NV.is_cuda:
        tokens_N1, totals_N1 = _by_race(weights_NV, generator)
    else:
        uniform_N1 = torch.rand(total_rows, 1, generator=generator)[rows_N]
        tokens_N1, totals_N1 = _by_inverse(weights_NV, uniform_N1)
    logprobs_N1 = (weights_NV.gather(-1, tokens_N1).double() / totals_N1).log()
    return Draw(tokens_N1[:, 0], logprobs_N1[:, 0].float())


def narrowed(scores_NV: Tensor, *, top_p: float, top_k: int | None) -> Tensor:
    """Keep the most likely tokens: the k best, and of them the fewest that hold probability p.

    Args:
        scores_NV: from `scores`.
        top_p: in (0, 1]; 1 keeps all.
        top_k: at least 1; None keeps all.

    Returns:
        Scores in which every other token is banned; the most likely one is always kept.
    """
    kept_NV: Any = scores_NV
    if top_k is not None:
        kept_NV = TopKLogitsWarper(top_k, BANNED_SCORE)(_UNREAD, kept_NV)
    if top_p < 1:
        # In double, for its sums are as precise; turned round, for of equals it keeps the last.
        turned_NV = kept_NV.double().flip(-1)
        kept_NV = TopPLogitsWarper(top_p, BANNED_SCORE)(_UNREAD, turned_NV).flip(-1)
    return kept_NV.float()


def by_uniform(scores_NV: Tensor, uniform_N: Tensor) -> Tensor:
    """Turn one number of [0, 1) per row into a token of the softmax of its scores.

    Args:
        scores_NV: from `scores` or `narrowed`.
        uniform_N: numbers of 24 bits.

    Returns:
        The tokens [N]. A banned token is never drawn.

    Raises:
        NonFiniteLogitsError: a row has no highest score that is a finite number.
    """
    highest_N1 = scores_NV.amax(dim=-1, keepdim=True)
    _check_finite(highest_N1[:, 0])
    return _by_inverse((scores_NV - highest_N1).exp(), uniform_N[:, None])[0][:, 0]


def _by_inverse(weights_NV: Tensor, uniform_N1: Tensor) -> tuple[Tensor, Tensor]:
    """Turn one uniform number per row into a token, through the cumulative distribution.

    Each row has its own number, so its tokens do not depend on which others are still generated.
    """
    # Uniform numbers of 24 bits against sums of 53: u * total < total holds exactly, and equal
    # neighbours in the sums (weight 0) are never the first to exceed it.
    sums_NV = weights_NV.cumsum(dim=-1, dtype=torch.float64)
    if sums_NV.is_cuda:  # a parallel sum need not be monotone; its running maximum is
        sums_NV = sums_NV.cummax(dim=-1).values
    totals_N1 = sums_NV[:, -1:]
    return torch.searchsorted(
        sums_NV, uniform_N1.double() * totals_N1, right=True
    ), totals_N1


def _by_race(weights_NV: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Let the token with the shortest exponential waiting time win.

    For GPUs, where random numbers are cheap and a parallel sum need not be monotone.
    """
    times_NV = torch.empty_like(weights_NV).exponential_(generator=generator)
    tokens_N1 = (weights_NV / times_NV).argmax(dim=-1, keepdim=True)
    return tokens_N1, weights_NV.sum(dim=-1, keepdim=True, dtype=torch.float64)


def _check_finite(highest_N: Tensor) -> None:
    # NaN wins every maximum, so one number per row tells of the whole row.
    broken_N = ~highest_N.isfinite()
    if broken := int(broken_N.sum()):
        first = int(broken_N.long().argmax())
        raise NonFiniteLogitsError(
            f"cannot sample: the next-token scores of {broken} of {len(highest_N)} rows are "
            f"not finite numbers (the first is row {first}); the model's weights "
            "hold NaN or infinity (go back to an older checkpoint, with a lower learning rate), or "
            "the temperature is too low for its logits"
        )
