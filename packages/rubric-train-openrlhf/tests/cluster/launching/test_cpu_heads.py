"""A model that vLLM's attention cannot compute on a CPU is refused before anything starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from transformers import AutoConfig

from rubric_core import write_tasks
from rubric_train_openrlhf.cluster.launching.preparation import check_cpu_heads
from rubric_train_openrlhf.cluster.rehearse.checking import Request
from rubric_train_openrlhf.cluster.rehearse.rehearsal import rehearse
from rubric_train_openrlhf.cluster.rehearse.stand_ins import made_tasks
from rubric_train_openrlhf.errors import TrainConfigError
from rubric_train_openrlhf.policy import (
    ChatCodec,
    Policy,
    TinyConfig,
    build_tiny_llama,
    build_tokenizer,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_train_openrlhf.config.train import TrainConfig


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with four heads of 16."""
    folder = tmp_path_factory.mktemp("models") / "narrow"
    tokenizer = build_tokenizer([task.question for task in made_tasks()], 340)
    shape = TinyConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        layers=1,
        heads=4,
        kv_heads=4,
        max_positions=4096,
    )
    Policy(build_tiny_llama(shape, seed=0), ChatCodec(tokenizer)).save(folder)
    return folder


def on_cpu(model: Path) -> dict[str, object]:
    return {
        "model": {"type": "path", "path": str(model)},
        "cluster": {
            "device": "cpu",
            "gpus_per_node": 1,
            "deepspeed": {"attention": "eager"},
        },
    }


def test_heads_that_are_too_narrow_for_a_cpu(
    make_config: Callable[..., TrainConfig], narrow: Path
) -> None:
    with pytest.raises(
        TrainConfigError, match=r"heads are 16 wide.* none but 32, 48"
    ) as caught:
        check_cpu_heads(make_config(**on_cpu(narrow)))

    assert caught.value.location == "model.path"


def test_gpus_take_the_same_heads(
    make_config: Callable[..., TrainConfig], narrow: Path
) -> None:
    check_cpu_heads(make_config(model={"type": "path", "path": str(narrow)}))


@pytest.mark.parametrize("width", [32, 48, 512])
def test_heads_that_a_cpu_takes(
    make_config: Callable[..., TrainConfig], tmp_path: Path, width: int
) -> None:
    AutoConfig.for_model("llama", head_dim=width).save_pretrained(tmp_path)

    check_cpu_heads(make_config(**on_cpu(tmp_path)))


def test_latent_attention_has_widths_of_its_own(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    AutoConfig.for_model("deepseek_v3", head_dim=24).save_pretrained(tmp_path)

    check_cpu_heads(make_config(**on_cpu(tmp_path)))


def test_a_rehearsal_finds_them(narrow: Path, tmp_path: Path) -> None:
    tasks = made_tasks()
    write_tasks(tmp_path / "train.jsonl", tasks[:8])
    values = {
        "backend": "openrlhf",
        "data": {"train": str(tmp_path / "train.jsonl")},
        "rollout": {"prompts": 4, "group_size": 4, "max_new_tokens": 64},
        "optim": {"updates_per_rollout": 1, "micro_batch": 4},
        "out": str(tmp_path / "out"),
        **on_cpu(narrow),
    }
    request = Request(tmp_path / "run.yaml", values, tmp_path / "rehearsal", run=False)

    (found,) = [one for one in rehearse(request).failures if one.check == "model"]

    assert "heads are 16 wide" in found.detail
    assert found.where == "model.path"
