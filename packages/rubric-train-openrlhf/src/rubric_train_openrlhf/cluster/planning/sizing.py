"""Memory of a run on each GPU, worked out from sizes alone: nothing is loaded or measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rubric_train_openrlhf.cluster.planning.assumptions import (
    ASLEEP_BYTES,
    ENGINE_BYTES,
    FORWARD_LOGIT_BYTES,
    LAYER_BYTES,
    LOGIT_BYTES,
    OVERHEAD_BYTES,
    PROMPT_TOKENS,
    RESPONSE_FRAC,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rubric_train_openrlhf.cluster.planning.assumptions import Gpu
    from rubric_train_openrlhf.cluster.planning.shapes import ModelShape
    from rubric_train_openrlhf.config import TrainConfig

_WEIGHTS_SPLIT = 3
_GRADIENTS_SPLIT = 2
_OPTIMISER_SPLIT = 1


class State(NamedTuple):
    """What one GPU that trains holds from step to step, in bytes."""

    weights: float
    gradients: float
    optimiser: float
    """Master weights and AdamW's two moments."""
    reference: float


class EngineRoom(NamedTuple):
    """What one engine holds."""

    weights: float
    """Bytes on each of its GPUs."""
    cache: float
    """Bytes for keys and values on each of its GPUs; below 0, it cannot start."""
    sequences: int
    """Responses of mean length that it samples at once."""


def mean_response_tokens(config: TrainConfig) -> float:
    """Length of a response as the sizes assume it."""
    return RESPONSE_FRAC.value * config.rollout.max_new_tokens


def policy_state(config: TrainConfig, shape: ModelShape) -> State:
    """Bytes per GPU of the policy's and the reference's state.

    With N weights of b bytes on D GPUs, and each part divided by D from its ZeRO stage on:

        weights b·N (3), gradients 4·N or 2·N (2), optimiser 12·N, or 8·N where b = 4 (1)

    The reference is b·N, divided at stage 3 only: OpenRLHF splits it as it splits weights.

    See arXiv 1910.02054 (ZeRO), §3.
    """
    deepspeed, gpus = config.cluster.deepspeed, config.cluster.policy_gpus
    single = config.precision == "float32"
    count, number = shape.parameters, 4 if single else 2

    def share(size: float, *, stage: int) -> float:
        return size / gpus if deepspeed.zero_stage >= stage else size

    summed = 4 if single or deepspeed.grad_accumulation == "float32" else 2
    if deepspeed.zero_stage < _GRADIENTS_SPLIT and summed != number:
        summed += number  # both formats are whole on each GPU
    absent = config.objective.kl_coef == 0 or deepspeed.offload_reference
    return State(
        weights=share(number * count, stage=_WEIGHTS_SPLIT),
        gradients=share(summed * count, stage=_GRADIENTS_SPLIT),
        optimiser=0.0
        if deepspeed.offload_optimizer
        else share((8 if single else 12) * count, stage=_OPTIMISER_SPLIT),
        reference=0.0 if absent else share(number * count, stage=_WEIGHTS_SPLIT),
    )


def engine_room(config: TrainConfig, shape: ModelShape, gpu: Gpu) -> EngineRoom:
    """What an engine's share of a GPU holds: weights, and keys and values with the rest."""
    engines, number = config.cluster.engines, 4 if config.precision == "float32" else 2
    weights = number * shape.parameters / engines.tensor_parallel
    cache = engines.memory_frac * gpu.memory - weights - ENGINE_BYTES.value
    per_token = shape.kv_bytes_per_token(number_bytes=number) / engines.tensor_parallel
    tokens = PROMPT_TOKENS.value + mean_response_tokens(config)
    held = int(max(0.0, cache) // (per_token * tokens))
    return EngineRoom(weights, cache, min(held, engines.max_sequences))


def memory_while_sampling(
    config: TrainConfig, shape: ModelShape, gpu: Gpu
) -> dict[str, float] | None:
    """Bytes on a GPU that trains while engines sample; None where these have their own GPUs."""
    if config.cluster.colocation != "all":
        return None
    state = policy_state(config, shape)
    moved = 0.0 if config.cluster.policy_sleeps else state.gradients + state.optimiser
    return {
        "engine": config.cluster.engines.memory_frac * gpu.memory,
        "weights": state.weights,
        "reference": state.reference,
        "rest of the policy": moved,
        "overhead": OVERHEAD_BYTES.value,
    }


def memory_while_training(config: TrainConfig, shape: ModelShape, gpu: Gpu) -> dict[str, float]:
    """Bytes on a GPU at the largest pass with gradients, all responses at their longest."""
    state = policy_state(config, shape)
    tokens = config.optim.micro_batch * config.cluster.max_len
    return {
        "weights": state.weights,
        "gradients": state.gradients,
        "optimiser": state.optimiser,
        "reference": state.reference,
        "activations": tokens * _activation_bytes_per_token(config, shape),
        "logits": tokens * shape.vocabulary * LOGIT_BYTES.value,
        "engine": _engine_beside(config, gpu),
        "overhead": OVERHEAD_BYTES.value,
    }


def memory_while_scoring(config: TrainConfig, shape: ModelShape, gpu: Gpu) -> dict[str, float]:
    """Bytes on a GPU while log-probabilities are taken without gradients."""
    state = policy_state(config, shape)
    tokens = config.cluster.deepspeed.forward_micro_batch * config.cluster.max_len
    moved = 0.0 if config.cluster.policy_sleeps else state.gradients + state.optimiser
    return {
        "weights": state.weights,
        "reference": state.reference,
        "rest of the policy": moved,
        "logits": tokens * shape.vocabulary * FORWARD_LOGIT_BYTES.value,
        "engine": _engine_beside(config, gpu),
        "overhead": OVERHEAD_BYTES.value,
    }


def host_memory(config: TrainConfig, shape: ModelShape) -> float:
    """Bytes of each machine's own memory for what is moved off its GPUs."""
    cluster, state = config.cluster, policy_state(config, shape)
    number = 4 if config.precision == "float32" else 2
    per_gpu = state.gradients + state.optimiser if cluster.policy_sleeps else 0.0
    if cluster.deepspeed.offload_optimizer:
        per_gpu += 12 * shape.parameters / cluster.policy_gpus
    if cluster.deepspeed.offload_reference:
        per_gpu += number * shape.parameters / cluster.policy_gpus
    asleep = number * shape.parameters * cluster.engine_count if cluster.engines_sleep else 0.0
    return (per_gpu * cluster.policy_gpus + asleep) / cluster.nodes


def checkpoint_bytes(config: TrainConfig, shape: ModelShape) -> int:
    """Bytes on disk of one checkpoint in Hugging Face format."""
    return (4 if config.precision == "float32" else 2) * shape.parameters


def trainer_state_bytes(shape: ModelShape) -> int:
    """Bytes on disk of one state of DeepSpeed: weights, master weights and two moments."""
    return 14 * shape.parameters


def total(parts: Mapping[str, float]) -> float:
    """Sum of the parts, in bytes."""
    return sum(parts.values())


def _engine_beside(config: TrainConfig, gpu: Gpu) -> float:
    cluster = config.cluster
    if cluster.colocation != "all":
        return 0.0
    awake = cluster.engines.memory_frac * gpu.memory
    return ASLEEP_BYTES.value if cluster.engines_sleep else awake


def _activation_bytes_per_token(config: TrainConfig, shape: ModelShape) -> float:
    number = 2 if config.precision == "float32" else 1
    layer = number * LAYER_BYTES.value * (8 * shape.hidden + 4 * shape.intermediate)
    if not config.optim.gradient_checkpointing:
        return shape.layers * layer
    # One input is kept per layer, and one layer at a time is computed again.
    return number * 2 * shape.layers * shape.hidden + layer
