from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy import (
    EncodedPrompt,
    Rollouts,
    logprobs,
    pack_responses,
    pack_rollouts,
    response_logprobs,
    sample_groups,
    sampling,
)
from rubric_train_openrlhf.policy.logprobs import has_plain_head

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def draw(
    model: PreTrainedModel, prompts: list[EncodedPrompt], *, temperature: float = 1.0
) -> Rollouts:
    return sample_groups(
        model,
        prompts,
        group_size=6,
        max_new_tokens=24,
        temperature=temperature,
        generator=torch.Generator().manual_seed(0),
        eos_token_id=2,
        pad_token_id=0,
    )


def gradients(model: PreTrainedModel, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


@pytest.mark.parametrize("path", ["own", "forward"])
@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
def test_recomputed_logprobs_equal_the_samplers(
    model: PreTrainedModel,
    prompts: list[EncodedPrompt],
    path: str,
    temperature: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ragged prompts, banned tokens and early ends included: the first ratio is 1."""
    if path == "forward":
        monkeypatch.setattr(sampling, "is_plain_llama", lambda _: False)
    rollouts = draw(model, prompts, temperature=temperature)
    assert temperature == 0.0 or bool(rollouts.ended_B.any())
    rows = list(range(24))
    batch = pack_rollouts(rollouts, rows)
    logprobs_BT, entropy_BT = response_logprobs(
        model, batch, temperature=temperature or 1.0
    )
    width = batch.response_mask_BT.shape[1]
    assert torch.equal(batch.response_mask_BT, rollouts.mask_BT[:, :width])
    assert torch.allclose(logprobs_BT, rollouts.logprobs_BT[:, :width], atol=1e-4)
    assert bool((logprobs_BT[~batch.response_mask_BT] == 0).all())
    assert bool((entropy_BT >= 0).all())
    assert not entropy_BT.requires_grad


def test_values_and_gradients_equal_the_plain_formula(
    model: PreTrainedModel,
    prompts: list[EncodedPrompt],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Tiles of seven rows and two columns; all of the first and of many others is banned somewhere.
    monkeypatch.setattr(logprobs, "_CPU_TILE_LOGITS", 7 * 2)
    monkeypatch.setattr(logprobs, "_CPU_TILE_ROWS", 7)
    rollouts = draw(model, prompts)
    batch = pack_rollouts(rollouts, range(3, 20))
    slopes_BT = torch.randn(
        batch.response_mask_BT.shape, generator=torch.Generator().manual_seed(1)
    )
    ours = response_logprobs(model, batch, temperature=0.7)
    our_gradients = gradients(model, (ours.logprobs_BT * slopes_BT).sum())

    banned_BV = torch.zeros(17, 90, dtype=torch.bool)
    for row in range(17):
        banned_BV[row, list(rollouts.prompt_of(row + 3).banned_token_ids)] = True
    logits = model(input_ids=batch.input_ids_BS).logits / 0.7
    wanted = torch.log_softmax(logits.masked_fill(banned_BV[:, None], -1e30), -1)
    places = batch.predicting_positions
    taken = wanted[places].gather(
        -1, batch.response_tokens_BT[batch.response_mask_BT][:, None]
    )
    assert torch.allclose(
        ours.logprobs_BT[batch.response_mask_BT], taken[:, 0], atol=1e-4
    )
    entropy_N = -(wanted.exp() * wanted).sum(-1)[places]
    assert torch.allclose(ours.entropy_BT[batch.response_mask_BT], entropy_N, atol=1e-4)
    loss = (taken[:, 0] * slopes_BT[batch.response_mask_BT]).sum()
    for name, gradient in gradients(model, loss).items():
        scale = float(gradient.abs().max()) + 1e-6
        assert torch.allclose(our_gradients[name], gradient, atol=1e-4 * scale), name


def test_capped_logits_do_not_pass_for_a_plain_head(model: PreTrainedModel) -> None:
    assert has_plain_head(model) == (model.config.model_type != "gemma2")


def test_one_token_responses_and_single_rows_work(model: PreTrainedModel) -> None:
    batch = pack_responses([EncodedPrompt((5, 6))] * 2, [(7,), (8,)])
    together = response_logprobs(model, batch).logprobs_BT
    alone = response_logprobs(
        model, pack_responses([EncodedPrompt((5, 6))], [(7,)])
    ).logprobs_BT
    assert together.shape == (2, 1)
    assert torch.allclose(together[:1], alone, atol=1e-5)


def test_autocast_computes_forward_and_backward_in_half_precision(
    model: PreTrainedModel, prompts: list[EncodedPrompt]
) -> None:
    batch = pack_rollouts(draw(model, prompts), range(12))
    exact = response_logprobs(model, batch).logprobs_BT
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = response_logprobs(model, batch).logprobs_BT
        half.mean().backward()
    assert half.dtype == torch.float32
    assert float((half - exact).detach().abs().median()) < 0.2
    assert all(
        parameter.grad is not None and bool(parameter.grad.isfinite().all())
        for parameter in model.parameters()
    )


def test_a_temperature_of_zero_has_no_logprobs(model: PreTrainedModel) -> None:
    batch = pack_responses([EncodedPrompt((5,))], [(7,)])
    with pytest.raises(PolicyInputError, match=r"temperature 0\.0"):
        response_logprobs(model, batch, temperature=0.0)


@pytest.mark.parametrize(
    ("prompts", "responses"),
    [
        ([], []),
        ([EncodedPrompt((1,))], []),
        ([EncodedPrompt((1,))], [()]),
        ([EncodedPrompt((1,), (9,))], [(4, 9)]),
    ],
)
def test_rows_that_cannot_be_packed_are_refused(
    prompts: list[EncodedPrompt], responses: list[tuple[int, ...]]
) -> None:
    with pytest.raises(PolicyInputError, match="prompt"):
        pack_responses(prompts, responses)


def test_weights_learn_in_the_autocast_block_that_sampled(
    model: PreTrainedModel, prompts: list[EncodedPrompt]
) -> None:
    """Autocast keeps the weights it cast; those cast without gradients must not be used again."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rollouts = draw(model, prompts)
        found = response_logprobs(model, pack_rollouts(rollouts, range(12)))
        found.logprobs_BT.mean().backward()
    assert [name for name, one in model.named_parameters() if one.grad is None] == []


def test_gradients_are_the_same_in_every_run_on_two_threads(
    model: PreTrainedModel, prompts: list[EncodedPrompt]
) -> None:
    batch = pack_rollouts(draw(model, prompts), range(24))
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        first, second = (
            gradients(model, response_logprobs(model, batch).logprobs_BT.sum())
            for _ in range(2)
        )
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(first[name], second[name]) for name in first)
