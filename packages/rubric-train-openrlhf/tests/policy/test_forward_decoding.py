"""A model is sampled in a way that gives its own logits, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from structlog.testing import capture_logs

from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy import (
    EncodedPrompt,
    forward_decoding,
    response_logprobs,
)
from rubric_train_openrlhf.policy.forward_decoding import (
    LengthwiseDecoder,
    SharedDecoder,
    forward_decoder,
)
from rubric_train_openrlhf.policy.rollouts import Rollouts, left_pad, pack_rollouts
from rubric_train_openrlhf.policy.sampling import sample_groups

if TYPE_CHECKING:
    from collections.abc import Callable

HYBRIDS = (
    *("qwen3_next", "qwen3_5_text", "lfm2", "granitemoehybrid", "nemotron_h", "jamba"),
    *("falcon_h1", "minimax", "mamba", "mamba2", "rwkv"),
)
PROMPTS = [
    EncodedPrompt(tuple(ids))
    for ids in (range(3, 8), range(3, 25), (5, 9, 9), (9, 5, 4))
]


def draw(model: Any) -> Rollouts:
    return sample_groups(
        model,
        PROMPTS,
        group_size=3,
        max_new_tokens=12,
        generator=torch.Generator().manual_seed(1),
        eos_token_id=[2, *range(11, 19)],
        pad_token_id=0,
    )


def alone(model: Any, rollouts: Rollouts, row: int) -> torch.Tensor:
    """Log-probabilities of a response by a plain forward over its row."""
    prompt, response = rollouts.prompt_of(row).token_ids, rollouts.response(row)
    with torch.no_grad():
        logits = model(
            input_ids=torch.tensor([[*prompt, *response]]), use_cache=False
        ).logits[0]
    logprobs = logits.float().log_softmax(-1)[len(prompt) - 1 : -1]
    return logprobs.gather(-1, torch.tensor(response)[:, None])[:, 0]


def padded() -> Any:
    return left_pad(PROMPTS, pad_token_id=0, device=torch.device("cpu"))


@pytest.mark.parametrize("kind", HYBRIDS)
def test_what_was_drawn_is_what_a_row_alone_gives(
    kind: str, build: Callable[..., Any]
) -> None:
    try:
        model = build(kind, "hybrid")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        pytest.skip(f"not in this release of transformers: {error}")
    rollouts = draw(model)
    rows = range(len(rollouts.mask_BT))
    assert len(set(rollouts.lengths_B.tolist())) > 2, "no row was dropped"
    with torch.no_grad():
        again_BT = response_logprobs(model, pack_rollouts(rollouts, rows)).logprobs_BT
    for row in rows:
        true, n = alone(model, rollouts, row), int(rollouts.lengths_B[row])
        assert torch.allclose(rollouts.logprobs_BT[row, :n], true, atol=2e-3)
        assert torch.allclose(again_BT[row, :n], true, atol=2e-3)


def test_keys_and_values_are_shared_and_states_are_not(
    build: Callable[..., Any],
) -> None:
    assert isinstance(forward_decoder(build("qwen3"), padded()), SharedDecoder)
    decoder = forward_decoder(build("lfm2", "hybrid"), padded())
    assert isinstance(decoder, LengthwiseDecoder)


def test_a_cache_under_a_name_that_is_swallowed_is_noticed(
    build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build("qwen3")
    theirs = type(model).forward

    def deaf(
        self: Any, input_ids: Any = None, *, cache: Any = None, **others: Any
    ) -> Any:
        del cache
        named = {"past_key_values", "use_cache", "attention_mask", "position_ids"}
        kept = {name: value for name, value in others.items() if name not in named}
        return theirs(
            self, input_ids=input_ids, use_cache=bool(others.get("use_cache")), **kept
        )

    monkeypatch.setattr(type(model), "forward", deaf)
    with capture_logs() as logs:
        rollouts = draw(model)
    monkeypatch.setattr(type(model), "forward", theirs)

    (said,) = [log for log in logs if log["event"] == "policy.sampling.without_cache"]
    assert said["architecture"] == "Qwen3ForCausalLM"
    for row in range(len(rollouts.mask_BT)):
        n = int(rollouts.lengths_B[row])
        true = alone(model, rollouts, row)
        assert torch.allclose(rollouts.logprobs_BT[row, :n], true, atol=2e-3)


def test_a_model_whose_rows_depend_on_each_other_is_refused_by_name(
    build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build("qwen3")
    theirs = type(model).forward

    def mixed(self: Any, **inputs: Any) -> Any:
        output = theirs(self, **inputs)
        output.logits = output.logits * len(inputs["input_ids"])
        return output

    monkeypatch.setattr(type(model), "forward", mixed)
    with pytest.raises(PolicyInputError, match=r"Qwen3ForCausalLM.*plain forward"):
        draw(model)


def test_what_a_model_was_found_to_take_is_kept(
    build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build("lfm2", "hybrid")
    forward_decoder(model, padded())
    monkeypatch.setattr(
        forward_decoding, "_chosen", lambda *_: pytest.fail("tried again")
    )

    assert isinstance(forward_decoder(model, padded()), LengthwiseDecoder)
