"""Supervised warm start on question-answer pairs, before any reward is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from rubric_core import PolicyView
from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy.batches import TokenBatch, pack_responses
from rubric_train_openrlhf.policy.logprobs import response_logprobs
from rubric_train_openrlhf.policy.supervised import (
    SupervisedStep,
    SupervisedUpdate,
    learning_rate_frac,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rubric_core import SftExample
    from rubric_train_openrlhf.policy.load import Policy
    from rubric_train_openrlhf.policy.prompts import EncodedPrompt
    from rubric_train_openrlhf.policy_config import SftConfig


class SftReport(NamedTuple):
    """What the warm start did."""

    examples: int
    """Examples that were trained on."""
    left_out: int
    """Examples longer than the configured limits."""
    loss: float
    """Loss of the last step, in nats per answer token."""


def sft(
    policy: Policy,
    examples: Sequence[SftExample],
    config: SftConfig,
    *,
    seed: int,
    on_step: Callable[[SupervisedStep], None] | None = None,
) -> SftReport:
    """Train the policy's model to give the examples' answers, in place.

    The loss is the mean negative log-likelihood over answer tokens, under the same distribution
    that answers are later sampled from.

    Args:
        policy: its model is changed.
        examples: question-answer pairs.
        config: the schedule.
        seed: of the order of examples; torch's global random state is left alone.
        on_step: called after every step.

    Returns:
        How many examples took part, and the last loss.

    Raises:
        PolicyInputError: no example is within the configured lengths.
    """
    pairs = _encoded(policy, examples, config)
    if not pairs:
        raise PolicyInputError(
            f"none of {len(examples)} examples has a question of at most "
            f"{config.max_prompt_tokens} tokens and an answer of at most "
            f"{config.max_answer_tokens}; raise the limits or shorten the answers"
        )
    update = SupervisedUpdate(policy.model, weight_decay=config.weight_decay, betas=(0.9, 0.999))
    loss = 0.0
    for step, batch in enumerate(_batches(policy, pairs, config, seed=seed)):
        rate = config.learning_rate * learning_rate_frac(
            step, steps=config.steps, warmup_steps=config.warmup_steps, decay="linear"
        )
        logprobs_BT, _ = response_logprobs(policy.model, batch)
        tokens = batch.n_response_tokens
        loss = update.apply(-logprobs_BT.sum() / tokens, learning_rate=rate)
        if on_step is not None:
            on_step(SupervisedStep(step + 1, config.steps, loss, rate, tokens))
    return SftReport(len(pairs), len(examples) - len(pairs), loss)


def _encoded(
    policy: Policy, examples: Sequence[SftExample], config: SftConfig
) -> list[tuple[EncodedPrompt, tuple[int, ...]]]:
    codec = policy.codec
    pairs = (
        (codec.encode_prompt(view), codec.encode_answer(view, example.answer))
        for example in examples
        for view in [PolicyView(task_id=example.task_id, question=example.question)]
    )
    return [
        (prompt, answer)
        for prompt, answer in pairs
        if len(prompt.token_ids) <= config.max_prompt_tokens
        and len(answer) <= config.max_answer_tokens
    ]


def _batches(
    policy: Policy,
    pairs: list[tuple[EncodedPrompt, tuple[int, ...]]],
    config: SftConfig,
    *,
    seed: int,
) -> Iterator[TokenBatch]:
    """Go through the shuffled pairs again and again, every pair once per round."""
    generator = torch.Generator().manual_seed(seed)
    size = min(config.batch_size, len(pairs))
    order: list[int] = []
    for _ in range(config.steps):
        if len(order) < size:
            order += [int(index) for index in torch.randperm(len(pairs), generator=generator)]
        taken, order = order[:size], order[size:]
        prompts, answers = zip(*(pairs[index] for index in taken), strict=True)
        yield pack_responses(prompts, answers, device=policy.device)
