"""Prompts and responses as rectangles, for computing log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy.rollouts import BannedTokens, PaddedPrompts, left_pad

if TYPE_CHECKING:
    from rubric_train_openrlhf.policy.rollouts import EncodedPrompt, Rollouts


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """B sequences, in two forms: whole, and as distinct prompts with their responses."""

    input_ids_BS: torch.Tensor
    """Prompt and response back to back from the first column. All padding is on the right, where
    a causal model cannot see it: no attention mask is needed and positions count from 0."""
    prompt_lengths_B: torch.Tensor
    prompts: PaddedPrompts
    """The distinct prompts."""
    prompt_index_B: torch.Tensor
    """Which of the distinct prompts each row answers."""
    response_tokens_BT: torch.Tensor
    response_mask_BT: torch.Tensor
    """True on the tokens that carry a log-probability."""
    banned: BannedTokens

    @property
    def n_response_tokens(self) -> int:
        """Tokens that carry a log-probability."""
        return int(self.response_mask_BT.sum())

    @property
    def predicting_positions(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Row and column of `input_ids_BS` whose logits speak of each masked response token."""
        rows_N, steps_N = self.response_mask_BT.nonzero(as_tuple=True)
        return rows_N, self.prompt_lengths_B[rows_N] - 1 + steps_N


def pack_responses(
    prompts: Sequence[EncodedPrompt],
    responses: Sequence[Sequence[int]],
    *,
    device: torch.device | str = "cpu",
) -> TokenBatch:
    """Put prompts and their responses into one batch.

    Args:
        prompts: the prompt of each of B rows; rows of one group give it again.
        responses: the tokens of each row's response, at least one, the end token included.
        device: where the tensors go.

    Returns:
        A batch just wide enough for its longest row.

    Raises:
        PolicyInputError: different counts, an empty response, or a response that holds a token
            its prompt bans.
    """
    _check(prompts, responses)
    target = torch.device(device)
    distinct = list(dict.fromkeys(prompts))
    places = {prompt: place for place, prompt in enumerate(distinct)}
    rows = [
        (*prompt.token_ids, *response) for prompt, response in zip(prompts, responses, strict=True)
    ]
    lengths_B = torch.tensor([len(response) for response in responses], device=target)
    response_tokens_BT = _right_pad(responses, target)
    steps_T = torch.arange(response_tokens_BT.shape[1], device=target)
    return TokenBatch(
        input_ids_BS=_right_pad(rows, target),
        prompt_lengths_B=torch.tensor([len(prompt.token_ids) for prompt in prompts], device=target),
        prompts=left_pad(distinct, pad_token_id=0, device=target),
        prompt_index_B=torch.tensor([places[prompt] for prompt in prompts], device=target),
        response_tokens_BT=response_tokens_BT,
        response_mask_BT=steps_T < lengths_B[:, None],
        banned=BannedTokens.of(prompts, device=target),
    )


def pack_rollouts(rollouts: Rollouts, rows: Sequence[int]) -> TokenBatch:
    """Put some rows of sampled responses into one batch.

    Rows of one group cost less together than apart: their prompt is read once.

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
        rollouts.responses(rows),
        device=rollouts.tokens_BT.device,
    )


def _check(prompts: Sequence[EncodedPrompt], responses: Sequence[Sequence[int]]) -> None:
    if not prompts or len(prompts) != len(responses):
        raise PolicyInputError(
            f"{len(prompts)} prompts and {len(responses)} responses: give one of each per row"
        )
    for row, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        if not response or not set(prompt.banned_token_ids).isdisjoint(response):
            raise PolicyInputError(
                f"the response of row {row} ({len(response)} tokens) is empty or holds a token "
                "that its prompt bans; encode both with the same codec"
            )


def _right_pad(rows: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
    width = max(len(row) for row in rows)
    padded = [[*row, *[0] * (width - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long, device=device)
