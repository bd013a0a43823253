"""Group sampling: G responses to each prompt, each prompt read once."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy import distribution
from rubric_train_openrlhf.policy.decoding import Decoder, ForwardDecoder
from rubric_train_openrlhf.policy.llama_decoding import LlamaDecoder, is_plain_llama
from rubric_train_openrlhf.policy.rollouts import BannedTokens, EncodedPrompt, Rollouts, left_pad

if TYPE_CHECKING:
    from transformers import PreTrainedModel

COMPACT_FRAC = 0.25
"""Finished rows are dropped from the batch once they make up this share of it."""


def sample_groups(  # noqa: PLR0913 -- the whole of a draw is named at the call
    model: PreTrainedModel,
    prompts: Sequence[EncodedPrompt],
    *,
    group_size: int,
    max_new_tokens: int,
    temperature: float = 1.0,
    generator: torch.Generator,
    eos_token_id: int,
    pad_token_id: int,
) -> Rollouts:
    """Draw G responses to each prompt, with the log-probability of every token.

    Each prompt is read once and its keys and values are shared by its group; rows that ended are
    dropped from the batch. Plain Llama models go through `LlamaDecoder`, all others through
    their own forward. The same seed gives the same tokens.

    Args:
        model: any Hugging Face causal language model, on any device; run without dropout.
        prompts: P prompts, with the tokens each bans.
        group_size: G ≥ 1.
        max_new_tokens: T ≥ 1; a response that has not ended by then is cut.
        temperature: τ ≥ 0; 0 takes the most likely token and records it at temperature 1.
        generator: source of the randomness, on the model's device.
        eos_token_id: ends a response and belongs to it.
        pad_token_id: fills the rectangle behind a response.

    Returns:
        B = P·G rows, prompt-major, with log-probabilities under the distribution drawn from.

    Raises:
        PolicyInputError: a size below 1, a negative temperature, token ids outside the
            vocabulary, more tokens than the model has positions, or a generator elsewhere.
    """
    problems = _problems(model, prompts, group_size, max_new_tokens, temperature)
    if problem := next(problems, ""):
        raise PolicyInputError(f"cannot sample: {problem}")
    distribution.check_generator(generator, model.device)
    longest = max(len(prompt.token_ids) for prompt in prompts)
    with evaluating(model), torch.inference_mode():
        run = _Generation(model, prompts, group_size, max_new_tokens)
        run.prefill(decoder_for(model, max_tokens=longest + max_new_tokens), pad_token_id)
        run.generate(temperature, generator, eos_token_id)
    return run.rollouts(eos_token_id, pad_token_id)


class _Generation:
    """B responses while they grow."""

    def __init__(
        self,
        model: PreTrainedModel,
        prompts: Sequence[EncodedPrompt],
        group_size: int,
        max_new_tokens: int,
    ) -> None:
        self._prompts = tuple(prompts)
        self._group_size = group_size
        self._device = model.device
        shape = (len(prompts) * group_size, max_new_tokens)
        self._tokens_BT = torch.zeros(shape, dtype=torch.long, device=self._device)
        self._logprobs_BT = torch.zeros(shape, device=self._device)
        self._mask_BT = torch.zeros(shape, dtype=torch.bool, device=self._device)
        self._width = 0

    def prefill(self, decoder: Decoder, pad_token_id: int) -> None:
        """Read the prompts and share them with their groups."""
        padded = left_pad(self._prompts, pad_token_id=pad_token_id, device=self._device)
        logits_PV = decoder.prefill(padded)
        decoder.repeat(self._group_size)
        self._decoder = decoder
        self._logits_NV = logits_PV.repeat_interleave(self._group_size, dim=0)
        row_prompts = [prompt for prompt in self._prompts for _ in range(self._group_size)]
        banned = BannedTokens.of(row_prompts, device=self._device)
        self._banned_NV = banned.mask_BV(*self._logits_NV.shape)

    def generate(self, temperature: float, generator: torch.Generator, eos_token_id: int) -> None:
        """Draw tokens until every response has ended or is full."""
        n_rows, max_new_tokens = self._tokens_BT.shape
        rows_N = torch.arange(n_rows, device=self._device)
        done_N = torch.zeros(n_rows, dtype=torch.bool, device=self._device)
        for step in range(max_new_tokens):
            tokens_N, logprobs_N = self._draw(rows_N, temperature, generator)
            self._tokens_BT[rows_N, step] = tokens_N
            self._logprobs_BT[rows_N, step] = logprobs_N
            self._mask_BT[rows_N, step] = ~done_N
            self._width = step + 1
            done_N = done_N | (tokens_N == eos_token_id)
            done = int(done_N.sum())
            if done == len(rows_N) or self._width == max_new_tokens:
                break
            if done >= COMPACT_FRAC * len(rows_N):
                kept_N = (~done_N).nonzero()[:, 0]
                rows_N, tokens_N, done_N = rows_N[kept_N], tokens_N[kept_N], done_N[kept_N]
                self._keep(kept_N)
            self._logits_NV = self._decoder.advance(tokens_N)

    def rollouts(self, eos_token_id: int, pad_token_id: int) -> Rollouts:
        """Cut the rectangle to the longest response and blank what follows each end."""
        mask_BT = self._mask_BT[:, : self._width].clone()
        tokens_BT = self._tokens_BT[:, : self._width].masked_fill(~mask_BT, pad_token_id)
        return Rollouts(
            self._prompts,
            tokens_BT,
            self._logprobs_BT[:, : self._width].masked_fill(~mask_BT, 0.0),
            mask_BT,
            ((tokens_BT == eos_token_id) & mask_BT).any(dim=1),
        )

    def _draw(
        self, rows_N: torch.Tensor, temperature: float, generator: torch.Generator
    ) -> distribution.Draw:
        scores_NV = distribution.scores(
            self._logits_NV, self._banned_NV, temperature=temperature or 1.0
        )
        if temperature == 0:
            return distribution.most_likely(scores_NV)
        total_rows = self._tokens_BT.shape[0]
        return distribution.sample(
            scores_NV, rows_N=rows_N, total_rows=total_rows, generator=generator
        )

    def _keep(self, kept_N: torch.Tensor) -> None:
        self._decoder.keep(kept_N)
        if self._banned_NV is not None:
            self._banned_NV = self._banned_NV[kept_N]


def decoder_for(model: PreTrainedModel, *, max_tokens: int) -> Decoder:
    """Choose how a model is decoded.

    Args:
        model: any Hugging Face causal language model.
        max_tokens: longest prompt plus response.
    """
    return (
        LlamaDecoder(model, max_tokens=max_tokens)
        if is_plain_llama(model)
        else ForwardDecoder(model)
    )


@contextmanager
def evaluating(model: PreTrainedModel) -> Generator[None]:
    """Switch dropout off for the length of a block."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def _problems(
    model: PreTrainedModel,
    prompts: Sequence[EncodedPrompt],
    group_size: int,
    max_new_tokens: int,
    temperature: float,
) -> Iterator[str]:
    """Yield what cannot be sampled; the next is looked for only where one is not wrong."""
    if not prompts or group_size < 1 or max_new_tokens < 1:
        yield (
            f"{len(prompts)} prompts, group_size {group_size!r}, max_new_tokens "
            f"{max_new_tokens!r}: each must be at least 1"
        )
    if not 0 <= temperature < float("inf"):
        yield f"temperature {temperature!r}: it must be a finite number, 0 or larger"
    embedding: Any = model.get_input_embeddings()
    vocab_size = len(embedding.weight)
    largest = max(max(prompt.token_ids) for prompt in prompts)
    if largest >= vocab_size:
        yield (
            f"token id {largest!r} in a prompt, but the model has {vocab_size} tokens; "
            "encode the prompts with the codec of this model"
        )
    longest = max(len(prompt.token_ids) for prompt in prompts)
    positions: int | None = getattr(model.config, "max_position_embeddings", None)
    if positions is not None and longest + max_new_tokens > positions:
        yield (
            f"a prompt of {longest} tokens and {max_new_tokens} new ones exceed the model's "
            f"{positions} positions; shorten the questions or lower max_new_tokens"
        )
