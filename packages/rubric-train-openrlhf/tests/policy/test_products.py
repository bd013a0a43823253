from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from rubric_train_openrlhf.policy import (
    EncodedPrompt,
    llama_decoding,
    response_logprobs,
    sample_groups,
)
from rubric_train_openrlhf.policy.llama_decoding import can_pack, product, rms_norm
from rubric_train_openrlhf.policy.rollouts import pack_rollouts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rubric_train_openrlhf.policy import Policy


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    llama_decoding._has_onednn.cache_clear()
    yield
    llama_decoding._has_onednn.cache_clear()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 7, 16, 200])
def test_packed_products_are_the_plain_ones(rows: int, *, bias: bool) -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(48, width, bias=bias) for width in (96, 32, 5)]
    x = torch.randn(rows, 1, 48)
    wanted = torch.cat([layer(x) for layer in layers], dim=-1)
    assert can_pack(layers[0].weight)
    with torch.inference_mode():
        for packed in (True, False):
            for modules, part in ((layers, wanted), (layers[:1], wanted[..., :96])):
                found = product(modules, packed=packed)(x)
                assert torch.allclose(found, part, atol=1e-6)


def test_both_norms_are_the_module_s() -> None:
    torch.manual_seed(0)
    module = LlamaRMSNorm(48, eps=1e-2)
    module.weight.data = torch.rand(48)
    x = torch.cat([torch.zeros(1, 48), torch.randn(3, 48), 1e-2 * torch.randn(3, 48)])
    for packed in (True, False):
        assert torch.allclose(rms_norm(module, packed=packed)(x), module(x), atol=1e-6)


def test_only_float32_on_a_cpu_without_autocast_is_packed() -> None:
    weight = torch.zeros(2, 2)
    assert can_pack(weight)
    assert not can_pack(weight.bfloat16())
    assert not can_pack(weight.to("meta"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not can_pack(weight)


def _gap(policy: Policy) -> torch.Tensor:
    """How far log-probabilities of what is drawn are from those of the plain forward."""
    drawn = sample_groups(
        policy.model,
        [EncodedPrompt((5, 6, 7)), EncodedPrompt((8,))],
        group_size=3,
        max_new_tokens=12,
        generator=torch.Generator().manual_seed(0),
        eos_token_id=2,
        pad_token_id=0,
    )
    with torch.no_grad():
        plain_BT = response_logprobs(
            policy.model, pack_rollouts(drawn, range(6))
        ).logprobs_BT
    return (drawn.logprobs_BT - plain_BT).abs().max()


@pytest.mark.parametrize("lacks", ["the operator", "its meaning"])
def test_a_torch_that_does_not_pack_still_samples(
    tiny_policy: Policy, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    other = {
        "_reorder_linear_weight": lambda weight, _: weight,
        "_linear_pointwise": lambda x, weight, *_: 2 * x @ weight.T,
    }
    monkeypatch.setattr(
        llama_decoding,
        "_ONEDNN",
        SimpleNamespace(**(other if lacks == "its meaning" else {})),
    )
    assert not can_pack(torch.zeros(2, 2))
    assert _gap(tiny_policy) < 1e-4


def test_an_update_reaches_the_sampler(tiny_policy: Policy) -> None:
    assert can_pack(tiny_policy.model.get_input_embeddings().weight)
    assert _gap(tiny_policy) < 1e-4
    optimizer = torch.optim.AdamW(tiny_policy.model.parameters(), lr=0.05)
    for parameter in tiny_policy.model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    assert _gap(tiny_policy) < 1e-4
