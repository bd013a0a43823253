"""Memory and seconds of a run on each GPU, worked out from sizes: nothing is loaded or measured."""

from typing import Any, NamedTuple

from rubric_core.files import toml_beside
from rubric_judge.config import JudgeConfig
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.policy.shape import ModelShape

GB = 1e9


class Gpu(NamedTuple):
    """A GPU, from its data sheet."""

    name: str
    memory: float
    """Memory, in bytes."""
    bandwidth: float
    """Memory bandwidth, in bytes a second."""
    flops: float
    """16-bit matrix operations a second, dense."""


# NVIDIA's data sheets of the SXM modules.
GPUS = (
    Gpu("H100 80 GB", 80 * GB, 3.35e12, 989e12),
    Gpu("H200 141 GB", 141 * GB, 4.8e12, 989e12),
)
# NVIDIA's white paper on the Ada architecture, appendix A; 16-bit products summed in 32 bits.
SMALL_GPU = Gpu("RTX 4090 24 GB", 24 * GB, 1.008e12, 165.2e12)


def planned_gpus(run_gpus: int) -> tuple[Gpu, ...]:
    """Return the GPUs that a plan is worked out for; a small one where the run has a single one."""
    return (SMALL_GPU, *GPUS) if run_gpus == 1 else GPUS


ASSUMPTIONS: dict[str, dict[str, Any]] = toml_beside(__file__, "assumptions.toml")
"""Every guess by its name: its value, what it means, and its source."""


def assumed(name: str) -> float:
    """Value of a guess."""
    return ASSUMPTIONS[name]["value"]


_OPTIMISER_SPLIT = 1
_GRADIENTS_SPLIT = 2
_WEIGHTS_SPLIT = 3
"""The stage of ZeRO from which each is split."""


class State(NamedTuple):
    """Memory of one training GPU that is held from step to step, in bytes."""

    weights: float
    gradients: float
    optimiser: float
    """Master weights and AdamW's two moments."""
    reference: float


class EngineRoom(NamedTuple):
    """Memory of one engine."""

    weights: float
    """Bytes on each of its GPUs."""
    cache: float
    """Bytes for keys and values on each of its GPUs; below 0, it cannot start."""
    sequences: int
    """Responses of mean length that it samples at once."""


def mean_response_tokens(config: TrainConfig) -> float:
    """Length of a response as the sizes assume it."""
    return assumed("response_frac") * config.rollout.max_new_tokens


def policy_state(config: TrainConfig, shape: ModelShape) -> State:
    """Bytes per GPU of the policy's and the reference's state.

    With N weights of b bytes on D GPUs, and each part divided by D from its ZeRO stage on:

        weights b·N (3), gradients 4·N or 2·N (2), optimiser 12·N, or 8·N where b = 4 (1)

    The reference is b·N, divided at stage 3 only: OpenRLHF splits it as it splits weights.

    See arXiv 1910.02054 (ZeRO), §3.
    """
    deepspeed = config.cluster.deepspeed
    gpus = config.cluster.policy_gpus
    count = shape.parameters
    number = _number_bytes(config)
    single = config.precision == "float32"

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
    """Return the memory of an engine's share of a GPU: weights, and keys and values in the rest."""
    engines = config.cluster.engines
    number = _number_bytes(config)
    weights = number * shape.parameters / engines.tensor_parallel
    cache = engines.memory_frac * gpu.memory - weights - assumed("engine_bytes")
    per_token = shape.kv_bytes_per_token(number_bytes=number) / engines.tensor_parallel
    tokens = assumed("prompt_tokens") + mean_response_tokens(config)
    held = int(max(0.0, cache) // (per_token * tokens))
    return EngineRoom(weights, cache, min(held, engines.max_sequences))


def memory(
    config: TrainConfig, shape: ModelShape, gpu: Gpu
) -> dict[str, dict[str, float]]:
    """Bytes on a GPU that trains in each phase of a step, by what they are for.

    `sampling` is empty where engines have their own GPUs. `scoring` takes log-probabilities without
    gradients. `training` is the largest pass with gradients, all responses at their longest.
    """
    cluster = config.cluster
    state = policy_state(config, shape)
    shares_gpus = cluster.colocation == "all"
    engine = cluster.engines.memory_frac * gpu.memory
    beside = assumed("asleep_bytes") if cluster.engines_sleep else engine
    overhead = {"overhead": assumed("overhead_bytes")}
    others = {"engine": beside if shares_gpus else 0.0, **overhead}
    resting = {
        "weights": state.weights,
        "reference": state.reference,
        "rest of the policy": 0.0
        if cluster.policy_sleeps
        else state.gradients + state.optimiser,
    }
    trained = config.optim.micro_batch * cluster.max_len
    scored = cluster.deepspeed.forward_micro_batch * cluster.max_len * shape.vocabulary
    return {
        "sampling": {"engine": engine, **resting, **overhead} if shares_gpus else {},
        "scoring": {
            **resting,
            "logits": scored * assumed("forward_logit_bytes"),
            **others,
        },
        "training": {
            **state._asdict(),
            "activations": trained * _activation_bytes_per_token(config, shape),
            "logits": trained * shape.vocabulary * assumed("logit_bytes"),
            **others,
        },
    }


def host_memory(config: TrainConfig, shape: ModelShape) -> float:
    """Bytes of each machine's own memory for what is moved off its GPUs."""
    cluster = config.cluster
    state = policy_state(config, shape)
    number = _number_bytes(config)
    per_gpu = state.gradients + state.optimiser if cluster.policy_sleeps else 0.0
    if cluster.deepspeed.offload_optimizer:
        per_gpu += 12 * shape.parameters / cluster.policy_gpus
    if cluster.deepspeed.offload_reference:
        per_gpu += number * shape.parameters / cluster.policy_gpus
    asleep = (
        number * shape.parameters * cluster.engine_count
        if cluster.engines_sleep
        else 0.0
    )
    return (per_gpu * cluster.policy_gpus + asleep) / cluster.nodes


def checkpoint_bytes(config: TrainConfig, shape: ModelShape) -> int:
    """Bytes on disk of one checkpoint in Hugging Face format, 16-bit numbers unless it is said."""
    dtype = (
        shape.dtype if config.checkpoint.dtype == "auto" else config.checkpoint.dtype
    )
    return (4 if dtype == "float32" else 2) * shape.parameters


def trainer_state_bytes(shape: ModelShape) -> int:
    """Bytes on disk of one state of DeepSpeed: weights, master weights and two moments."""
    return 14 * shape.parameters


def _number_bytes(config: TrainConfig) -> int:
    return 4 if config.precision == "float32" else 2


def _activation_bytes_per_token(config: TrainConfig, shape: ModelShape) -> float:
    number = _number_bytes(config) // 2
    layer = (
        number * assumed("layer_bytes") * (8 * shape.hidden + 4 * shape.intermediate)
    )
    if not config.optim.gradient_checkpointing:
        return shape.layers * layer
    # One input is kept per layer, and one layer at a time is computed again.
    return number * 2 * shape.layers * shape.hidden + layer


class JudgeLoad(NamedTuple):
    """Load of a step on the judge's servers."""

    calls: int
    """Calls of a step: one for each response, or for each part of its rubric."""
    calls_per_server: float
    """Calls under way at once."""
    read_tokens: float
    """Prompt tokens that are computed: what a group shares, once."""
    sent_tokens: float
    """Prompt tokens that are sent."""
    written_tokens: float
    seconds: float
    """For all calls of a step, if they came at once."""


class StepTime(NamedTuple):
    """Seconds of one step."""

    sampling: float
    judging: float | None
    """Beside the sampling; None for a judge that is no server of yours."""
    scoring: float
    """Log-probabilities of the policy and the reference."""
    updates: float
    sync: float
    """New weights to the engines."""

    @property
    def total(self) -> float:
        """Judging hides behind sampling, or sampling behind judging."""
        slower = max(self.sampling, self.judging or 0.0)
        return slower + self.scoring + self.updates + self.sync


def step_time(config: TrainConfig, shape: ModelShape, gpu: Gpu) -> StepTime:
    """Estimate a step without a held-out pass and without a checkpoint."""
    gpus = config.cluster.policy_gpus
    count = shape.parameters
    tokens = config.batch_size * (
        assumed("prompt_tokens") + mean_response_tokens(config)
    )
    tokens *= 1.0 if config.cluster.deepspeed.packing else assumed("padding")
    # Forward 2·N a token and backward twice that; checkpointing goes forward a second time.
    per_token = 8 if config.optim.gradient_checkpointing else 6
    models = 2 if config.objective.kl_coef > 0 else 1
    load = judge_load(config, gpu)
    return StepTime(
        sampling=sampling_s(config, shape, gpu, responses=config.batch_size),
        judging=None if load is None else load.seconds,
        scoring=2
        * models
        * count
        * tokens
        / (gpus * gpu.flops * assumed("forward_mfu")),
        updates=per_token * count * tokens / (gpus * gpu.flops * assumed("train_mfu")),
        sync=2 * count / assumed("sync_bytes_per_s"),
    )


def sampling_s(
    config: TrainConfig, shape: ModelShape, gpu: Gpu, *, responses: int
) -> float:
    """Seconds in which all engines sample so many responses, such as those of a held-out pass."""
    rate = decode_tokens_per_s(config, shape, gpu, responses=responses)
    if not rate:
        return float("inf")
    tokens = responses * mean_response_tokens(config)
    return assumed("straggler") * tokens / (rate * config.cluster.engine_count)


def decode_tokens_per_s(
    config: TrainConfig, shape: ModelShape, gpu: Gpu, *, responses: int | None = None
) -> float:
    """Tokens that one engine samples in a second, bound by bandwidth or by arithmetic.

    Each step reads all weights, and the keys and values of each response so far.

    Args:
        config: of the run.
        shape: of the model.
        gpu: that the engines are on.
        responses: asked of all engines at once; by default those of a step.
    """
    room = engine_room(config, shape, gpu)
    degree = config.cluster.engines.tensor_parallel
    asked = config.batch_size if responses is None else responses
    sequences = min(room.sequences, asked / config.cluster.engine_count)
    if sequences == 0:
        return 0.0
    context = assumed("prompt_tokens") + mean_response_tokens(config) / 2
    cached = sequences * context * shape.kv_bytes_per_token() / degree
    reading = (room.weights + cached) / (gpu.bandwidth * assumed("decode_bandwidth"))
    computing = (
        2 * shape.parameters * sequences / (degree * gpu.flops * assumed("prefill_mfu"))
    )
    return sequences / max(reading, computing)


def judge_calls(config: TrainConfig) -> int:
    """Count the calls of a step's judging: one a response, or one for each part of its rubric."""
    judge = config.judge.language_model
    each = 1 if judge is None else judge.calls(int(assumed("judge_criteria")))
    return config.batch_size * each


def judge_load(config: TrainConfig, gpu: Gpu) -> JudgeLoad | None:
    """Estimate a step's judging by servers of gpt-oss-20b on GPUs of this kind.

    Returns:
        None for a judge that is a program or a provider's.
    """
    judge = config.judge.language_model
    if judge is None or judge.api_base is None:
        return None
    servers = len(judge.addresses)
    group = config.rollout.group_size
    calls = judge_calls(config)
    each = calls // config.batch_size
    passage = judge.passage_chars / assumed("chars_per_token")
    shared = passage + assumed("judge_shared_tokens")
    own = mean_response_tokens(config)
    sent = config.batch_size * (shared + own)
    if each > 1:  # each call reads passage and response, and its part of the rubric
        sent += config.batch_size * (each - 1) * (passage + own)
    if judge.prompt == "paper" or judge.criteria_per_call is not None:
        # The response stands before the criteria.
        shared = passage
        own = own + assumed("judge_shared_tokens")
    read = config.rollout.prompts * (shared + group * own)
    written = _judge_writes(judge, calls=each)
    at_once = (
        min(config.judge.workers * config.judge.micro_batch, config.batch_size)
        * each
        / servers
    )
    cached = at_once * (shared + own + written / 2) * assumed("judge_kv_bytes")
    reading = (assumed("judge_bytes") + cached) / (
        gpu.bandwidth * assumed("decode_bandwidth")
    )
    computing = (
        2 * assumed("judge_active") * at_once / (gpu.flops * assumed("judge_mfu"))
    )
    decode = calls * written / servers * max(reading, computing) / at_once
    prefill = (
        2
        * assumed("judge_active")
        * read
        / (servers * gpu.flops * assumed("judge_mfu"))
    )
    return JudgeLoad(
        calls=calls,
        calls_per_server=at_once,
        read_tokens=read,
        sent_tokens=sent,
        written_tokens=calls * written,
        seconds=prefill + decode,
    )


def _judge_writes(judge: JudgeConfig, *, calls: int) -> float:
    """Return the tokens that one of a judgement's calls writes; the model thinks in each anew."""
    thought = assumed("judge_thought_tokens")
    written = thought + (assumed("judge_output_tokens") - thought) / calls
    return written if judge.max_tokens is None else min(written, judge.max_tokens)
