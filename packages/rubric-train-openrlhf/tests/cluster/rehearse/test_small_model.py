from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from transformers import AutoConfig, LlamaConfig

from rubric_core import PolicyView
from rubric_train_openrlhf.cluster.rehearse.stand_ins import (
    made_tasks,
    shrink_model,
    stand_in_model,
)
from rubric_train_openrlhf.policy import ChatCodec, load_policy

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = [task.question for task in made_tasks()]
VIEW = PolicyView(task_id="t", question="How does it work?")


@pytest.mark.parametrize(
    ("name", "kind", "opening"),
    [
        (
            "Llama-3.1-8B-Instruct",
            "LlamaForCausalLM",
            "<|begin_of_text|><|start_header_id|>user",
        ),
        ("Qwen3-8B", "Qwen3ForCausalLM", "<|im_start|>user\n"),
        ("Qwen2.5-7B-Instruct", "Qwen2ForCausalLM", "<|im_start|>user\n"),
        ("Mistral-7B-Instruct-v0.3", "MistralForCausalLM", "<s>[INST] How"),
        ("something-else", "LlamaForCausalLM", "<|begin_of_text|>"),
    ],
)
def test_a_stand_in_keeps_its_family(
    tmp_path: Path, name: str, kind: str, opening: str
) -> None:
    assert kind in stand_in_model(name, tmp_path, texts=TEXTS, seed=0)
    policy = load_policy(tmp_path)
    assert isinstance(policy.codec, ChatCodec)
    assert policy.codec.prompt_text(VIEW).startswith(opening)
    eos = policy.codec.encode_answer(VIEW, "yes")[-1]
    assert policy.codec.decode(VIEW, [eos]) == ""
    assert policy.model.num_parameters() < 1_000_000


@pytest.mark.parametrize(
    ("heads", "kv_heads", "small"),
    [(9, 3, (3, 1, 96)), (32, 8, (4, 1, 128)), (8, 8, (2, 2, 64))],
)
def test_a_small_copy_keeps_the_proportion_of_heads(
    tmp_path: Path, heads: int, kv_heads: int, small: tuple[int, int, int]
) -> None:
    LlamaConfig(
        hidden_size=64 * heads,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=64,
        vocab_size=400,
    ).save_pretrained(tmp_path / "of")
    shrink_model(tmp_path / "of", tmp_path / "a", seed=0)
    found = AutoConfig.from_pretrained(tmp_path / "a")
    assert (
        found.num_attention_heads,
        found.num_key_value_heads,
        found.hidden_size,
    ) == small


def test_a_small_copy_has_the_class_and_the_tokenizer(
    tmp_path: Path, model_folder: Path
) -> None:
    assert "LlamaForCausalLM" in shrink_model(model_folder, tmp_path / "a", seed=0)
    shrink_model(model_folder, tmp_path / "b", seed=0)
    original, first, second = (
        load_policy(path) for path in (model_folder, tmp_path / "a", tmp_path / "b")
    )
    assert first.codec.encode_prompt(VIEW) == original.codec.encode_prompt(VIEW)
    for one, other in zip(
        first.model.parameters(), second.model.parameters(), strict=True
    ):
        assert torch.equal(one, other)
