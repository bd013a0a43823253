"""Group sampling: G responses to each prompt, each prompt read once, through any causal model."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from rubric_train_openrlhf.errors import NonFiniteLogitsError, PolicyInputError
from rubric_train_openrlhf.policy import distribution
from rubric_train_openrlhf.policy.forward_decoding import Decoder, forward_decoder
from rubric_train_openrlhf.policy.holding import hold_rope
from rubric_train_openrlhf.policy.llama_decoding import LlamaDecoder, is_plain_llama
from rubric_train_openrlhf.policy.rollouts import (
    EncodedPrompt,
    PaddedPrompts,
    Rollouts,
    left_pad,
)

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
    eos_token_id: int | Sequence[int],
    pad_token_id: int,
) -> Rollouts:
    """Draw G responses to each prompt, with the log-probability of every token.

    Each prompt is read once where the architecture allows, and its keys and values are shared by
    its group; rows that ended are dropped from the batch. Plain Llama models go through
    `LlamaDecoder`, all others through their own forward. The same seed gives the same tokens.

    Args:
        model: any Hugging Face causal language model, on any device; run without dropout. A rotary
            embedding that follows the length is held to one, as by `hold_rope`.
        prompts: P prompts, with the tokens each bans.
        group_size: G ≥ 1.
        max_new_tokens: T ≥ 1; a response that has not ended by then is cut.
        temperature: τ ≥ 0; 0 takes the most likely token and records it at temperature 1.
        generator: source of the randomness, on the model's device.
        eos_token_id: each of these ends a response and belongs to it.
        pad_token_id: fills the rectangle after a response.

    Returns:
        B = P·G rows, prompt-major, with log-probabilities under the distribution drawn from.

    Raises:
        PolicyInputError: a size below 1, a negative temperature, token ids outside the
            vocabulary, more tokens than the model has positions, a generator elsewhere, or a model
            that cannot be decoded step by step.
    """
    problems = _problems(
        model, prompts, group_size, max_new_tokens, temperature, generator
    )
    problem = next(problems, None)
    if problem is not None:
        raise PolicyInputError(f"cannot sample: {problem}")
    with evaluating(model), torch.inference_mode():
        padded = left_pad(prompts, pad_token_id=pad_token_id, device=model.device)
        rows = LiveRows(model, padded, group_size=group_size, max_tokens=max_new_tokens)
        shape = (len(prompts) * group_size, max_new_tokens)
        ends_E = torch.tensor(eos_token_id, device=model.device)
        tokens_BT, logprobs_BT, mask_BT = _drawn(
            rows, shape, temperature, generator, ends_E
        )
    # Made anew outside of inference mode, whose tensors no gradient may meet.
    tokens_BT = tokens_BT.masked_fill(~mask_BT, pad_token_id)
    return Rollouts(
        tuple(prompts),
        tokens_BT,
        logprobs_BT.masked_fill(~mask_BT, 0.0),
        mask_BT.clone(),
        (torch.isin(tokens_BT, ends_E) & mask_BT).any(dim=1),
    )


def _drawn(
    rows: LiveRows,
    shape: tuple[int, int],
    temperature: float,
    generator: torch.Generator,
    ends_E: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw until every response has ended or is full: tokens, log-probabilities and mask."""
    n_rows, max_new_tokens = shape
    device = rows.device
    tokens_BT = torch.zeros(shape, dtype=torch.long, device=device)
    logprobs_BT = torch.zeros(shape, device=device)
    mask_BT = torch.zeros(shape, dtype=torch.bool, device=device)
    rows_N = torch.arange(n_rows, device=device)
    done_N = torch.zeros(n_rows, dtype=torch.bool, device=device)
    width = 0
    for width in range(1, max_new_tokens + 1):
        scores_NV = rows.scores(temperature)
        try:
            tokens_N, logprobs_N = (
                distribution.most_likely(scores_NV)
                if temperature == 0
                else distribution.sample(
                    scores_NV, rows_N=rows_N, total_rows=n_rows, generator=generator
                )
            )
        except NonFiniteLogitsError as error:
            raise NonFiniteLogitsError(
                f"token {width} of {max_new_tokens}: {error}"
            ) from None
        tokens_BT[rows_N, width - 1] = tokens_N
        logprobs_BT[rows_N, width - 1] = logprobs_N
        mask_BT[rows_N, width - 1] = ~done_N
        done_N = done_N | torch.isin(tokens_N, ends_E)
        done = int(done_N.sum())
        if done == len(rows_N) or width == max_new_tokens:
            break
        kept_N = None
        if done >= COMPACT_FRAC * len(rows_N):
            kept_N = (~done_N).nonzero()[:, 0]
            rows_N = rows_N[kept_N]
            done_N = done_N[kept_N]
        rows.advance(tokens_N, kept_N)
    return tokens_BT[:, :width], logprobs_BT[:, :width], mask_BT[:, :width]


class LiveRows:
    """The rows of groups that are still written: their keys and values, and what comes next.

    Plain Llama models go through `LlamaDecoder`, all others through their own forward.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        prompts: PaddedPrompts,
        *,
        group_size: int,
        max_tokens: int,
    ) -> None:
        """Read the prompts and share them with their groups, of at most `max_tokens` a row."""
        self.device = model.device
        hold_rope(model)
        self._decoder: Decoder = (
            LlamaDecoder(model, max_tokens=prompts.mask_PS.shape[1] + max_tokens)
            if is_plain_llama(model)
            else forward_decoder(model, prompts)
        )
        self._logits_NV = self._decoder.start(prompts, group_size)
        banned_PV = prompts.banned_PV(self._logits_NV.shape[1])
        self._banned_NV = (
            None if banned_PV is None else banned_PV.repeat_interleave(group_size, 0)
        )

    def scores(self, temperature: float) -> Tensor:
        """Scores of each row's next token; those of temperature 1 for 0, which is greedy."""
        return distribution.scores(
            self._logits_NV, self._banned_NV, temperature=temperature or 1.0
        )

    def advance(self, tokens_N: Tensor, kept_N: Tensor | None) -> None:
        """Read the token of each row; of `kept_N` alone, if given, which then are all rows."""
        if kept_N is not None:
            tokens_N = tokens_N[kept_N]
            self._decoder.keep(kept_N)
            if self._banned_NV is not None:
                self._banned_NV = self._banned_NV[kept_N]
        self._logits_NV = self._decoder.advance(tokens_N)


@contextmanager
def evaluating(model: PreTrainedModel) -> Generator[None]:
    """Switch dropout off for the length of a block."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
        # torch 2.6 takes a weight that autocast cast without a gradient again where it is to learn.
        torch.clear_autocast_cache()


def _problems(
    model: PreTrainedModel,
    prompts: Sequence[EncodedPrompt],
    group_size: int,
    max_new_tokens: int,
    temperature: float,
    generator: torch.Generator,
) -> Iterator[str]:
    """Yield what is wrong with an input that cannot be sampled from; nothing of any other."""
    embedding: Any = model.get_input_embeddings()
    vocab_size = len(embedding.weight)
    largest = max((max(prompt.token_ids) for prompt in prompts), default=0)
    longest = max((len(prompt.token_ids) for prompt in prompts), default=0)
    config: Any = model.config.get_text_config()  # of a model that sees, too
    positions: int | None = getattr(config, "max_position_embeddings", None)
    if min(len(prompts), group_size, max_new_tokens) < 1:
        yield (
            f"{len(prompts)} prompts, group_size {group_size!r}, max_new_tokens "
            f"{max_new_tokens!r}: each must be at least 1"
        )
    if not 0 <= temperature < float("inf"):
        yield f"temperature {temperature!r}: it must be a finite number, 0 or larger"
    if largest >= vocab_size:
        yield (
            f"token id {largest!r} in a prompt, but the model has {vocab_size} tokens; encode the "
            "prompts with the codec of this model"
        )
    if positions is not None and longest + max_new_tokens > positions:
        yield (
            f"a prompt of {longest} tokens and {max_new_tokens} new ones exceed the model's "
            f"{positions} positions; shorten the questions or their contexts, or lower "
            "max_new_tokens"
        )
    if generator.device.type != model.device.type:
        yield (
            f"the generator is on {str(generator.device)!r} and the model on "
            f"{str(model.device)!r}; make it with torch.Generator(device=model.device)"
        )
