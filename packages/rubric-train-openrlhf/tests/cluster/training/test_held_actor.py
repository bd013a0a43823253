"""OpenRLHF's model is held as the local backend's is: in whatever mode, and as long as rows are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import transformers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.openrlhf
_IDS = torch.arange(5, 45)[None]


def _saved(folder: Path, kind: str, **given: Any) -> str:
    shape = {
        "vocab_size": 90, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **(shape | given))
    model: Any = transformers.AutoModelForCausalLM.from_config(config).float()
    with torch.no_grad():
        for one in model.parameters():
            if one.dim() > 1:
                one.normal_(0, 0.3)
    model.save_pretrained(folder)
    return str(folder)


def _logprobs(actor: Any, *, rows: torch.Tensor = _IDS) -> torch.Tensor:
    mask = torch.ones_like(rows)
    return actor(rows, mask[:, 1:], attention_mask=mask)


def _actor(path: str, *, longest: int) -> Any:
    from rubric_train_openrlhf.cluster.training.policy_actor import HeldActor

    given = {"attn_implementation": "eager", "param_dtype": "bf16"}
    actor: Any = HeldActor(path, longest=longest, **given)
    return actor.float()


@pytest.mark.parametrize("is_recomputed", [False, True])
def test_to_train_it_drops_nothing(
    tmp_path: Path,
    is_recomputed: bool,  # noqa: FBT001
) -> None:
    actor = _actor(
        _saved(tmp_path, "opt", word_embed_proj_dim=32, ffn_dim=64), longest=64
    )
    before = _logprobs(actor).detach()
    if is_recomputed:
        actor.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": True}
        )
    actor.train()
    found = _logprobs(actor)
    found.sum().backward()

    assert torch.allclose(found, before, atol=1e-5)
    assert all(one.grad is not None for one in actor.parameters() if one.dim() > 1)


def test_short_rows_are_rotated_as_the_longest_of_the_run(tmp_path: Path) -> None:
    rope = {
        "rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4,
        "rope_theta": 10000.0, "original_max_position_embeddings": 30, "factor": 4.0,
    }  # fmt: skip
    path = _saved(tmp_path, "llama", rope_parameters=rope)
    whole = _logprobs(_actor(path, longest=40))
    begun = _logprobs(_actor(path, longest=40), rows=_IDS[:, :12])

    assert torch.allclose(begun, whole[:, :11], atol=1e-4)
