from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
import torch
from transformers import GenerationConfig, LlamaForCausalLM

from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy import (
    EncodedPrompt,
    Rollouts,
    llama_decoding,
    sample_groups,
    sampling,
)
from rubric_train_openrlhf.policy.forward_decoding import SharedDecoder
from rubric_train_openrlhf.policy.llama_decoding import LlamaDecoder, is_plain_llama
from rubric_train_openrlhf.policy.rollouts import left_pad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedModel

    from rubric_train_openrlhf.policy import Policy

EOS, PAD = 2, 0


def draw(
    model: PreTrainedModel,
    prompts: Sequence[EncodedPrompt],
    *,
    group_size: int = 3,
    max_new_tokens: int = 20,
    temperature: float = 1.0,
    seed: int = 0,
) -> Rollouts:
    return sample_groups(
        model,
        prompts,
        group_size=group_size,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        generator=torch.Generator().manual_seed(seed),
        eos_token_id=EOS,
        pad_token_id=PAD,
    )


def through_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "is_plain_llama", lambda _: False)


def test_greedy_tokens_equal_those_of_generate(model: PreTrainedModel) -> None:
    prompts = [EncodedPrompt(tuple(range(3, 3 + length))) for length in (4, 13, 1, 9)]
    ours = draw(model, prompts, group_size=2, temperature=0.0)
    padded = left_pad(prompts, pad_token_id=PAD, device=model.device)
    theirs = model.generate(
        input_ids=padded.token_ids_PS,
        attention_mask=padded.mask_PS.long(),
        generation_config=GenerationConfig(
            do_sample=False, max_new_tokens=20, eos_token_id=EOS, pad_token_id=PAD
        ),
    )[:, padded.token_ids_PS.shape[1] :]
    width = ours.tokens_BT.shape[1]
    assert torch.equal(ours.tokens_BT[::2], theirs[:, :width])
    assert torch.equal(ours.tokens_BT[::2], ours.tokens_BT[1::2])


def test_both_decoders_draw_the_same(
    model: PreTrainedModel,
    prompts: list[EncodedPrompt],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with torch.inference_mode():
        padded = left_pad(prompts, pad_token_id=PAD, device=model.device)
        rows = sampling.LiveRows(model, padded, group_size=1, max_tokens=4)
    chosen = LlamaDecoder if isinstance(model, LlamaForCausalLM) else SharedDecoder
    assert isinstance(rows._decoder, chosen)
    first = draw(model, prompts)
    through_forward(monkeypatch)
    second = draw(model, prompts)
    assert torch.equal(first.tokens_BT, second.tokens_BT)
    assert torch.allclose(first.logprobs_BT, second.logprobs_BT, atol=1e-4)


@pytest.mark.parametrize("at_once", [1, 14, 26])
def test_prompts_read_in_parts_of_like_length_draw_as_those_read_together(
    model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    lengths = (4, 13, 1, 9, 13, 2)
    prompts = [EncodedPrompt(tuple(range(3, 3 + length))) for length in lengths]
    together = draw(model, prompts, max_new_tokens=30)
    monkeypatch.setattr(llama_decoding, "_READ_AT_ONCE", at_once)
    parts = llama_decoding.of_like_length(torch.tensor(lengths))
    assert len(parts) > 1
    assert sorted(torch.cat(parts).tolist()) == list(range(len(lengths)))
    apart = draw(model, prompts, max_new_tokens=30)
    assert torch.equal(together.tokens_BT, apart.tokens_BT)
    assert torch.allclose(together.logprobs_BT, apart.logprobs_BT, atol=1e-5)


def test_the_buffers_grow_and_thin_out(model: PreTrainedModel) -> None:
    """Long responses that end at different times, through several doublings and compactions."""
    prompts = [EncodedPrompt((5, 6, 7)), EncodedPrompt((8,))]
    rollouts = draw(model, prompts, group_size=12, max_new_tokens=100)
    assert len(set(rollouts.lengths_B.tolist())) > 2
    alone = draw(model, prompts, group_size=12, max_new_tokens=10)
    assert torch.equal(rollouts.tokens_BT[:, :10], alone.tokens_BT)


def test_the_same_seed_draws_the_same_and_leaves_the_global_state_alone(
    model: PreTrainedModel, prompts: list[EncodedPrompt]
) -> None:
    state = torch.get_rng_state()
    first, second = draw(model, prompts, seed=5), draw(model, prompts, seed=5)
    assert torch.equal(first.tokens_BT, second.tokens_BT)
    assert torch.equal(first.logprobs_BT, second.logprobs_BT)
    assert not torch.equal(first.tokens_BT, draw(model, prompts, seed=6).tokens_BT)
    assert torch.equal(torch.get_rng_state(), state)


def test_banned_tokens_are_never_drawn(model: PreTrainedModel) -> None:
    banned = tuple(token for token in range(90) if token not in {EOS, 11, 12})
    prompts = [EncodedPrompt((5, 6), banned), EncodedPrompt((7,))]
    for temperature in (0.0, 1.0, 5.0):
        rollouts = draw(model, prompts, group_size=20, temperature=temperature)
        own = rollouts.tokens_BT[:20][rollouts.mask_BT[:20]]
        assert set(own.tolist()) <= {EOS, 11, 12}


def test_a_response_ends_with_its_end_token_or_is_full(model: PreTrainedModel) -> None:
    rollouts = draw(
        model, [EncodedPrompt((5, 6))], group_size=40, max_new_tokens=8, temperature=3.0
    )
    for row in range(40):
        response = rollouts.response(row)
        assert EOS not in response[:-1]
        assert (response[-1] == EOS) == bool(rollouts.ended_B[row])
        assert len(response) == 8 or rollouts.ended_B[row]
    assert bool((rollouts.tokens_BT[~rollouts.mask_BT] == PAD).all())


def test_a_banned_end_token_gives_full_responses(model: PreTrainedModel) -> None:
    rollouts = draw(
        model, [EncodedPrompt((5,), (EOS,))], group_size=4, max_new_tokens=30
    )
    assert rollouts.lengths_B.tolist() == [30] * 4
    assert not bool(rollouts.ended_B.any())


def test_frequencies_follow_the_tempered_distribution(tiny_policy: Policy) -> None:
    model, prompt = tiny_policy.model, EncodedPrompt((5,), tuple(range(8, 387)))
    rollouts = draw(
        model, [prompt], group_size=4000, max_new_tokens=1, temperature=0.05
    )
    logits = model(torch.tensor([[5]])).logits[0, -1, :8].float() / 0.05
    wanted = torch.softmax(logits, 0).double()
    seen = torch.bincount(rollouts.tokens_BT[:, 0], minlength=8).double() / 4000
    assert torch.allclose(seen, wanted, atol=4 * 0.5 / 4000**0.5)
    drawn = rollouts.tokens_BT[:, 0]
    assert torch.allclose(
        rollouts.logprobs_BT[:, 0].double().exp(), wanted[drawn], atol=1e-5
    )


def test_a_model_in_training_mode_is_sampled_without_dropout(
    model: PreTrainedModel, prompts: list[EncodedPrompt]
) -> None:
    expected = draw(model, prompts)
    model.train()
    assert torch.equal(draw(model, prompts).tokens_BT, expected.tokens_BT)
    assert model.training


def test_sampled_tensors_can_enter_a_graph(tiny_policy: Policy) -> None:
    rollouts = draw(tiny_policy.model, [EncodedPrompt((5,))])
    weight = torch.ones((), requires_grad=True)
    (weight * rollouts.logprobs_BT).sum().backward()
    assert weight.grad is not None


def test_autocast_and_bfloat16_weights_come_close_to_float32(
    model: PreTrainedModel, prompts: list[EncodedPrompt]
) -> None:
    exact = draw(model, prompts, max_new_tokens=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = draw(model, prompts, max_new_tokens=1)
    same = exact.tokens_BT == half.tokens_BT
    assert same.float().mean() > 0.7
    drift = (exact.logprobs_BT - half.logprobs_BT)[same].abs()
    assert float(drift.median()) < 0.3
    assert draw(model.bfloat16(), prompts).logprobs_BT.dtype == torch.float32


def test_rotary_angles_that_change_with_the_length_go_through_the_forward(
    model: PreTrainedModel,
) -> None:
    if isinstance(model, LlamaForCausalLM):
        assert is_plain_llama(model)
        model.model.rotary_emb.rope_type = "dynamic"
    assert not is_plain_llama(model)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"group_size": 0}, "group_size 0"),
        ({"max_new_tokens": 0}, "max_new_tokens 0"),
        ({"prompts": []}, "0 prompts"),
        ({"temperature": -1.0}, "temperature -1.0"),
        ({"temperature": float("nan")}, "temperature nan"),
        ({"max_new_tokens": 127}, "128 positions"),
        ({"prompts": [EncodedPrompt((400,))]}, "token id 400"),
        ({"prompts": [EncodedPrompt((4,), (400,))]}, "banned token id 400"),
        ({"prompts": [EncodedPrompt((4,), tuple(range(387)))]}, "every token"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused(
    tiny_policy: Policy, changes: dict[str, object], words: str
) -> None:
    assert tiny_policy.model.config.vocab_size == 387
    request = {"prompts": [EncodedPrompt((4, 5))], **changes}
    with pytest.raises(PolicyInputError, match=words):
        draw(tiny_policy.model, request.pop("prompts"), **request)


def test_a_generator_of_another_device_is_refused(model: PreTrainedModel) -> None:
    elsewhere = copy.deepcopy(model).to("meta")
    with pytest.raises(
        PolicyInputError, match=r"generator is on 'cpu'.*torch\.Generator"
    ):
        draw(elsewhere, [EncodedPrompt((4, 5))])


def test_prompts_need_tokens_and_valid_ids() -> None:
    with pytest.raises(PolicyInputError, match="at least one token"):
        EncodedPrompt(())
    with pytest.raises(PolicyInputError, match="negative"):
        EncodedPrompt((1,), (-1,))
