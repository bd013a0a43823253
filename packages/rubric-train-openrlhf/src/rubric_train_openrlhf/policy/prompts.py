"""Encoded prompts: what the sampler and the log-probabilities read of a question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from rubric_train_openrlhf.errors import PolicyInputError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """One question as token ids, with the tokens that no answer to it may hold."""

    token_ids: tuple[int, ...]
    """The prompt, at least one token."""
    banned_token_ids: tuple[int, ...] = ()
    """Tokens of probability exactly zero in every answer: never sampled, and left out of the
    normalisation when log-probabilities are recomputed."""

    def __post_init__(self) -> None:
        """Refuse an empty prompt and negative ids."""
        if not self.token_ids:
            message = "a prompt needs at least one token; encode a question that is not empty"
            raise PolicyInputError(message)
        if min(self.token_ids) < 0 or min(self.banned_token_ids, default=0) < 0:
            message = "token ids are 0 or larger; a prompt holds a negative one"
            raise PolicyInputError(message)


@dataclass(frozen=True, slots=True)
class PaddedPrompts:
    """P prompts as one rectangle, padded on the left so that all end in the last column."""

    token_ids_PS: torch.Tensor
    mask_PS: torch.Tensor
    """True where a token of a prompt stands."""

    @property
    def positions_PS(self) -> torch.Tensor:
        """Index of each token in its own prompt; 0 in the padding."""
        return (self.mask_PS.long().cumsum(1) - 1).clamp_(min=0)

    @property
    def lengths_P(self) -> torch.Tensor:
        """Tokens of each prompt."""
        return self.mask_PS.sum(1)


def left_pad(
    prompts: Sequence[EncodedPrompt], *, pad_token_id: int, device: torch.device
) -> PaddedPrompts:
    """Put prompts of different lengths into one rectangle.

    Args:
        prompts: P prompts.
        pad_token_id: what the padding holds; it is masked, so any valid id does.
        device: where the tensors go.

    Returns:
        Ids and mask, both [P, S] with S the longest prompt.
    """
    width = max(len(prompt.token_ids) for prompt in prompts)
    ids = [
        [pad_token_id] * (width - len(prompt.token_ids)) + list(prompt.token_ids)
        for prompt in prompts
    ]
    mask = [
        [False] * (width - len(prompt.token_ids)) + [True] * len(prompt.token_ids)
        for prompt in prompts
    ]
    return PaddedPrompts(
        torch.tensor(ids, dtype=torch.long, device=device), torch.tensor(mask, device=device)
    )


@dataclass(frozen=True, slots=True)
class BannedTokens:
    """Which tokens are banned in which row, as index pairs."""

    rows_N: torch.Tensor
    token_ids_N: torch.Tensor

    @classmethod
    def of(cls, prompts: Sequence[EncodedPrompt], *, device: torch.device) -> BannedTokens:
        """Collect the pairs of B prompts, one prompt per row.

        Args:
            prompts: the prompt of each row, in row order.
            device: where the tensors go.

        Returns:
            N pairs; N is 0 when nothing is banned.
        """
        pairs = [
            (row, token)
            for row, prompt in enumerate(prompts)
            for token in sorted(set(prompt.banned_token_ids))
        ]
        table = torch.tensor(pairs, dtype=torch.long, device=device).reshape(-1, 2)
        return cls(table[:, 0], table[:, 1])

    def mask_BV(self, n_rows: int, vocab_size: int) -> torch.Tensor | None:
        """Spread the pairs over a boolean table.

        Args:
            n_rows: B.
            vocab_size: V, the width of the logits.

        Returns:
            True where a token is banned, [B, V]; None when nothing is banned.

        Raises:
            PolicyInputError: a banned id outside the vocabulary, or a row with every token banned.
        """
        if self.rows_N.numel() == 0:
            return None
        largest = int(self.token_ids_N.max())
        if largest >= vocab_size:
            message = (
                f"banned token id {largest!r} is outside the vocabulary of {vocab_size} tokens; "
                "encode the prompts with the codec of this model"
            )
            raise PolicyInputError(message)
        mask = torch.zeros(n_rows, vocab_size, dtype=torch.bool, device=self.rows_N.device)
        mask[self.rows_N, self.token_ids_N] = True
        if bool(mask.all(dim=1).any()):
            message = "a prompt bans every token of the vocabulary; leave at least one to sample"
            raise PolicyInputError(message)
        return mask
