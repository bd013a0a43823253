import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import PolicyView, Section
from rubric_train_openrlhf.errors import PolicyLoadError
from rubric_train_openrlhf.policy import (
    Policy,
    SlotCodec,
    build_tokenizer,
    sample_groups,
    slot_names,
)
from rubric_train_openrlhf.policy.codec import SLOT_TOKENS

TEXTS = (
    "Explain `convolve` with `mode`. It takes two arrays, and returns their convolution.",
)
CODEC = SlotCodec(build_tokenizer(TEXTS, 400))
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def view_of(names: list[str]) -> PolicyView:
    listed = ", ".join(f"`{name}`" for name in names)
    return PolicyView(task_id="t", question=f"Explain {listed} to me.")


@given(
    names=st.lists(NAMES, max_size=9), pieces=st.lists(st.tuples(TEXT, NAMES | TEXT))
)
def test_answers_survive_encoding_and_decoding(
    names: list[str], pieces: list[tuple[str, str]]
) -> None:
    view = view_of(names)
    answer = "".join(f"{text}`{name}`" for text, name in pieces).strip()
    token_ids = CODEC.encode_answer(view, answer)
    assert token_ids[-1] == CODEC.eos_token_id
    assert set(token_ids).isdisjoint(CODEC.encode_prompt(view).banned_token_ids)
    assert CODEC.decode(view, token_ids) == answer


@given(names=st.lists(NAMES, max_size=9, unique=True), text=TEXT)
def test_prompts_hold_the_slots_of_their_question_and_ban_the_others(
    names: list[str], text: str
) -> None:
    view = PolicyView(
        task_id="t", question=view_of(names).question + text.replace("`", "")
    )
    prompt = CODEC.encode_prompt(view)
    slot_ids = [
        CODEC.encode_answer(view_of(list("abcdefg")), f"`{name}`")[1]
        for name in "abcdefg"
    ]
    n_slots = len(slot_names(view.question))
    assert n_slots == min(7, len(names))
    assert [token for token in prompt.token_ids if token in slot_ids] == slot_ids[
        :n_slots
    ]
    assert set(prompt.banned_token_ids) >= set(slot_ids[n_slots:])
    assert set(prompt.banned_token_ids).isdisjoint(slot_ids[:n_slots])
    assert CODEC.eos_token_id not in prompt.banned_token_ids


def test_names_become_slots_in_order_of_appearance() -> None:
    question = "What does `fft.rfft` do with `a`, `n`, `a` and `axis`?"
    assert slot_names(question) == ("fft.rfft", "a", "n", "axis")
    view = PolicyView(task_id="t", question=question)
    answer = CODEC.encode_answer(view, "`axis``a` and `other`")
    assert CODEC.decode(view, answer) == "`axis``a` and `other`"
    other = PolicyView(task_id="t", question="`f` with `x`, `y`, `z`")
    assert CODEC.decode(other, answer) == "`z``x` and `other`"


def test_slot_tokens_spelled_in_a_text_stay_text() -> None:
    view = view_of(["f"])
    assert CODEC.decode(view, CODEC.encode_answer(view, "<F> <P6> <eos> <pad>")) == (
        "<F> <P6> <eos> <pad>"
    )


def test_a_slot_that_the_question_lacks_is_never_rendered_as_nothing() -> None:
    asked, other = view_of(["f"]), view_of(["f", "x"])
    token_ids = CODEC.encode_answer(other, "`x`")
    assert CODEC.decode(asked, token_ids) == "<P1>"


def test_sampled_answers_hold_no_token_without_a_rendering(tiny_policy: Policy) -> None:
    codec = tiny_policy.codec
    view = view_of(["f"])
    rollouts = sample_groups(
        tiny_policy.model,
        [codec.encode_prompt(view)],
        group_size=64,
        max_new_tokens=32,
        temperature=1.5,
        generator=torch.Generator().manual_seed(0),
        eos_token_id=codec.eos_token_id,
        pad_token_id=codec.pad_token_id,
    )
    texts = [codec.decode(view, rollouts.response(row)) for row in range(64)]
    assert not any(slot in text for slot in SLOT_TOKENS for text in texts)
    assert any("`f`" in text for text in texts)


def test_running_text_spells_each_name_once() -> None:
    token_ids = CODEC.encode_text("`f` takes `x`. Then `f` returns `x`.")
    again = CODEC.decode(view_of(["f", "x"]), token_ids)
    assert again == "`f` f takes `x` x. Then `f` returns `x`."


def test_a_tokenizer_without_slots_is_refused() -> None:
    tokenizer = build_tokenizer(TEXTS, 300)
    tokenizer.get_vocab = lambda: {"<F>": 3}
    with pytest.raises(PolicyLoadError, match="<P1>"):
        SlotCodec(tokenizer)


def test_slots_are_of_the_question_and_the_names_of_the_context_are_spelled() -> None:
    closed = view_of(["fft", "axis"])
    context = (
        Section(
            doc_hash="d", heading="fft", text="`rfft` is not `fft`; it has `axis`."
        ),
    )
    opened = closed.model_copy(update={"context": context})
    prompt, slots = CODEC.encode_prompt(opened), CODEC.encode_prompt(closed)

    assert prompt.banned_token_ids == slots.banned_token_ids
    first, second = (
        CODEC.encode_answer(closed, f"`{name}`")[1] for name in ("fft", "axis")
    )
    # Both names once in the context, and once more in the question behind it.
    assert [one for one in prompt.token_ids if one in {first, second}] == [
        first,
        second,
    ] * 2
    assert CODEC.decode(opened, CODEC.encode_answer(opened, "`fft` takes `axis`.")) == (
        "`fft` takes `axis`."
    )
