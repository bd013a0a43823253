"""Language-model training on running text, for a policy that was built from nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy.supervised import (
    SupervisedStep,
    SupervisedUpdate,
    learning_rate_frac,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rubric_train_openrlhf.policy.load import Policy
    from rubric_train_openrlhf.policy_config import PretrainConfig

# Most windows begin where a text begins, so that the model learns how texts open.
_AT_START_FRAC = 0.7


def pretrain(
    policy: Policy,
    texts: Sequence[str],
    config: PretrainConfig,
    *,
    seed: int,
    progress: Callable[[SupervisedStep], None] | None = None,
) -> float:
    """Train the policy's model to continue texts, in place.

    Args:
        policy: its model is changed.
        texts: the training corpus.
        config: the schedule.
        seed: of the choice of windows; torch's global random state is left alone.
        progress: called after every step.

    Returns:
        The loss of the last step, in nats per token.

    Raises:
        PolicyInputError: the texts together are shorter than one window.
    """
    stream = _Stream(policy, texts, config.window_tokens)
    generator = torch.Generator().manual_seed(seed)
    update = SupervisedUpdate(policy.model, weight_decay=config.weight_decay, betas=(0.9, 0.95))
    loss = 0.0
    for step in range(config.steps):
        rate = config.learning_rate * learning_rate_frac(
            step, steps=config.steps, warmup_steps=config.warmup_steps, decay="cosine"
        )
        windows_NS = stream.windows(config.batch_size, generator).to(policy.device)
        loss = update.apply(_next_token_loss(policy, windows_NS), learning_rate=rate)
        if progress is not None:
            tokens = config.batch_size * config.window_tokens
            progress(SupervisedStep(step + 1, config.steps, loss, rate, tokens))
    return loss


class _Stream:
    """All texts in one row of tokens, and where in it a window may begin."""

    def __init__(self, policy: Policy, texts: Sequence[str], window_tokens: int) -> None:
        codec = policy.codec
        token_ids: list[int] = []
        starts: list[int] = []
        for text in texts:
            starts.append(len(token_ids))
            token_ids += [*codec.encode_text(text), codec.eos_token_id]
        self._width = window_tokens + 1
        self._last_start = len(token_ids) - self._width
        if self._last_start < 0:
            raise PolicyInputError(
                f"{len(texts)} texts hold {len(token_ids)} tokens, fewer than one window of "
                f"{self._width}; give more text or lower window_tokens"
            )
        self._tokens = torch.tensor(token_ids, dtype=torch.long)
        self._starts = torch.tensor([start for start in starts if start <= self._last_start])

    def windows(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """Draw windows of one token more than the model reads, [count, window + 1]."""
        anywhere_N = torch.randint(self._last_start + 1, (count,), generator=generator)
        chosen_N = torch.randint(len(self._starts), (count,), generator=generator)
        at_start_N = torch.rand(count, generator=generator) < _AT_START_FRAC
        first_N = torch.where(at_start_N, self._starts[chosen_N], anywhere_N)
        return self._tokens[first_N[:, None] + torch.arange(self._width)]


def _next_token_loss(policy: Policy, windows_NS: torch.Tensor) -> torch.Tensor:
    logits_NSV = policy.model(input_ids=windows_NS[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(
        logits_NSV.flatten(0, 1).float(), windows_NS[:, 1:].flatten()
    )
