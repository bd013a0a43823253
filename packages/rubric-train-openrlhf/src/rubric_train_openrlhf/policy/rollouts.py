"""Encoded prompts, responses with the log-probabilities they were drawn with, and batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812 -- torch's own convention
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rubric_train_openrlhf.errors import PolicyInputError


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
            raise PolicyInputError(
                "a prompt needs at least one token; encode a question that is not empty"
            )
        if min(self.token_ids) < 0 or min(self.banned_token_ids, default=0) < 0:
            raise PolicyInputError(
                "token ids are 0 or larger; a prompt holds a negative one"
            )


@dataclass(frozen=True, slots=True)
class PaddedPrompts:
    """P prompts as one rectangle, padded on the left so that all end in the last column."""

    encoded: tuple[EncodedPrompt, ...]
    token_ids_PS: Tensor
    mask_PS: Tensor
    """True where a token of a prompt stands."""

    @property
    def positions_PS(self) -> Tensor:
        """Index of each token in its own prompt; 0 in the padding."""
        return (self.mask_PS.long().cumsum(1) - 1).clamp_(min=0)

    @property
    def lengths_P(self) -> Tensor:
        """Tokens of each prompt."""
        return self.mask_PS.sum(1)

    def part(self, rows_R: Tensor) -> PaddedPrompts:
        """Return some of the prompts, without the columns that are padding in all of them."""
        mask_RS = self.mask_PS[rows_R]
        first = int(mask_RS.any(0).long().argmax())
        return PaddedPrompts(
            tuple(self.encoded[row] for row in cast("list[int]", rows_R.tolist())),
            self.token_ids_PS[rows_R, first:],
            mask_RS[:, first:],
        )

    def banned_PV(self, vocab_size: int) -> Tensor | None:
        """Tell which tokens no answer may hold.

        Args:
            vocab_size: V, the width of the logits.

        Returns:
            True where a token is banned, [P, V]; None when nothing is banned.

        Raises:
            PolicyInputError: a banned id outside the vocabulary, or a prompt with every token
                banned.
        """
        banned = [prompt.banned_token_ids for prompt in self.encoded]
        if not any(banned):
            return None
        largest = max(max(ids, default=0) for ids in banned)
        if largest >= vocab_size:
            raise PolicyInputError(
                f"banned token id {largest!r} is outside the vocabulary of {vocab_size} "
                "tokens; encode the prompts with the codec of this model"
            )
        mask = torch.zeros(
            len(banned), vocab_size, dtype=torch.bool, device=self.mask_PS.device
        )
        rows: list[int] = []
        tokens: list[int] = []
        for row, ids in enumerate(banned):
            rows.extend([row] * len(ids))
            tokens.extend(ids)
        mask[rows, tokens] = True
        if bool(mask.all(dim=1).any()):
            raise PolicyInputError(
                "a prompt bans every token of the vocabulary; leave at least one to sample"
            )
        return mask


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
    rows = [torch.tensor(prompt.token_ids) for prompt in prompts]
    token_ids_PS = pad_sequence(
        rows, batch_first=True, padding_value=pad_token_id, padding_side="left"
    )
    width = token_ids_PS.shape[1]
    lengths_P = torch.tensor([len(row) for row in rows])
    mask_PS = torch.arange(width) >= width - lengths_P[:, None]
    return PaddedPrompts(tuple(prompts), token_ids_PS.to(device), mask_PS.to(device))


@dataclass(frozen=True, slots=True)
class Rollouts:
    """G responses to each of P prompts: B = P·G rows, prompt-major (row p·G + g)."""

    prompts: tuple[EncodedPrompt, ...]
    tokens_BT: Tensor
    """Response tokens, int64; whatever stands outside the mask is padding."""
    logprobs_BT: Tensor
    """log π_gen of each sampled token, float32, under the distribution it was drawn from
    (temperature 1 for greedy decoding); 0 outside the mask."""
    mask_BT: Tensor
    """True on a response's own tokens, its end token included."""
    ended_B: Tensor
    """True where the response closed with the end token, False where it was cut."""

    def __post_init__(self) -> None:
        """Check shapes, types and that each response is one run of tokens from the left."""
        problem = _shape_problem(self) or _value_problem(self)
        if problem:
            raise PolicyInputError(
                f"these are not rollouts of {len(self.prompts)} prompts: {problem}"
            )

    @property
    def group_size(self) -> int:
        """G, responses per prompt."""
        return self.tokens_BT.shape[0] // len(self.prompts)

    @property
    def lengths_B(self) -> Tensor:
        """Tokens of each response, the end token included."""
        return self.mask_BT.sum(dim=1)

    def prompt_of(self, row: int) -> EncodedPrompt:
        """Give the prompt that a row answers."""
        return self.prompts[row // self.group_size]

    def response(self, row: int) -> tuple[int, ...]:
        """Give the tokens of one response, the end token included."""
        return self.responses([row])[0]

    def responses(self, rows: Sequence[int]) -> list[tuple[int, ...]]:
        """Give the tokens of some responses, read from the device at once."""
        index_N = torch.tensor(
            list(rows), dtype=torch.long, device=self.tokens_BT.device
        )
        tokens_NT = cast("list[list[int]]", self.tokens_BT[index_N].tolist())
        lengths_N = cast("list[int]", self.lengths_B[index_N].tolist())
        return [tuple(row[:n]) for row, n in zip(tokens_NT, lengths_N, strict=True)]

    def take_prompts(self, indices: Sequence[int]) -> Rollouts:
        """Keep whole groups.

        Args:
            indices: which prompts, in the order wanted; at least one.

        Returns:
            Rollouts of those prompts alone.
        """
        rows_PG = torch.arange(len(self.mask_BT), device=self.mask_BT.device)
        rows_B = rows_PG.reshape(len(self.prompts), -1)[list(indices)].flatten()
        tensors = (self.tokens_BT, self.logprobs_BT, self.mask_BT, self.ended_B)
        prompts = tuple(self.prompts[index] for index in indices)
        return Rollouts(prompts, *(tensor[rows_B] for tensor in tensors))


def concatenate(parts: Sequence[Rollouts]) -> Rollouts:
    """Put rollouts of the same group size one after another.

    Args:
        parts: at least one; their widths T may differ.

    Returns:
        The prompts and rows of all parts in order, padded to the widest.

    Raises:
        PolicyInputError: no part, or parts of different group sizes.
    """
    if len({part.group_size for part in parts}) != 1:
        raise PolicyInputError(
            f"{len(parts)} rollouts with one group size are wanted to put together"
        )
    width = max(part.tokens_BT.shape[1] for part in parts)

    def joined(name: str) -> Tensor:
        tensors: list[Tensor] = [getattr(part, name) for part in parts]
        return torch.cat(
            [F.pad(tensor, (0, width - tensor.shape[1])) for tensor in tensors]
        )

    prompts = tuple(prompt for part in parts for prompt in part.prompts)
    rectangles = {
        name: joined(name) for name in ("tokens_BT", "logprobs_BT", "mask_BT")
    }
    return Rollouts(
        prompts, **rectangles, ended_B=torch.cat([part.ended_B for part in parts])
    )


def _shape_problem(rollouts: Rollouts) -> str:
    shape = rollouts.tokens_BT.shape
    expected = {
        "tokens_BT": (tuple(shape), torch.int64),
        "logprobs_BT": (tuple(shape), torch.float32),
        "mask_BT": (tuple(shape), torch.bool),
        "ended_B": (tuple(shape[:1]), torch.bool),
    }
    for name, (expected_shape, dtype) in expected.items():
        tensor: Tensor = getattr(rollouts, name)
        actual = tuple(tensor.shape)
        if actual != expected_shape or tensor.dtype != dtype:
            return (
                f"{name} is {actual} {tensor.dtype}, expected {expected_shape} {dtype}"
            )
    if len(shape) != 2 or not rollouts.prompts or shape[0] % len(rollouts.prompts):  # noqa: PLR2004 -- [B, T]
        return f"tokens_BT of shape {tuple(shape)} has no whole group per prompt"
    return ""


def _value_problem(rollouts: Rollouts) -> str:
    mask = rollouts.mask_BT
    if not bool(mask[:, :1].all()) or bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        return "mask_BT must be one run of True from the first column in every row"
    inside = rollouts.logprobs_BT.masked_fill(~mask, 0.0)
    if not torch.equal(inside, rollouts.logprobs_BT):
        return "logprobs_BT must be 0 outside the mask"
    if not bool(torch.isfinite(inside).all()) or bool((inside > 0).any()):
        return "logprobs_BT must be finite and at most 0"
    return ""


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """B sequences, in two forms: whole, and as distinct prompts with their responses."""

    input_ids_BS: Tensor
    """Prompt and response back to back from the first column. All padding is on the right, where
    a causal model cannot see it: no attention mask is needed and positions count from 0."""
    prompt_lengths_B: Tensor
    prompts: PaddedPrompts
    """The distinct prompts."""
    prompt_index_B: Tensor
    """Which of the distinct prompts each row answers."""
    response_tokens_BT: Tensor
    response_mask_BT: Tensor
    """True on the tokens that carry a log-probability."""

    @property
    def n_response_tokens(self) -> int:
        """Tokens that carry a log-probability."""
        return int(self.response_mask_BT.sum())

    @property
    def predicting_positions(self) -> tuple[Tensor, Tensor]:
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
    if not prompts or len(prompts) != len(responses):
        raise PolicyInputError(
            f"{len(prompts)} prompts and {len(responses)} responses: give one of each per row"
        )
    for row, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        if not response or not set(prompt.banned_token_ids).isdisjoint(response):
            raise PolicyInputError(
                f"the response of row {row} ({len(response)} tokens) is empty or holds a "
                "token that its prompt bans; encode both with the same codec"
            )
    target = torch.device(device)
    distinct = list(dict.fromkeys(prompts))
    places = {prompt: place for place, prompt in enumerate(distinct)}
    rows = [
        (*prompt.token_ids, *response)
        for prompt, response in zip(prompts, responses, strict=True)
    ]
    lengths_B = torch.tensor([len(response) for response in responses], device=target)
    response_tokens_BT = _right_pad(responses, target)
    steps_T = torch.arange(response_tokens_BT.shape[1], device=target)
    return TokenBatch(
        input_ids_BS=_right_pad(rows, target),
        prompt_lengths_B=torch.tensor(
            [len(prompt.token_ids) for prompt in prompts], device=target
        ),
        prompts=left_pad(distinct, pad_token_id=0, device=target),
        prompt_index_B=torch.tensor(
            [places[prompt] for prompt in prompts], device=target
        ),
        response_tokens_BT=response_tokens_BT,
        response_mask_BT=steps_T < lengths_B[:, None],
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


def _right_pad(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True).to(
        device
    )
