"""Stand-ins for a run's tasks and model where they are not on this machine.

The model is of the same class, with random weights: same vocabulary, special tokens and chat
template; few layers and narrow ones.
"""

import shutil
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any, cast

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from rubric_core import Criterion, Grounding, Rubric, Task
from rubric_core.files import toml_beside
from rubric_train_openrlhf.policy.load import build_tokenizer, with_random_weights

_TABLES = toml_beside(__file__, "stand_ins.toml")


def made_tasks() -> tuple[Task, ...]:
    """Tasks whose rubrics both a program and a language model can score, one document each."""
    names = _TABLES["names"]
    facts = _TABLES["facts"]
    return tuple(_task(dict(zip(names, fact, strict=True))) for fact in facts)


def _task(fact: dict[str, str]) -> Task:
    texts = {part: text.format(**fact) for part, text in _TABLES["task"].items()}
    criteria = [
        Criterion(**criterion, expected_keywords=(fact[criterion["id"]],))
        for criterion in _TABLES["criteria"]
    ]
    return Task(
        question=texts["question"],
        grounding=Grounding(text=texts["passage"]),
        rubric=Rubric(criteria=tuple(criteria)),
        reference_answer=texts["reference_answer"],
    )


_VOCABULARY = 2048
_HEAD_DIM = 32
"""The smallest that vLLM's attention on a CPU takes."""
_POSITIONS = 32_768
_SIZES: dict[str, int] = _TABLES["sizes"]
_LAYERS = _SIZES["num_hidden_layers"]


def shrink_model(folder: Path, out: Path, *, seed: int) -> str:
    """Write a small model of a folder's architecture, with the folder's tokenizer.

    Args:
        folder: of the production model; only config.json and the tokenizer are read.
        out: where it goes.
        seed: of the weights.

    Returns:
        What it is, for the report.
    """
    config: Any = AutoConfig.from_pretrained(folder, local_files_only=True)
    what = _save_model(config, out, seed=seed)
    for file in chain.from_iterable(map(folder.glob, _TABLES["tokenizer_files"])):
        if file.is_file():
            shutil.copyfile(file, out / file.name)
    return what


def stand_in_model(name: str, out: Path, *, texts: Iterable[str], seed: int) -> str:
    """Write a small model of the family that a model's name belongs to, and a tokenizer for it.

    Args:
        name: of the production model, or its folder's.
        out: where it goes.
        texts: what the vocabulary is learnt from.
        seed: of the weights.

    Returns:
        What it is, for the report.
    """
    # Llama 3 where the name says nothing.
    family: dict[str, Any] = next(
        entry
        for entry in _TABLES["families"]
        if any(word in name.lower() for word in entry["named"])
    )
    control = (family["pad"], family["bos"], family["eos"])
    special = family["special"]
    tokenizer: Any = build_tokenizer(
        texts, _VOCABULARY, control=control, special=special
    )
    tokenizer.chat_template = family["template"]
    tokenizer.save_pretrained(out)
    config: Any = AutoConfig.for_model(
        family["model_type"],
        vocab_size=len(tokenizer),
        max_position_embeddings=_POSITIONS,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return _save_model(config, out, seed=seed)


def _save_model(config: Any, out: Path, *, seed: int) -> str:
    """Shrink a configuration, and save random weights in bfloat16."""
    _shrink_config(config)
    build = cast("Any", AutoModelForCausalLM).from_config
    model: Any = with_random_weights(build, config, seed=seed)
    model.to(torch.bfloat16).save_pretrained(out)
    # Otherwise a server would stop at the end token of a model that is not this one.
    (out / "generation_config.json").unlink(missing_ok=True)
    return f"{type(model).__name__} of {model.num_parameters():,} random weights"


def _shrink_config(config: Any) -> None:
    """Make a configuration of any text model small; what it does not have is left alone."""
    heads = int(config.num_attention_heads)
    kv_heads = int(getattr(config, "num_key_value_heads", None) or heads)
    # In the proportion that the model has.
    heads, kv_heads = (2, 2) if kv_heads == heads else (min(4, heads // kv_heads), 1)
    # Some architectures take no width but that of their heads together.
    widths = {"num_attention_heads": heads, "hidden_size": heads * _HEAD_DIM}
    sizes = {**_SIZES, **widths, "num_key_value_heads": kv_heads}
    # Latent attention has widths of its own instead.
    if not getattr(config, "kv_lora_rank", None):
        sizes["head_dim"] = _HEAD_DIM
    for name, size in sizes.items():
        if getattr(config, name, None) is not None:
            setattr(config, name, size)
    config.dtype = "bfloat16"
    if getattr(config, "layer_types", None):
        # Two layers, of two kinds where the model has two.
        config.layer_types = (list(dict.fromkeys(config.layer_types)) * _LAYERS)[
            :_LAYERS
        ]
    if getattr(config, "num_experts_per_tok", None):
        config.num_experts_per_tok = min(
            config.num_experts_per_tok, _SIZES["num_experts"]
        )
    if hasattr(config, "quantization_config"):
        del config.quantization_config
