"""Reading a prompt once for its group changes no log-probability and no gradient."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy import (
    EncodedPrompt,
    onednn,
    pack_responses,
    response_logprobs,
)
from rubric_train_openrlhf.policy.holding import (
    hold_in_evaluation,
    hold_rope,
    recompute_layers,
)
from rubric_train_openrlhf.policy.sharing import grouped, handed, padded, shared_way

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_train_openrlhf.policy.rollouts import TokenBatch

_SCALED = {"factor": 4.0, "rope_theta": 500.0, "original_max_position_embeddings": 32}
KINDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama eager": {"attn_implementation": "eager"},
    "llama linear": {
        "rope": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}
    },
    "llama yarn": {"rope": {"rope_type": "yarn", **_SCALED}},
    "llama llama3": {
        "rope": {
            "rope_type": "llama3",
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            **_SCALED,
        },
        "num_key_value_heads": 1,
    },
    "llama dynamic": {"rope": {"rope_type": "dynamic", **_SCALED}},
    "phi3 longrope": {},
    "qwen2": {"num_key_value_heads": 4},
    "qwen3": {"head_dim": 8},
    "mistral": {"sliding_window": 64},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256},
}


def built(build: Callable[..., Any], kind: str) -> Any:
    name, _, variant = kind.partition(" ")
    model = build(name, "following" if variant == "longrope" else "", **KINDS[kind])
    hold_rope(model)
    with (
        torch.no_grad()
    ):  # larger weights make float32 round by more than what is asked here
        for one in model.parameters():
            one.mul_(0.5)
    return model


def batch_of(sizes: list[tuple[int, list[int]]], seed: int) -> TokenBatch:
    """Prompts by (length, lengths of the responses); rows of a group are no neighbours."""
    drawn = random.Random(seed)

    def tokens(n: int) -> tuple[int, ...]:
        return tuple(drawn.randrange(3, 90) for _ in range(n))

    rows = []
    for place, (length, responses) in enumerate(sizes):
        prompt = EncodedPrompt((3 + place, *tokens(length - 1)), (95,) * (place % 2))
        rows += [(prompt, tokens(n)) for n in responses]
    drawn.shuffle(rows)
    return pack_responses([one for one, _ in rows], [one for _, one in rows])


def logprobs_and_gradients(
    model: Any, batch: TokenBatch, *, share_prompts: bool
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model.zero_grad()
    found_BT = response_logprobs(model, batch, share_prompts=share_prompts).logprobs_BT
    slopes_BT = torch.randn(found_BT.shape, generator=torch.Generator().manual_seed(1))
    (found_BT * slopes_BT).sum().div(batch.n_response_tokens).backward()
    named = model.named_parameters()
    return found_BT.detach(), {
        n: one.grad.clone() for n, one in named if one.grad is not None
    }


def assert_equal_by_both(model: Any, batch: TokenBatch) -> None:
    wanted_BT, wanted = logprobs_and_gradients(model, batch, share_prompts=False)
    found_BT, found = logprobs_and_gradients(model, batch, share_prompts=True)
    assert float((found_BT - wanted_BT).abs().max()) < 1e-5
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        scale = max(1.0, float(gradient.abs().max()))
        assert float((found[name] - gradient).abs().max()) < 1e-5 * scale, name


GROUPS = st.lists(
    st.tuples(st.integers(1, 12), st.lists(st.integers(1, 9), min_size=1, max_size=5)),
    min_size=1,
    max_size=3,
).filter(lambda sizes: len(sizes) < sum(len(responses) for _, responses in sizes))


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_prompt_read_once_changes_no_number(
    kind: str, build: Callable[..., Any]
) -> None:
    model = built(build, kind)

    @settings(max_examples=15, deadline=None)
    @given(sizes=GROUPS, seed=st.integers(0, 9))
    def check(sizes: list[tuple[int, list[int]]], seed: int) -> None:
        batch = batch_of(sizes, seed)
        assert shared_way(model, batch) is grouped
        assert_equal_by_both(model, batch)

    check()


@pytest.mark.parametrize("kind", ["llama", "qwen2", "mistral"])
@pytest.mark.parametrize("again", [False, True])
def test_products_by_onednn_change_no_number(
    kind: str,
    again: bool,  # noqa: FBT001
    build: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Groups in one row by oneDNN, against rows of their own by torch's products."""
    model = hold_in_evaluation(built(build, kind))
    rows: list[int] = []
    summed = onednn._summed

    def counted(x: torch.Tensor, *others: torch.Tensor | None) -> torch.Tensor:
        rows.append(len(x))
        return summed(x, *others)

    monkeypatch.setattr(onednn, "_outruns_mkl", lambda: True)
    monkeypatch.setattr(onednn, "_summed", counted)
    made: list[int] = []
    for seed in range(4):
        batch = batch_of([(20, [5, 3, 1]), (10, [2, 2]), (7, [4])], seed)
        wanted_BT, wanted = logprobs_and_gradients(model, batch, share_prompts=False)
        assert not rows
        if again:
            recompute_layers(model)
        with monkeypatch.context() as patched:
            patched.setattr(onednn, "_FEWEST_OPERATIONS", 0)
            for shares in (True, False):
                found_BT, found = logprobs_and_gradients(
                    model, batch, share_prompts=shares
                )
                made.append(len(rows))
                rows.clear()
                assert torch.allclose(found_BT, wanted_BT, atol=1e-5)
                for name, gradient in wanted.items():
                    scale = max(1.0, float(gradient.abs().max()))
                    off = float((found[name] - gradient).abs().max())
                    assert off < 1e-5 * scale, name
    # Each map has a product forward and two backward. The forward one is made again in the backward
    # pass, in the head always; a first pass by groups is tried beside.
    linear = [one for one in model.modules() if isinstance(one, torch.nn.Linear)]
    times = 4 if again else 3
    assert set(made[1:]) == {times * (len(linear) - 1) + 4}


@pytest.mark.parametrize("way", [grouped, handed])
def test_every_way_gives_the_states_of_the_padded_batch(
    way: Callable[..., torch.Tensor], build: Callable[..., Any]
) -> None:
    """Groups of one response, and responses of one token, too."""
    model = build("qwen3")
    for sizes in (
        [(5, [1, 1, 1])],
        [(1, [4])],
        [(7, [3, 1, 9]), (2, [6]), (30, [2, 2])],
    ):
        batch = batch_of(sizes, 0)
        assert torch.allclose(way(model, batch), padded(model, batch), atol=1e-5)


def test_a_group_of_one_response_reads_its_prompt_as_ever(
    build: Callable[..., Any],
) -> None:
    """There is nothing to share: the same numbers to the bit, and no word of it."""
    model = built(build, "llama")
    for sizes in ([(9, [4])], [(9, [4]), (3, [1]), (1, [7])]):
        batch = batch_of(sizes, 0)
        with capture_logs() as logs:
            found_BT, found = logprobs_and_gradients(model, batch, share_prompts=True)
        wanted_BT, wanted = logprobs_and_gradients(model, batch, share_prompts=False)
        assert not logs
        assert torch.equal(found_BT, wanted_BT)
        assert all(
            torch.equal(found[name], gradient) for name, gradient in wanted.items()
        )
    with_another = batch_of([(9, [4]), (6, [3, 5])], 0)
    assert shared_way(model, with_another) is grouped
    assert_equal_by_both(model, with_another)


@pytest.mark.parametrize(
    ("kind", "limit"),
    [
        ("gpt2", {"n_positions": 24, "max_position_embeddings": 24}),
        ("llama", {"max_position_embeddings": 24}),
        ("mistral", {"sliding_window": 24}),
    ],
)
def test_a_group_may_be_longer_than_the_limit_of_a_row(
    kind: str, limit: dict[str, int], build: Callable[..., Any]
) -> None:
    """16 tokens and three responses of 8 are 40 in one row; what counts is each response's own."""
    model = build(kind, **{**KINDS[kind], **limit})
    batch = batch_of([(16, [8, 8, 8])], 0)
    assert shared_way(model, batch) is grouped
    assert_equal_by_both(model, batch)


def test_rows_wider_than_a_window_are_read_one_by_one(
    build: Callable[..., Any],
) -> None:
    """Within the window all is seen; the sliding mask beyond is the padded batch's."""
    model = build("mistral", sliding_window=12)
    fits, is_wider = batch_of([(8, [4, 3, 2])], 0), batch_of([(8, [5, 3, 2])], 0)
    assert shared_way(model, fits) is grouped
    with capture_logs() as logs:
        assert shared_way(model, is_wider) is padded
        assert shared_way(model, is_wider) is padded
    (told,) = logs
    assert told["event"] == "policy.prompts.read_by_each_response"
    assert told["grouped"] == "sliding_window 12 is less than rows of 13 tokens"
    for batch in (fits, is_wider):
        assert_equal_by_both(model, batch)


def test_what_a_place_in_the_row_changes_is_found_at_the_length_where_it_does(
    build: Callable[..., Any],
) -> None:
    """As a scale by the place beyond a length, which no few tokens show."""
    model = build("llama")

    def scaled(_: object, __: object, out: torch.Tensor) -> torch.Tensor:
        places_S = torch.arange(out.shape[1], device=out.device)
        return out * (1 + places_S[:, None].div(20, rounding_mode="floor"))

    model.base_model.layers[1].self_attn.q_proj.register_forward_hook(scaled)
    short, long = batch_of([(5, [4, 3])], 0), batch_of([(30, [12, 3, 9])], 0)
    assert shared_way(model, short) is grouped
    with capture_logs() as logs:
        assert shared_way(model, long) is padded
    assert logs[-1]["grouped"] == logs[-1]["handed"] == "other hidden states"
    for batch in (short, long):
        assert_equal_by_both(model, batch)


def test_a_row_shares_what_would_not_pay_apart(build: Callable[..., Any]) -> None:
    """Two prompts of three responses: one row reads each once, and nothing is said otherwise."""
    batch = batch_of([(9, [4, 3]), (6, [5])], 0)
    assert shared_way(built(build, "llama"), batch) is grouped
    assert_equal_by_both(built(build, "llama"), batch)
    with capture_logs() as logs:
        assert shared_way(build("gpt_oss", **UNSHARED["gpt_oss"][0]), batch) is padded
    assert not logs


def test_rows_of_every_length_are_named_once(build: Callable[..., Any]) -> None:
    model = build("mistral", sliding_window=6)
    with capture_logs() as logs:
        for length in (8, 11, 14):
            assert shared_way(model, batch_of([(length, [4, 3])], 0)) is padded
    assert len(logs) == 1


UNSHARED = {
    "gemma2": ({"head_dim": 8, "attn_logit_softcapping": 5.0}, "softcap"),
    "gpt_oss": (
        {
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "head_dim": 8,
            "sliding_window": 99,
        },
        "s_aux",
    ),
    "bloom": ({"n_head": 4, "n_layer": 2, "hidden_size": 32}, "takes no positions"),
    "llama4_text": (
        {
            "num_local_experts": 2,
            "intermediate_size_mlp": 64,
            "head_dim": 8,
            "attention_chunk_size": 4,
            "layer_types": ["chunked_attention"] * 4,
        },
        "layers of chunked_attention",
    ),
}


@pytest.mark.parametrize("kind", list(UNSHARED))
def test_attention_that_is_not_plain_is_named(
    kind: str, build: Callable[..., Any]
) -> None:
    values, reason = UNSHARED[kind]
    model, batch = build(kind, **values), batch_of([(5, [4, 3, 6])], 0)
    with capture_logs() as logs:
        way = shared_way(model, batch)
    assert way is not grouped
    if way is padded:
        assert logs[-1]["architecture"] == type(model).__name__
        assert reason in logs[-1]["grouped"]
    assert torch.allclose(way(model, batch), padded(model, batch), atol=1e-4)


def test_a_base_model_that_is_the_whole_model_has_a_body(
    build: Callable[..., Any],
) -> None:
    """Of Llama 4 and, in older releases of the library, of Gemma 3."""
    model, batch = (
        build("llama4_text", **UNSHARED["llama4_text"][0]),
        batch_of([(5, [4, 3, 6])], 0),
    )
    assert model.base_model is model
    found_BT = response_logprobs(model, batch).logprobs_BT[batch.response_mask_BT]
    logits_BSV = model(input_ids=batch.input_ids_BS).logits
    tokens_N = batch.response_tokens_BT[batch.response_mask_BT]
    wanted_NV = logits_BSV[batch.predicting_positions].log_softmax(dim=-1)
    wanted_N = wanted_NV.gather(1, tokens_N[:, None])[:, 0]
    assert torch.allclose(found_BT, wanted_N, atol=1e-5)


def test_logits_that_are_capped_are_named(build: Callable[..., Any]) -> None:
    model, batch = build("gemma2", head_dim=8), batch_of([(5, [4, 3, 6])], 0)
    with capture_logs() as logs:
        response_logprobs(model, batch)
        response_logprobs(model, batch, share_prompts=False)
    (told,) = logs
    assert told["head"] == "logits are more than the output embedding"


@pytest.mark.parametrize("kind", ["qwen3_next", "lfm2", "mamba", "falcon_h1", "jamba"])
def test_running_states_are_read_one_by_one_and_named(
    kind: str, build: Callable[..., Any]
) -> None:
    model, batch = build(kind, "hybrid"), batch_of([(5, [4, 3, 6])], 0)
    with capture_logs() as logs:
        assert shared_way(model, batch) is padded
    assert logs[-1]["architecture"] == type(model).__name__
    assert logs[-1]["grouped"]
    assert logs[-1]["handed"]


def tokens_read(model: Any, batch: TokenBatch, **options: Any) -> int:
    """Tokens that go through a layer's feed-forward part."""
    counted = []
    shared_way(model, batch)  # is tried before
    norm = model.base_model.layers[0].post_attention_layernorm
    hook = norm.register_forward_hook(
        lambda _, __, out: counted.append(out[..., 0].numel())
    )
    response_logprobs(model, batch, **options)
    hook.remove()
    return sum(counted)


def test_a_prompt_goes_through_the_model_once(build: Callable[..., Any]) -> None:
    model, batch = built(build, "llama"), batch_of([(20, [5, 3, 1]), (10, [2, 2])], 0)
    response_logprobs(model, batch)
    assert tokens_read(model, batch) == 20 + 10 + 4 + 2 + 0 + 1 + 1
    assert tokens_read(model, batch, share_prompts=False) == 5 * 25


def test_layers_that_are_computed_again_share_prompts_too(
    build: Callable[..., Any],
) -> None:
    model, batch = (
        hold_in_evaluation(built(build, "llama")),
        batch_of([(20, [5, 3, 1]), (10, [2, 2])], 0),
    )
    wanted_BT, wanted = logprobs_and_gradients(model, batch, share_prompts=False)
    recompute_layers(model)
    assert shared_way(model, batch) is grouped
    found_BT, found = logprobs_and_gradients(model, batch, share_prompts=True)
    assert torch.allclose(found_BT, wanted_BT, atol=1e-5)
    for name, gradient in wanted.items():
        assert torch.allclose(found[name], gradient, atol=1e-5), name
    assert model.config._attn_implementation == "sdpa"


def test_adapters_share_prompts(build: Callable[..., Any]) -> None:
    peft = pytest.importorskip("peft")
    model = built(build, "llama")
    config = peft.LoraConfig(
        r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False
    )
    peft.inject_adapter_in_model(config, model)
    batch = batch_of([(20, [5, 3, 1]), (10, [2, 2])], 0)
    assert shared_way(model, batch) is grouped
    assert_equal_by_both(model, batch)


def test_autocast_hands_prompts_on(build: Callable[..., Any]) -> None:
    model, batch = built(build, "llama"), batch_of([(20, [5, 3, 1])], 0)
    assert shared_way(model, batch) is grouped
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert shared_way(model, batch) is handed


def test_a_model_is_as_it_was_after_an_attention_that_fails(
    build: Callable[..., Any],
) -> None:
    model = built(build, "llama")
    batch = batch_of([(20, [5, 3, 1])], 0)
    assert shared_way(model, batch) is grouped

    def fails(*_: object) -> None:
        raise RuntimeError("no memory")

    hook = model.base_model.layers[1].register_forward_pre_hook(fails)
    with pytest.raises(RuntimeError, match="no memory"):
        response_logprobs(model, batch)
    hook.remove()
    assert model.config._attn_implementation == "sdpa"
    assert_equal_by_both(model, batch)


@pytest.mark.parametrize("share_prompts", [True, False])
def test_responses_beyond_the_positions_are_refused(
    share_prompts: bool,  # noqa: FBT001
    build: Callable[..., Any],
) -> None:
    model = build(
        "gpt2", **{**KINDS["gpt2"], "n_positions": 24, "max_position_embeddings": 24}
    )
    told = "row 1 .*20 tokens of prompt and 5 of response.* 24 positions"
    batch = pack_responses(
        [EncodedPrompt(tuple(range(3, 23)))] * 2, [(4,) * 4, (4,) * 5]
    )
    with pytest.raises(PolicyInputError, match=told):
        response_logprobs(model, batch, share_prompts=share_prompts)
    rotated = build(
        "llama", max_position_embeddings=24
    )  # as in `sft` on a long reference
    found_BT = response_logprobs(
        rotated, batch, share_prompts=share_prompts
    ).logprobs_BT
    assert bool(found_BT.isfinite().all())
