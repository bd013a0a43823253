"""Answers for an evaluation: every row has a seed, a limit and an end of its own.

Apart from `sampling`, which draws groups to learn from and keeps the log-probability of each token.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import torch

from rubric_train_openrlhf.policy import distribution
from rubric_train_openrlhf.policy.rollouts import BannedTokens, EncodedPrompt, left_pad
from rubric_train_openrlhf.policy.sampling import COMPACT_FRAC, decoder_for, evaluating

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from rubric_train_openrlhf.policy.decoding import Decoder

_STOP_EVERY = 16


@dataclass(frozen=True, slots=True)
class Draw:
    """How tokens are drawn."""

    temperature: float
    top_p: float = 1.0
    top_k: int | None = None

    @property
    def is_greedy(self) -> bool:
        """Whether the most likely token is taken."""
        return self.temperature == 0


@dataclass(slots=True)
class AnswerTokens:
    """One answer while it grows."""

    prompt: int
    """Number of its prompt."""
    seed: int
    most: int
    """Tokens after which it is cut, ≥ 1."""
    tokens: list[int] = field(default_factory=list[int])
    ended: bool = False
    """By the end token, or by a text that ends an answer."""

    @property
    def is_done(self) -> bool:
        """Whether nothing more is drawn."""
        return self.ended or len(self.tokens) >= self.most


def answer(  # noqa: PLR0913 -- the whole of a draw is named at the call
    model: PreTrainedModel,
    prompts: Sequence[EncodedPrompt],
    rows: Sequence[AnswerTokens],
    *,
    draw: Draw,
    eos_token_id: int,
    pad_token_id: int,
    has_stopped: Callable[[AnswerTokens], bool] | None = None,
    cancelled: threading.Event | None = None,
) -> None:
    """Write answers, the same for a row whatever else is in its batch, rounding apart.

    Args:
        model: any Hugging Face causal language model, on any device.
        prompts: P prompts, each read once.
        rows: B answers, prompt-major, the same number G for each prompt; filled in place.
        draw: how tokens are drawn; each row by its own seed.
        eos_token_id: ends an answer and belongs to it.
        pad_token_id: fills prompts on the left.
        has_stopped: looks at a row now and then, for texts that end an answer.
        cancelled: ends the work between two tokens when it is set.

    Raises:
        NonFiniteLogitsError: the model's scores are no finite numbers.
    """
    longest = max(len(prompt.token_ids) for prompt in prompts)
    most = max(row.most for row in rows)
    with evaluating(model), torch.inference_mode():
        decoder = decoder_for(model, max_tokens=longest + most)
        logits = decoder.prefill(left_pad(prompts, pad_token_id=pad_token_id, device=model.device))
        group_size = len(rows) // len(prompts)
        decoder.repeat(group_size)
        batch = _Batch(decoder, logits.repeat_interleave(group_size, dim=0), prompts, rows, draw)
        for step in range(most):
            if cancelled is not None and cancelled.is_set():
                return
            tokens_N = batch.drawn(step)
            looks = has_stopped is not None and step % _STOP_EVERY == _STOP_EVERY - 1
            tokens = cast("list[int]", tokens_N.tolist())  # pyright: ignore[reportUnknownMemberType]  # torch's
            for row, token in zip(batch.rows, tokens, strict=True):
                if row.is_done:
                    continue
                row.tokens.append(token)
                row.ended = token == eos_token_id
                if looks and has_stopped is not None and not row.ended:
                    row.ended = has_stopped(row)
            if not batch.advance(tokens_N):
                return


class _Batch:
    """The rows that are still written, and the logits of their next tokens."""

    def __init__(
        self,
        decoder: Decoder,
        logits_NV: torch.Tensor,
        prompts: Sequence[EncodedPrompt],
        rows: Sequence[AnswerTokens],
        draw: Draw,
    ) -> None:
        self.rows = list(rows)
        self._decoder = decoder
        self._logits_NV = logits_NV
        self._draw = draw
        banned = BannedTokens.of([prompts[row.prompt] for row in rows], device=logits_NV.device)
        self._banned_NV = banned.mask_BV(*logits_NV.shape)
        self._uniform_NT = torch.empty(0)
        if not draw.is_greedy:
            most = max(row.most for row in rows)
            drawn = [
                torch.rand(most, generator=torch.Generator().manual_seed(row.seed)) for row in rows
            ]
            self._uniform_NT = torch.stack(drawn).to(logits_NV.device)

    def drawn(self, step: int) -> torch.Tensor:
        """Draw the next token of each row."""
        scores_NV = distribution.scores(
            self._logits_NV, self._banned_NV, temperature=self._draw.temperature or 1.0
        )
        if self._draw.is_greedy:
            return distribution.most_likely(scores_NV).tokens_N
        scores_NV = distribution.narrowed(scores_NV, top_p=self._draw.top_p, top_k=self._draw.top_k)
        return distribution.by_uniform(scores_NV, self._uniform_NT[:, step])

    def advance(self, tokens_N: torch.Tensor) -> bool:
        """Drop rows that are done, and read the tokens of the others; False where none is left."""
        live = [number for number, row in enumerate(self.rows) if not row.is_done]
        if not live:
            return False
        if len(self.rows) - len(live) >= COMPACT_FRAC * len(self.rows):
            kept_N = torch.tensor(live, device=tokens_N.device)
            self.rows = [self.rows[number] for number in live]
            self._decoder.keep(kept_N)
            tokens_N = tokens_N[kept_N]
            if self._banned_NV is not None:
                self._banned_NV = self._banned_NV[kept_N]
            if not self._draw.is_greedy:
                self._uniform_NT = self._uniform_NT[kept_N]
        self._logits_NV = self._decoder.advance(tokens_N)
        return True
