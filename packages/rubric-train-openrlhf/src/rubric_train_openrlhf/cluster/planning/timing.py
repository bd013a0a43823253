"""Seconds of a step, from data sheets and assumed shares of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rubric_judge.config import HybridConfig, JudgeConfig
from rubric_train_openrlhf.cluster.planning.assumptions import (
    CHARS_PER_TOKEN,
    DECODE_BANDWIDTH,
    FORWARD_MFU,
    JUDGE_ACTIVE,
    JUDGE_BYTES,
    JUDGE_KV_BYTES,
    JUDGE_MFU,
    JUDGE_OUTPUT_TOKENS,
    JUDGE_SHARED_TOKENS,
    PADDING,
    PREFILL_MFU,
    PROMPT_TOKENS,
    STRAGGLER,
    SYNC_BYTES_PER_S,
    TRAIN_MFU,
)
from rubric_train_openrlhf.cluster.planning.sizing import engine_room, mean_response_tokens

if TYPE_CHECKING:
    from rubric_judge import JudgeSpec
    from rubric_train_openrlhf.cluster.planning.assumptions import Gpu
    from rubric_train_openrlhf.cluster.planning.shapes import ModelShape
    from rubric_train_openrlhf.config import TrainConfig


class JudgeLoad(NamedTuple):
    """What a step asks of servers of the judge."""

    calls: int
    servers: int
    calls_per_server: float
    """Under way at once."""
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
    gpus, count = config.cluster.policy_gpus, shape.parameters
    tokens = config.batch_size * (PROMPT_TOKENS.value + mean_response_tokens(config))
    tokens *= 1.0 if config.cluster.deepspeed.packing else PADDING.value
    # Forward 2·N a token and backward twice that; checkpointing goes forward a second time.
    per_token = 8 if config.optim.gradient_checkpointing else 6
    models = 2 if config.objective.kl_coef > 0 else 1
    load = judge_load(config, gpu)
    return StepTime(
        sampling=_sampling_seconds(config, shape, gpu),
        judging=None if load is None else load.seconds,
        scoring=2 * models * count * tokens / (gpus * gpu.flops * FORWARD_MFU.value),
        updates=per_token * count * tokens / (gpus * gpu.flops * TRAIN_MFU.value),
        sync=2 * count / SYNC_BYTES_PER_S.value,
    )


def decode_tokens_per_s(config: TrainConfig, shape: ModelShape, gpu: Gpu) -> float:
    """Tokens that one engine samples in a second, bound by bandwidth or by arithmetic.

    Each step reads all weights, and the keys and values of each response so far.
    """
    room, degree = engine_room(config, shape, gpu), config.cluster.engines.tensor_parallel
    sequences = min(room.sequences, config.batch_size / config.cluster.engine_count)
    if sequences == 0:
        return 0.0
    context = PROMPT_TOKENS.value + mean_response_tokens(config) / 2
    cached = sequences * context * shape.kv_bytes_per_token() / degree
    reading = (room.weights + cached) / (gpu.bandwidth * DECODE_BANDWIDTH.value)
    computing = 2 * shape.parameters * sequences / (degree * gpu.flops * PREFILL_MFU.value)
    return sequences / max(reading, computing)


def judge_load(config: TrainConfig, gpu: Gpu) -> JudgeLoad | None:
    """Estimate a step's judging by servers of gpt-oss-20b on GPUs of this kind.

    Returns:
        None for a judge that is a program or a provider's.
    """
    judge = own_servers(config.judge.spec)
    if judge is None:
        return None
    servers, group = len(judge.addresses), config.rollout.group_size
    passage = judge.passage_chars / CHARS_PER_TOKEN.value
    shared, own = passage + JUDGE_SHARED_TOKENS.value, mean_response_tokens(config)
    sent = config.batch_size * (shared + own)
    if judge.prompt == "paper":  # the response stands before the criteria
        shared, own = passage, own + JUDGE_SHARED_TOKENS.value
    read = config.rollout.prompts * (shared + group * own)
    written = min(JUDGE_OUTPUT_TOKENS.value, judge.max_tokens)
    at_once = min(config.judge.workers * config.judge.micro_batch, config.batch_size) / servers
    cached = at_once * (shared + own + written / 2) * JUDGE_KV_BYTES.value
    reading = (JUDGE_BYTES.value + cached) / (gpu.bandwidth * DECODE_BANDWIDTH.value)
    computing = 2 * JUDGE_ACTIVE.value * at_once / (gpu.flops * JUDGE_MFU.value)
    decode = config.batch_size * written / servers * max(reading, computing) / at_once
    prefill = 2 * JUDGE_ACTIVE.value * read / (servers * gpu.flops * JUDGE_MFU.value)
    return JudgeLoad(
        calls=config.batch_size,
        servers=servers,
        calls_per_server=at_once,
        read_tokens=read,
        sent_tokens=sent,
        written_tokens=config.batch_size * written,
        seconds=prefill + decode,
    )


def own_servers(spec: JudgeSpec) -> JudgeConfig | None:
    """The language model of a judge, if it runs on servers of yours."""
    judge = spec.judge if isinstance(spec, HybridConfig) else spec
    return judge if isinstance(judge, JudgeConfig) and judge.api_base is not None else None


def _sampling_seconds(config: TrainConfig, shape: ModelShape, gpu: Gpu) -> float:
    rate = decode_tokens_per_s(config, shape, gpu) * config.cluster.engine_count
    if rate == 0:
        return float("inf")
    return STRAGGLER.value * config.batch_size * mean_response_tokens(config) / rate
