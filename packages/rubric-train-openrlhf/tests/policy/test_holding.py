"""What a model computes follows from its weights alone, whatever mode it is asked to be in."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
import torch

from rubric_train_openrlhf.policy import EncodedPrompt, load_policy, response_logprobs
from rubric_train_openrlhf.policy.holding import (
    ROTARY_FILE,
    follows_length,
    hold_in_evaluation,
    hold_rope,
    is_recomputed,
    recompute_layers,
)
from rubric_train_openrlhf.policy.rollouts import pack_responses

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOISY = ("opt", "xglm", "biogpt", "gpt_bigcode", "phimoe", "mixtral")
FOLLOWING = ("phi3", "phimoe", "llama", "qwen2")
PROMPTS = [EncodedPrompt(tuple(range(3, 3 + length))) for length in (5, 5, 20, 20)]
RESPONSES = [tuple(range(30, 30 + length)) for length in (9, 4, 30, 12)]


def logprobs(model: Any) -> torch.Tensor:
    return response_logprobs(model, pack_responses(PROMPTS, RESPONSES)).logprobs_BT


def gradients(model: Any) -> dict[str, torch.Tensor]:
    model.zero_grad()
    logprobs(model).sum().backward()
    named = model.named_parameters()
    return {name: one.grad.clone() for name, one in named if one.grad is not None}


@pytest.mark.parametrize("kind", NOISY)
@pytest.mark.parametrize("is_recomputed_too", [False, True])
def test_no_activation_is_dropped_and_no_router_shaken(
    kind: str,
    is_recomputed_too: bool,  # noqa: FBT001
    build: Callable[..., Any],
) -> None:
    model = build(kind, "noisy")
    wanted = logprobs(model).detach()
    hold_in_evaluation(model)
    if is_recomputed_too:
        recompute_layers(model)
    model.train()
    torch.nn.Sequential(model).train()

    assert torch.allclose(logprobs(model).detach(), wanted, atol=1e-5)
    assert not any(module.training for module in model.modules())


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        *(("opt", "noisy"), ("phimoe", "noisy"), ("qwen3", "")),
        *(("lfm2", "hybrid"), ("qwen3_5_text", "hybrid")),
    ],
)
def test_layers_that_are_computed_again_give_the_same_gradients(
    kind: str, group: str, build: Callable[..., Any]
) -> None:
    model = hold_in_evaluation(build(kind, group))
    wanted = gradients(model)
    calls = []
    layer = next(
        one for one in model.modules() if type(one).__name__.endswith("DecoderLayer")
    )
    layer.register_forward_hook(lambda *_: calls.append(1))
    recompute_layers(model)
    found = gradients(model)

    assert is_recomputed(model)
    for name, gradient in wanted.items():
        scale = float(gradient.abs().max()) + 1e-6
        assert torch.allclose(found[name], gradient, atol=1e-4 * scale + 1e-5), name


def test_activations_inside_of_layers_are_not_kept(build: Callable[..., Any]) -> None:
    model = hold_in_evaluation(build("qwen3"))

    def kept() -> int:
        sizes: list[int] = []

        def count(tensor: torch.Tensor) -> torch.Tensor:
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(count, lambda one: one):
            logprobs(model)
        return sum(sizes)

    before = kept()
    recompute_layers(model)

    assert kept() < before / 2


@pytest.mark.parametrize("kind", FOLLOWING)
@pytest.mark.parametrize("longest", [50, 200])
def test_a_row_has_one_law_whatever_stands_beside_it(
    kind: str, longest: int, build: Callable[..., Any]
) -> None:
    model = build(kind, "following")
    hold_rope(model, longest=longest)
    short, long = pack_responses(PROMPTS[:1], RESPONSES[:1]), torch.arange(3, 73)[None]
    first = response_logprobs(model, short).logprobs_BT.detach()
    with torch.no_grad():
        model(input_ids=long, use_cache=False)
    again = response_logprobs(model, short).logprobs_BT.detach()

    assert torch.allclose(first, again, atol=1e-6)
    together = logprobs(model).detach()[:1, : first.shape[1]]
    assert torch.allclose(first, together, atol=1e-4)


@pytest.mark.parametrize("kind", FOLLOWING)
def test_rows_are_rotated_as_the_longest_is(
    kind: str, build: Callable[..., Any]
) -> None:
    held, free = (build(kind, "following") for _ in range(2))
    ids = torch.arange(3, 73)[None]
    with torch.no_grad():
        wanted = free(input_ids=ids, use_cache=False).logits
        hold_rope(held, longest=70)
        found = held(input_ids=ids, use_cache=False).logits
        short = build(kind, "following")(input_ids=ids[:, :9], use_cache=False).logits
        held_short = held(input_ids=ids[:, :9], use_cache=False).logits

    assert torch.allclose(found, wanted, atol=1e-4)
    assert not torch.allclose(held_short, short, atol=1e-2)
    hold_rope(held, longest=9)
    with torch.no_grad():
        assert torch.allclose(held(input_ids=ids[:, :9]).logits, short, atol=1e-4)


def test_a_model_whose_frequencies_stand_is_left_alone(
    build: Callable[..., Any],
) -> None:
    model = build("llama")

    assert not follows_length(model)
    assert hold_rope(model, longest=30) is None


def test_a_saved_policy_keeps_what_it_was_held_to(
    chat_model: Path, tmp_path: Path, build: Callable[..., Any]
) -> None:
    model = build("llama", "following", vocab_size=600)
    model.save_pretrained(chat_model)
    policy = load_policy(chat_model)
    assert hold_rope(policy.model) == 256
    hold_rope(policy.model, longest=20)
    policy.save(tmp_path / "saved")

    assert json.loads((tmp_path / "saved" / ROTARY_FILE).read_text()) == {
        "max_length": 20
    }
    assert hold_rope(load_policy(tmp_path / "saved").model) == 20


def test_a_copy_is_held_too(build: Callable[..., Any]) -> None:
    model = hold_in_evaluation(build("opt", "noisy"))

    assert not copy.deepcopy(model).train().training
