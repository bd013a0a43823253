import os
import subprocess
import sys

import pytest
import torch
from pydantic import ValidationError

from rubric_train_openrlhf.policy import (
    TinyConfig,
    build_tiny_llama,
    build_tiny_policy,
    build_tokenizer,
)

TEXTS = [
    "the array and the axis and the array",
    "an axis of the array",
    "`f` — naïve ≠ simple",
]


def test_the_default_has_a_million_parameters() -> None:
    model = build_tiny_llama(TinyConfig(), seed=0)
    assert sum(parameter.numel() for parameter in model.parameters()) == 1_163_392


def test_the_seed_alone_decides_the_weights(tiny_config: TinyConfig) -> None:
    state = torch.get_rng_state()
    first = build_tiny_llama(tiny_config, seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    same, other = (
        build_tiny_llama(tiny_config, seed=3),
        build_tiny_llama(tiny_config, seed=4),
    )
    for name, parameter in first.named_parameters():
        assert torch.equal(parameter, same.get_parameter(name))
    assert not torch.equal(first.lm_head.weight, other.lm_head.weight)
    assert first.lm_head.weight is first.model.embed_tokens.weight


def test_the_tokenizer_encodes_any_text_without_loss() -> None:
    tokenizer = build_tokenizer(TEXTS, 300)
    assert 266 < len(tokenizer) <= 300
    for text in (*TEXTS, "日本語 \t\n  x", "<F>"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.slow
def test_the_same_texts_give_the_same_tokenizer_in_every_process() -> None:
    script = (
        "from rubric_train_openrlhf.policy import build_tokenizer;"
        f"print(sorted(build_tokenizer({TEXTS!r}, 290).get_vocab().items()))"
    )
    here = str(sorted(build_tokenizer(TEXTS, 290).get_vocab().items()))
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"  # noqa: TID251  # of this process
    there = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, check=True, text=True, env={"PYTHONHASHSEED": seed, "PYTHONUTF8": "1"},
    )  # fmt: skip
    assert there.stdout.strip() == here


def test_the_model_is_as_wide_as_its_vocabulary(tiny_config: TinyConfig) -> None:
    policy = build_tiny_policy(TEXTS, tiny_config, seed=0)
    assert policy.model.config.vocab_size < tiny_config.vocab_size
    assert policy.device == torch.device("cpu")
    assert not policy.model.training


@pytest.mark.parametrize(
    "fields",
    [{"heads": 3}, {"heads": 4, "kv_heads": 3}, {"vocab_size": 10}, {"width": 1}],
)
def test_impossible_shapes_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        TinyConfig(**fields)
