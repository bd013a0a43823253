from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from rubric_train_openrlhf.policy import (
    EncodedPrompt,
    onednn,
    response_logprobs,
    sample_groups,
)
from rubric_train_openrlhf.policy.llama_decoding import product, rms_norm
from rubric_train_openrlhf.policy.rollouts import pack_rollouts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rubric_train_openrlhf.policy import Policy


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    onednn._has_onednn.cache_clear()
    yield
    onednn._has_onednn.cache_clear()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 7, 16, 200])
def test_packed_products_are_the_plain_ones(rows: int, *, bias: bool) -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(48, width, bias=bias) for width in (96, 32, 5)]
    x = torch.randn(rows, 1, 48)
    wanted = torch.cat([layer(x) for layer in layers], dim=-1)
    assert onednn.serves(layers[0].weight)
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
    assert onednn.serves(weight)
    assert not onednn.serves(weight.bfloat16())
    assert not onednn.serves(weight.to("meta"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not onednn.serves(weight)


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
        onednn,
        "_ONEDNN",
        SimpleNamespace(**(other if lacks == "its meaning" else {})),
    )
    assert not onednn.serves(torch.zeros(2, 2))
    assert _gap(tiny_policy) < 1e-4


def test_an_update_reaches_the_sampler(tiny_policy: Policy) -> None:
    assert onednn.serves(tiny_policy.model.get_input_embeddings().weight)
    assert _gap(tiny_policy) < 1e-4
    optimizer = torch.optim.AdamW(tiny_policy.model.parameters(), lr=0.05)
    for parameter in tiny_policy.model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    assert _gap(tiny_policy) < 1e-4


@pytest.mark.parametrize("shape", [(400, 1536, 300), (1536, 200, 192), (70, 1000, 960)])
def test_large_products_are_as_exact_as_those_of_a_few_terms(
    shape: tuple[int, int, int],
) -> None:
    """A sum of 1,536 terms in one go would be off by twice as much."""
    rows, terms, width = shape
    torch.manual_seed(0)
    ways = [
        (torch.randn(rows, terms), torch.randn(width, terms)),
        (torch.randn(terms, rows).T, torch.randn(terms, width).T),
        (torch.randn(rows, 2 * terms)[:, ::2], torch.randn(terms, width).T),
    ]
    for x, weight in ways:
        exact = x.double() @ weight.double().T
        found = onednn._summed(x, weight)
        assert float((found - exact).norm() / exact.norm()) < 3e-7
        bias = torch.randn(width)
        assert torch.allclose(onednn._summed(x, weight, bias), found + bias, atol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
def test_linear_maps_of_a_block_have_torch_s_values_and_gradients(
    monkeypatch: pytest.MonkeyPatch, *, bias: bool
) -> None:
    monkeypatch.setattr(onednn, "_FEWEST_OPERATIONS", 0)
    torch.manual_seed(0)
    layer = torch.nn.Linear(500, 40, bias=bias)
    x = torch.randn(3, 7, 500, requires_grad=True)
    slopes = torch.randn(40, 3, 7).permute(1, 2, 0)
    inputs = (x, *layer.parameters())
    wanted = layer(x)
    wanted_slopes = torch.autograd.grad(wanted, inputs, slopes)
    calls = _counted(monkeypatch)
    with onednn.by_onednn(layer.weight):
        found = layer(x)
    assert calls == [21]
    found_slopes = torch.autograd.grad(found, inputs, slopes)
    assert calls == [21, 21, 40]
    assert torch.allclose(found, wanted, atol=1e-5)
    for one, other in zip(found_slopes, wanted_slopes, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    layer(x)
    assert len(calls) == 3


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of each product that is made by oneDNN from here on."""
    rows: list[int] = []
    monkeypatch.setattr(onednn, "_outruns_mkl", lambda: True)
    summed = onednn._summed

    def counted(x: torch.Tensor, *others: torch.Tensor | None) -> torch.Tensor:
        rows.append(len(x))
        return summed(x, *others)

    monkeypatch.setattr(onednn, "_summed", counted)
    return rows


def test_small_and_rounded_maps_are_left_to_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = _counted(monkeypatch)
    layer = torch.nn.Linear(64, 64)
    with onednn.by_onednn(layer.weight):
        layer(torch.randn(8, 64))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            layer(torch.randn(40_000, 64))
        assert not calls
        layer(torch.randn(40_000, 64))
        assert calls
    with onednn.by_onednn(layer.weight.bfloat16()):
        calls.clear()
        layer(torch.randn(40_000, 64))
    assert not calls


@pytest.mark.parametrize(
    ("has_mkl", "processor", "outruns"),
    [
        (True, b"vendor_id : AuthenticAMD", True),
        (True, b"vendor_id : GenuineIntel", False),
        (False, b"vendor_id : AuthenticAMD", False),
        (True, None, False),
    ],
)
def test_intel_s_processors_keep_the_products_of_mkl(
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_mkl: bool,
    processor: bytes | None,
    outruns: bool,
) -> None:
    def read(path: Path) -> bytes:
        if processor is None:
            raise FileNotFoundError(path)
        return processor

    onednn._outruns_mkl.cache_clear()
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: has_mkl)
    monkeypatch.setattr(onednn, "read_file", read)

    assert onednn._outruns_mkl() is outruns
    onednn._outruns_mkl.cache_clear()
