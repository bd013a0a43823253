"""Prompts and responses as one rectangle, for computing log-probabilities."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch

from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy.prompts import BannedTokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_train_openrlhf.policy.prompts import EncodedPrompt
    from rubric_train_openrlhf.policy.rollouts import Rollouts


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """B sequences, prompt and response back to back from the first column.

    All padding is on the right, where a causal model cannot see it: no attention mask is needed
    and positions count from 0.
    """

    input_ids_BS: torch.Tensor
    prompt_lengths_B: torch.Tensor
    response_tokens_BT: torch.Tensor
    response_mask_BT: torch.Tensor
    banned: BannedTokens

    def to(self, device: torch.device) -> TokenBatch:
        """Give the same batch on another device."""
        banned = BannedTokens(self.banned.rows_N.to(device), self.banned.token_ids_N.to(device))
        tensors = [
            getattr(self, field.name).to(device) for field in fields(self) if field.name != "banned"
        ]
        return TokenBatch(*tensors, banned)

    @property
    def n_response_tokens(self) -> int:
        """Tokens that carry a log-probability."""
        return int(self.response_mask_BT.sum())


def pack_responses(
    prompts: Sequence[EncodedPrompt],
    responses: Sequence[Sequence[int]],
    *,
    device: torch.device | str = "cpu",
) -> TokenBatch:
    """Put prompts and their responses into one batch.

    Args:
        prompts: the prompt of each of B rows.
        responses: the tokens of each row's response, at least one, the end token included.
        device: where the tensors go.

    Returns:
        A batch just wide enough for its longest row.

    Raises:
        PolicyInputError: different counts, an empty response, or a response that holds a token
            its prompt bans.
    """
    if not prompts or len(prompts) != len(responses):
        message = f"{len(prompts)} prompts and {len(responses)} responses: give one of each per row"
        raise PolicyInputError(message)
    for row, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        if not response or not set(prompt.banned_token_ids).isdisjoint(response):
            message = (
                f"the response of row {row} ({len(response)} tokens) is empty or holds a token "
                "that its prompt bans; encode both with the same codec"
            )
            raise PolicyInputError(message)
    target = torch.device(device)
    rows = [
        [*prompt.token_ids, *response] for prompt, response in zip(prompts, responses, strict=True)
    ]
    lengths_B = torch.tensor([len(response) for response in responses], device=target)
    response_tokens_BT = _right_pad(responses, target)
    columns_T = torch.arange(response_tokens_BT.shape[1], device=target)
    return TokenBatch(
        input_ids_BS=_right_pad(rows, target),
        prompt_lengths_B=torch.tensor([len(prompt.token_ids) for prompt in prompts], device=target),
        response_tokens_BT=response_tokens_BT,
        response_mask_BT=columns_T < lengths_B[:, None],
        banned=BannedTokens.of(prompts, device=target),
    )


def pack_rollouts(rollouts: Rollouts, rows: Sequence[int]) -> TokenBatch:
    """Put some rows of sampled responses into one batch.

    Args:
        rollouts: as sampled.
        rows: which rows, in the order wanted.

    Returns:
        A batch on the rollouts' device; its T is the longest response of these rows, so
        `rollouts.logprobs_BT[rows][:, :T]` lies beside its log-probabilities.

    Raises:
        PolicyInputError: no rows.
    """
    return pack_responses(
        [rollouts.prompt_of(row) for row in rows],
        [rollouts.response(row) for row in rows],
        device=rollouts.tokens_BT.device,
    )


def _right_pad(rows: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
    width = max(len(row) for row in rows)
    padded = [[*row, *[0] * (width - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long, device=device)
