from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from rubric_core import PolicyView
from rubric_train_openrlhf.policy import (
    EncodedPrompt,
    Policy,
    TinyConfig,
    build_tiny_policy,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedModel

VOCAB = 90
EOS, PAD = 2, 0
TEXTS = (
    "Explain `convolve` from scipy.signal with `mode`, `method`: what it does.",
    "Return the discrete convolution of two arrays. The mode says what is kept at the edges.",
    "Note that the direct method is slow for long arrays, and the result is exact.",
)


def _shape(**extra: object) -> dict[str, object]:
    return {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "max_position_embeddings": 128,
        "tie_word_embeddings": False,
        "pad_token_id": PAD,
        "bos_token_id": 1,
        "eos_token_id": EOS,
        **extra,
    }


def _llama(**extra: object) -> PreTrainedModel:
    return LlamaForCausalLM(LlamaConfig(**_shape(**extra)))


def _gpt2() -> PreTrainedModel:
    config = GPT2Config(
        vocab_size=VOCAB, n_positions=128, n_embd=32, n_layer=2, n_head=4,
        pad_token_id=PAD, bos_token_id=1, eos_token_id=EOS,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


_ROPE = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0,
         "high_freq_factor": 4.0, "original_max_position_embeddings": 32}  # fmt: skip
MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "llama": _llama,
    "llama-grouped": lambda: _llama(
        num_key_value_heads=2, head_dim=16, attention_bias=True
    ),
    "llama-scaled-rope": lambda: _llama(rope_parameters=_ROPE, num_key_value_heads=1),
    "gpt2": _gpt2,
    "qwen3": lambda: Qwen3ForCausalLM(
        Qwen3Config(**_shape(num_key_value_heads=2, head_dim=8))
    ),
    "gemma2": lambda: Gemma2ForCausalLM(
        Gemma2Config(
            **_shape(head_dim=8, sliding_window=8, final_logit_softcapping=2.0)
        )
    ),
}


@pytest.fixture(params=list(MODELS))
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    """One random model per architecture, with logits spread wide enough to be told apart."""
    torch.manual_seed(7)
    built = MODELS[request.param]().eval()
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6.0)
    return built


@pytest.fixture
def prompts() -> list[EncodedPrompt]:
    """Prompts of different lengths, one of them with banned tokens."""
    generator = torch.Generator().manual_seed(3)
    drawn = [
        tuple(torch.randint(3, VOCAB, (length,), generator=generator).tolist())
        for length in (5, 17, 1, 11)
    ]
    banned = [(), (PAD, 1, *range(40, 80)), (), (7,)]
    return [EncodedPrompt(*pair) for pair in zip(drawn, banned, strict=True)]


@pytest.fixture(scope="session")
def tiny_config() -> TinyConfig:
    return TinyConfig(
        vocab_size=400, hidden_size=32, intermediate_size=64, layers=2, heads=2, kv_heads=2,
        max_positions=128,
    )  # fmt: skip


@pytest.fixture
def tiny_policy(tiny_config: TinyConfig) -> Policy:
    return build_tiny_policy(TEXTS, tiny_config, seed=0)


@pytest.fixture
def view() -> PolicyView:
    return PolicyView(task_id="t1", question=TEXTS[0])


_SHAPE: dict[str, Any] = {
    **_shape(vocab_size=96, num_hidden_layers=4, num_key_value_heads=2),
    "max_position_embeddings": 256,
}
KINDS: dict[str, dict[str, dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("architectures.toml").read_text(encoding="utf-8")
)


@pytest.fixture(scope="session")
def build() -> Callable[..., PreTrainedModel]:
    """Make a tiny model of a kind, whose logits differ well from token to token."""

    def make(kind: str, group: str = "", **extra: Any) -> PreTrainedModel:
        configs: Any = AutoConfig
        given = {**KINDS.get(group, {}).get(kind, {}), **extra}
        if (rope := given.pop("rope", None)) is not None:
            is_new = hasattr(configs.for_model("llama"), "rope_parameters")
            given["rope_parameters" if is_new else "rope_scaling"] = rope
        torch.manual_seed(0)
        model: Any = AutoModelForCausalLM.from_config(
            configs.for_model(kind, **{**_SHAPE, **given})
        )
        with torch.no_grad():
            for one in model.parameters():
                if one.dim() > 1:
                    one.normal_(0, 0.3 if one.shape[-1] <= 64 else 0.1)
        return model.float().eval()

    return make
