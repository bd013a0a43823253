"""Supervised steps before any reward is seen: pre-training on text, a warm start on answers."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from rubric_core import PolicyView, SftExample
from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy.codec import TextCodec
from rubric_train_openrlhf.policy.load import Policy
from rubric_train_openrlhf.policy.logprobs import response_logprobs
from rubric_train_openrlhf.policy.rollouts import (
    EncodedPrompt,
    TokenBatch,
    pack_responses,
)
from rubric_train_openrlhf.policy_config import PretrainConfig, SftConfig

_TINY_PARAMETERS = 10_000_000
"""Parameters up to which the default learning rate of `SftConfig` is known to suit a model."""
_FINAL_FRAC = 0.1
"""Learning rate at the last step, as a share of the highest."""


class SupervisedStep(NamedTuple):
    """One finished optimiser step."""

    step: int
    """Counts from 1."""
    steps: int
    loss: float
    """Mean negative log-likelihood per token, in nats, before the update."""
    learning_rate: float
    tokens: int
    """Tokens that carried the loss."""


def learning_rate(step: int, config: PretrainConfig | SftConfig) -> float:
    """Give the learning rate at a step.

    Args:
        step: counts from 0.
        config: the schedule: a rise in a straight line, and a fall to a tenth by the end.

    Returns:
        A number in (0, config.learning_rate].
    """
    done = step / config.steps
    falling = (
        0.5 * (1 + math.cos(math.pi * done)) if config.decay == "cosine" else 1 - done
    )
    risen = min(1.0, (step + 1) / max(1, config.warmup_steps))
    return config.learning_rate * risen * (_FINAL_FRAC + (1 - _FINAL_FRAC) * falling)


def _train(
    policy: Policy,
    losses: Iterable[tuple[Tensor, int]],
    config: PretrainConfig | SftConfig,
    on_step: Callable[[SupervisedStep], None] | None,
) -> float:
    """Take one AdamW step with clipped gradients down each loss; return the last.

    Args:
        policy: its model is changed.
        losses: scalars with their graphs, computed as they are asked for, and their tokens.
        config: the schedule.
        on_step: called after every step.
    """
    parameters = [
        parameter for parameter in policy.model.parameters() if parameter.requires_grad
    ]
    optimizer = torch.optim.AdamW(
        parameters,
        lr=0.0,
        betas=config.betas,
        weight_decay=config.weight_decay,
        fused=policy.device.type in {"cpu", "cuda"},
    )
    value = 0.0
    for step, (loss, tokens) in enumerate(losses):
        rate = learning_rate(step, config)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        value = float(loss.detach())
        if on_step is not None:
            on_step(SupervisedStep(step + 1, config.steps, value, rate, tokens))
    return value


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
    tokens = config.batch_size * config.window_tokens
    losses = (
        (_next_token_loss(policy, windows.to(policy.device)), tokens)
        for windows in _windows(policy, texts, config, seed=seed)
    )
    return _train(policy, losses, config, progress)


def _windows(
    policy: Policy, texts: Sequence[str], config: PretrainConfig, *, seed: int
) -> Iterator[Tensor]:
    """Draw windows of one token more than the model reads, [batch_size, window + 1]."""
    token_ids: list[int] = []
    starts: list[int] = []
    for text in texts:
        starts.append(len(token_ids))
        token_ids += [*policy.codec.encode_text(text), policy.codec.eos_token_id]
    width = config.window_tokens + 1
    last_start = len(token_ids) - width
    if last_start < 0:
        raise PolicyInputError(
            f"{len(texts)} texts hold {len(token_ids)} tokens, fewer than one window of "
            f"{width}; give more text or lower window_tokens"
        )
    stream = torch.tensor(token_ids, dtype=torch.long)
    usable = torch.tensor([start for start in starts if start <= last_start])
    generator = torch.Generator().manual_seed(seed)
    size = (config.batch_size,)
    for _ in range(config.steps):
        anywhere_N = torch.randint(last_start + 1, size, generator=generator)
        chosen_N = torch.randint(len(usable), size, generator=generator)
        at_start_N = torch.rand(config.batch_size, generator=generator) < _AT_START_FRAC
        first_N = torch.where(at_start_N, usable[chosen_N], anywhere_N)
        yield stream[first_N[:, None] + torch.arange(width)]


def _next_token_loss(policy: Policy, windows_NS: Tensor) -> Tensor:
    logits_NSV = policy.model(input_ids=windows_NS[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(
        logits_NSV.flatten(0, 1).float(), windows_NS[:, 1:].flatten()
    )


class FittingExample(NamedTuple):
    """An example within the configured lengths."""

    view: PolicyView
    text: str
    """The answer."""
    prompt: EncodedPrompt
    answer: tuple[int, ...]
    """Its tokens, the end token last."""


def fitting(
    examples: Iterable[SftExample], config: SftConfig, codec: TextCodec
) -> Iterator[FittingExample]:
    """Encode examples, and leave out those that are longer than configured."""
    for example in examples:
        view = example.policy_view()
        prompt = codec.encode_prompt(view)
        answer = codec.encode_answer(view, example.answer)
        fits = len(prompt.token_ids) <= config.max_prompt_tokens
        if fits and len(answer) <= config.max_answer_tokens:
            yield FittingExample(view, example.answer, prompt, answer)


def in_rounds(n: int, *, seed: int) -> Iterator[int]:
    """Go through n examples again and again, in another order each time."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(n, generator=generator).tolist()


class SftReport(NamedTuple):
    """Result of the warm start."""

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
        PolicyInputError: no example is within the configured lengths, or a model that is not tiny
            is to be trained at the learning rate of a tiny one, since none is set.
    """
    parameters = policy.model.num_parameters()
    if "learning_rate" not in config.model_fields_set and parameters > _TINY_PARAMETERS:
        raise PolicyInputError(
            f"learning_rate is not set, and its default, {config.learning_rate:g}, is for a "
            f"tiny policy: set one for a model of {parameters:,} parameters"
        )
    pairs = [
        (example.prompt, example.answer)
        for example in fitting(examples, config, policy.codec)
    ]
    if not pairs:
        raise PolicyInputError(
            f"none of {len(examples)} examples has a question of at most "
            f"{config.max_prompt_tokens} tokens and an answer of at most "
            f"{config.max_answer_tokens}; raise the limits or shorten the answers"
        )
    batches = _batches(policy, pairs, config, seed=seed)
    losses = (_loss(policy, batch) for batch in batches)
    loss = _train(policy, losses, config, on_step)
    return SftReport(len(pairs), len(examples) - len(pairs), loss)


def _loss(policy: Policy, batch: TokenBatch) -> tuple[Tensor, int]:
    """Return the mean loss of the answer tokens of a batch, and their number."""
    tokens = batch.n_response_tokens
    logprobs_BT = response_logprobs(policy.model, batch).logprobs_BT
    return -logprobs_BT.sum() / tokens, tokens


def _batches(
    policy: Policy,
    pairs: list[tuple[EncodedPrompt, tuple[int, ...]]],
    config: SftConfig,
    *,
    seed: int,
) -> Iterator[TokenBatch]:
    size = min(config.batch_size, len(pairs))
    order = in_rounds(len(pairs), seed=seed)
    for _ in range(config.steps):
        prompts, answers = zip(
            *(pairs[index] for index in islice(order, size)), strict=True
        )
        yield pack_responses(prompts, answers, device=policy.device)
