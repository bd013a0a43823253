"""Every number that a size or a time is guessed with, and where it is from.

`plan` prints them beside what follows from them. None was measured by us: replace them by the
figures of your own run, which metrics.jsonl holds after a step.
"""

from __future__ import annotations

from typing import NamedTuple

GB = 1e9


class Gpu(NamedTuple):
    """What a data sheet says."""

    name: str
    memory: float
    """Bytes."""
    bandwidth: float
    """Bytes a second."""
    flops: float
    """16-bit matrix operations a second, dense."""


# NVIDIA's data sheets of the SXM modules.
GPUS = (
    Gpu("H100 80 GB", 80 * GB, 3.35e12, 989e12),
    Gpu("H200 141 GB", 141 * GB, 4.8e12, 989e12),
)


class Assumption(NamedTuple):
    """A guess with its reason."""

    value: float
    meaning: str
    source: str


PROMPT_TOKENS = Assumption(256, "tokens of a question with its chat template", "short questions")
RESPONSE_FRAC = Assumption(
    0.4, "mean response, as a share of rollout.max_new_tokens", "room for the long ones"
)
TRAIN_MFU = Assumption(
    0.35,
    "share of peak speed in training",
    "Llama 3 reports 0.38 to 0.43 (arXiv 2407.21783, table 4); short padded batches reach less",
)
FORWARD_MFU = Assumption(0.4, "share of peak speed without gradients", "as training, no optimiser")
DECODE_BANDWIDTH = Assumption(
    0.6,
    "share of peak bandwidth while sampling",
    "vLLM and TensorRT-LLM reach 0.5 to 0.7 at large batches",
)
PREFILL_MFU = Assumption(0.4, "share of peak speed while a prompt is read", "as without gradients")
PADDING = Assumption(
    1.4, "tokens of a pass, padding included, without cluster.deepspeed.packing", "mixed lengths"
)
STRAGGLER = Assumption(
    1.5, "sampling ends with the longest responses alone: factor on its time", "half-empty batches"
)
LOGIT_BYTES = Assumption(
    10,
    "bytes per logit of a pass with gradients",
    "OpenRLHF's actor: float32 logits 4, their gradient 4, and its 16-bit copy 2",
)
FORWARD_LOGIT_BYTES = Assumption(
    6, "bytes per logit of a pass without gradients", "16 bits and float32 side by side"
)
LAYER_BYTES = Assumption(
    2,
    "bytes per number that a layer keeps for its gradient; 8·hidden + 4·intermediate numbers",
    "arXiv 2205.05198, with flash attention and gated feed-forward layers",
)
OVERHEAD_BYTES = Assumption(
    5 * GB, "CUDA contexts, NCCL, DeepSpeed's buckets and unused fragments", "several processes"
)
ASLEEP_BYTES = Assumption(2 * GB, "what a sleeping engine keeps", "context and CUDA graphs")
ENGINE_BYTES = Assumption(3 * GB, "an engine's activations and CUDA graphs", "vLLM's profile")
SYNC_BYTES_PER_S = Assumption(2e10, "weights to engines, bytes a second", "one tensor at a time")

JUDGE_ACTIVE = Assumption(
    3.61e9, "weights of gpt-oss-20b that work on a token", "arXiv 2508.10925, table 1"
)
JUDGE_BYTES = Assumption(
    12.8 * 2**30, "weights of gpt-oss-20b in MXFP4, bytes", "arXiv 2508.10925, table 1"
)
JUDGE_KV_BYTES = Assumption(
    2 * 12 * 8 * 64 * 2,
    "its cache for one token, bytes: every other of 24 layers looks at 128 tokens only",
    "config.json: 8 key-value heads of 64",
)
CHARS_PER_TOKEN = Assumption(4, "characters of a passage per token", "English prose")
JUDGE_SHARED_TOKENS = Assumption(
    1500, "tokens of instructions, question and rubric", "5 to 10 criteria of 100 to 150 tokens"
)
JUDGE_OUTPUT_TOKENS = Assumption(
    1000, "tokens of a judgement", "about 400 of low-effort reasoning, 60 to 80 a criterion"
)
JUDGE_MFU = Assumption(
    0.2, "share of peak speed of a mixture of experts while it reads", "small experts"
)


def all_assumptions() -> tuple[Assumption, ...]:
    """Every guess, in the order of this file."""
    return tuple(value for value in globals().values() if isinstance(value, Assumption))
