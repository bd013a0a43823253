"""The policy: text to tokens, sampling in groups, log-probabilities, and how one comes to be.

| idea | module |
| --- | --- |
| text to tokens and back | `codec` |
| prompts with banned tokens, and what is sampled | `rollouts`, `batches` |
| the next-token distribution | `distribution` |
| drawing G responses per prompt | `sampling`, `decoding`, `llama_decoding` |
| log-probabilities with gradients | `logprobs` |
| a policy from a folder, or from nothing | `load` |
| its warm start | `supervised` |
| one answer a question, for evaluation | `answering` |

Everything random takes a `torch.Generator` or a seed; torch's global random state is not touched.
"""

from __future__ import annotations

from rubric_train_openrlhf.policy.batches import TokenBatch, pack_responses, pack_rollouts
from rubric_train_openrlhf.policy.codec import ChatCodec, SlotCodec, TextCodec, slot_names
from rubric_train_openrlhf.policy.load import (
    Policy,
    build_tiny_llama,
    build_tiny_policy,
    build_tokenizer,
    load_codec,
    load_policy,
)
from rubric_train_openrlhf.policy.logprobs import ResponseLogprobs, response_logprobs
from rubric_train_openrlhf.policy.rollouts import EncodedPrompt, Rollouts, concatenate
from rubric_train_openrlhf.policy.sampling import sample_groups
from rubric_train_openrlhf.policy.supervised import SftReport, SupervisedStep, pretrain, sft
from rubric_train_openrlhf.policy_config import PretrainConfig, SftConfig, TinyConfig

__all__ = [
    "ChatCodec",
    "EncodedPrompt",
    "Policy",
    "PretrainConfig",
    "ResponseLogprobs",
    "Rollouts",
    "SftConfig",
    "SftReport",
    "SlotCodec",
    "SupervisedStep",
    "TextCodec",
    "TinyConfig",
    "TokenBatch",
    "build_tiny_llama",
    "build_tiny_policy",
    "build_tokenizer",
    "concatenate",
    "load_codec",
    "load_policy",
    "pack_responses",
    "pack_rollouts",
    "pretrain",
    "response_logprobs",
    "sample_groups",
    "sft",
    "slot_names",
]
