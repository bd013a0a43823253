"""A policy as a responder: its own codec, a seed for each answer, and no question too long."""

import itertools
import shutil
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rubric_core import (
    Ask,
    ConfigError,
    Decoding,
    Finish,
    PolicyView,
    Reason,
    Reply,
    Responder,
    ResponderError,
    SaysPromptForm,
)
from rubric_train_openrlhf.policy import (
    TinyConfig,
    build_tiny_policy,
    load_policy,
    sample_groups,
)
from rubric_train_openrlhf.policy.sampling import LiveRows
from rubric_train_openrlhf.responder import PolicyResponder, policy_responder

pytestmark = pytest.mark.anyio

POSITIONS = 128
TEXTS = [
    "What does `cut` do with `x` and `depth`? It cuts `x` at `depth`, and returns a copy."
] * 8
SHAPE = TinyConfig(
    vocab_size=400,
    hidden_size=32,
    intermediate_size=64,
    layers=2,
    heads=2,
    kv_heads=2,
    max_positions=POSITIONS,
)
WARM = Decoding(temperature=1.0, max_tokens=20)
ENDLESS = Decoding(max_tokens=1024)
"""The most likely token of random weights repeats for ever."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policy") / "base"
    build_tiny_policy(TEXTS, SHAPE, seed=0).save(path)
    return path


def _responder(folder: Path, **options: object) -> PolicyResponder:
    return policy_responder({"path": str(folder), "device": "cpu", **options})


def _ask(question: str, seed: int = 0) -> Ask:
    return Ask(view=PolicyView(task_id=question[:20], question=question), seed=seed)


ASKS = [
    _ask(question, seed)
    for question in ("What does `cut` do?", "Why?", "What does `x` mean for `depth`?")
    for seed in (1, 2, 3)
] + [_ask("And alone?", 9)]


async def _replies(
    responder: Responder, asks: list[Ask], decoding: Decoding
) -> list[Reply]:
    replies: dict[int, Reply] = {}
    async for index, reply in responder.respond(asks, decoding):
        assert index not in replies
        replies[index] = reply
    return [replies[index] for index in range(len(asks))]


async def test_an_answer_does_not_depend_on_what_else_is_asked(folder: Path) -> None:
    together = await _replies(_responder(folder), ASKS, WARM)
    for batch_size in (1, 2, 5):
        assert (
            await _replies(_responder(folder, batch_size=batch_size), ASKS, WARM)
            == together
        )
    backwards = await _replies(_responder(folder), ASKS[::-1], WARM)
    assert backwards[::-1] == together
    alone = await _replies(_responder(folder), ASKS[4:5], WARM)
    assert alone == together[4:5]
    assert len({reply.text for reply in together[:3]}) > 1


async def test_greedy_answers_are_those_of_the_training_sampler(folder: Path) -> None:
    policy = load_policy(folder)
    asks = [_ask("What does `cut` do?"), _ask("Why so much longer than the other one?")]
    drawn = sample_groups(
        policy.model,
        [policy.codec.encode_prompt(ask.view) for ask in asks],
        group_size=1,
        max_new_tokens=16,
        temperature=0,
        generator=torch.Generator(),
        eos_token_id=policy.codec.eos_token_id,
        pad_token_id=policy.codec.pad_token_id,
    )
    replies = await _replies(_responder(folder), asks, Decoding(max_tokens=16))
    assert [reply.text for reply in replies] == [
        policy.codec.decode(ask.view, drawn.response(row))
        for row, ask in enumerate(asks)
    ]
    assert [reply.tokens for reply in replies] == drawn.lengths_B.tolist()


async def test_max_tokens_is_cut_to_the_positions_that_are_left(folder: Path) -> None:
    policy = load_policy(folder)
    questions = ["Why?", "why " * 20, "why " * 2000]
    asks = [_ask(question) for question in questions]
    lengths = [len(policy.codec.encode_prompt(ask.view).token_ids) for ask in asks]
    assert lengths[1] < POSITIONS < lengths[2]
    replies = await _replies(_responder(folder), asks, Decoding(max_tokens=1024))
    for length, reply in zip(lengths[:2], replies[:2], strict=True):
        assert reply.tokens is not None
        assert reply.tokens <= POSITIONS - length
        if reply.finish is Finish.TRUNCATED:
            assert reply.tokens == POSITIONS - length
    assert (replies[2].text, replies[2].reason) == (None, Reason.BAD_REQUEST)
    assert (
        f"{lengths[2]} tokens, and the model {POSITIONS} positions" in replies[2].detail
    )


async def test_the_most_likely_token_is_all_that_is_left_of_top_k_1_and_a_tiny_top_p(
    folder: Path,
) -> None:
    greedy = await _replies(_responder(folder), ASKS, Decoding(max_tokens=20))
    for narrow in ({"top_k": 1}, {"top_p": 1e-9}):
        decoding = Decoding(temperature=1.0, max_tokens=20, **narrow)  # pyright: ignore[reportArgumentType]
        assert await _replies(_responder(folder), ASKS, decoding) == greedy


async def test_a_stop_ends_an_answer_and_is_no_part_of_it(folder: Path) -> None:
    (whole,) = await _replies(_responder(folder), ASKS[:1], Decoding(max_tokens=40))
    assert whole.text
    stop = whole.text[len(whole.text) // 2]
    (stopped,) = await _replies(
        _responder(folder), ASKS[:1], Decoding(max_tokens=40, stop=(stop,))
    )
    assert stopped.text == whole.text.partition(stop)[0]
    assert stopped.finish is Finish.COMPLETE
    assert stopped.tokens is not None
    assert whole.tokens is not None
    assert 1 <= stopped.tokens <= whole.tokens


async def test_the_names_of_a_question_stand_in_its_answers(folder: Path) -> None:
    asks = [
        _ask("What does `gather_rows` do with `table`?", seed) for seed in range(40)
    ]
    replies = await _replies(
        _responder(folder), asks, Decoding(temperature=1.0, max_tokens=20)
    )
    text = " ".join(reply.text or "" for reply in replies)
    assert "`gather_rows`" in text
    assert "<P2>" not in text  # a slot that the question does not have


async def test_identity_is_by_content_and_number_format(
    folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    build_tiny_policy(TEXTS, SHAPE, seed=1).save(tmp_path / "other")
    base = _responder(folder).identity
    assert base == _responder(tmp_path / "copy", batch_size=3).identity
    assert base != _responder(tmp_path / "other").identity
    assert base != _responder(folder, dtype="bfloat16").identity
    assert str(folder) not in str(base)


async def test_weights_that_are_no_numbers_are_no_answers(
    folder: Path, tmp_path: Path
) -> None:
    policy = load_policy(folder)
    with torch.no_grad():
        policy.model.get_output_embeddings().weight.fill_(float("nan"))
    policy.save(tmp_path / "broken")
    replies = await _replies(_responder(tmp_path / "broken"), ASKS[:2], WARM)
    assert {reply.reason for reply in replies} == {Reason.SERVER_ERROR}


CHOICES = ("A", "B", "it cuts a copy", "D")


def _choosing(question: str) -> Ask:
    return _ask(question).model_copy(update={"choices": CHOICES})


async def test_the_likeliest_choice_is_by_the_log_probabilities_of_a_plain_pass(
    folder: Path,
) -> None:
    policy = load_policy(folder)
    asks = [_choosing("What does `cut` do?"), _choosing("Why?"), _choosing("Why?")]

    replies = await _replies(_responder(folder), [*ASKS[:2], *asks], WARM)

    assert replies[:2] == await _replies(_responder(folder), ASKS[:2], WARM)
    for ask, reply in zip(asks, replies[2:], strict=True):
        prompt = policy.codec.encode_prompt(ask.view)
        expected: list[float] = []
        for choice in CHOICES:
            tokens = policy.codec.encode_answer(ask.view, choice)[:-1]
            with torch.no_grad():
                logits_SV = policy.model(
                    torch.tensor([[*prompt.token_ids, *tokens]])
                ).logits[0]
            logits_SV[:, list(prompt.banned_token_ids)] = -torch.inf
            logprobs_SV = logits_SV.log_softmax(-1)[-len(tokens) - 1 : -1]
            expected.append(float(logprobs_SV[range(len(tokens)), list(tokens)].sum()))
        assert reply.choice_logprobs == pytest.approx(expected, abs=1e-4)
        assert reply.text == CHOICES[expected.index(max(expected))]
    assert replies[3] == replies[4]
    assert len({reply.choice_logprobs for reply in replies[2:]}) == 2


async def test_a_choice_behind_a_prompt_that_does_not_fit_or_of_no_numbers_is_none(
    folder: Path, tmp_path: Path
) -> None:
    (long,) = await _replies(_responder(folder), [_choosing("why " * 2000)], WARM)
    assert (long.text, long.reason) == (None, Reason.BAD_REQUEST)
    policy = load_policy(folder)
    with torch.no_grad():
        policy.model.get_output_embeddings().weight.fill_(float("nan"))
    policy.save(tmp_path / "broken")
    (broken,) = await _replies(
        _responder(tmp_path / "broken"), [_choosing("Why?")], WARM
    )
    assert (broken.text, broken.reason) == (None, Reason.SERVER_ERROR)


async def test_a_folder_that_is_no_policy_is_refused(
    folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="no model folder"):
        _responder(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="did you mean 'device'"):
        _responder(folder, devise="cpu")
    (tmp_path / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ResponderError, match="cannot answer"):
        await _replies(_responder(tmp_path), ASKS[:1], WARM)


async def test_an_answer_is_given_while_longer_ones_of_its_batch_are_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = [_ask("Why?"), _ask("why " * 60)]  # few positions are left for the second
    codec, going_on = load_policy(folder).codec, threading.Event()
    room = POSITIONS - len(codec.encode_prompt(asks[1].view).token_ids)
    advance, steps = LiveRows.advance, itertools.count(1)

    def held(rows: LiveRows, *given: torch.Tensor | None) -> None:
        assert next(steps) != room + 2 or going_on.wait(600), (
            "nothing was given before the end"
        )
        advance(rows, *given)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(LiveRows, "advance", held)
    given: list[int] = []
    async for index, _ in _responder(folder, batch_size=2).respond(asks, ENDLESS):
        given.append(index)
        going_on.set()
    assert given == [1, 0]


async def test_a_template_s_end_ends_an_answer_whatever_the_tokenizer_says(
    misset_model: Path,
) -> None:
    (reply,) = await _replies(
        _responder(misset_model), [_ask("Why?")], Decoding(max_tokens=8)
    )
    assert (reply.text, reply.finish, reply.tokens) == ("", Finish.COMPLETE, 1)


async def test_weights_load_as_the_folder_has_them_unless_it_is_said(
    folder: Path, tmp_path: Path
) -> None:
    replace(load_policy(folder), saved_dtype=torch.bfloat16).save(tmp_path / "half")
    for options, dtype in (({}, torch.bfloat16), ({"dtype": "float32"}, torch.float32)):
        responder = _responder(tmp_path / "half", **options)
        await _replies(responder, ASKS[:1], WARM)
        assert responder._policy is not None
        assert responder._policy.model.dtype == dtype


async def test_who_leaves_early_stops_the_work(folder: Path) -> None:
    stream = _responder(folder, batch_size=1).respond(ASKS, WARM)
    assert isinstance(stream, AsyncGenerator)
    async with aclosing(stream):
        await anext(stream)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_policy_says_how_questions_are_put_to_it(
    folder: Path, tmp_path: Path
) -> None:
    assert _responder(folder).prompt_form == "slots"
    for name, extra, form in (
        ("plain", "", "plain"),
        ("chat", "chat_template.jinja", "chat"),
    ):
        path = tmp_path / name
        shutil.copytree(folder, path)
        (path / "slots.json").unlink()
        if extra:
            (path / extra).write_text("{{ messages[0].content }}", encoding="utf-8")
        responder = _responder(path)
        assert isinstance(responder, SaysPromptForm)
        assert responder.prompt_form == form
    # Not a part of what it is: answers that are there stay its own.
    assert "prompt_form" not in _responder(folder).identity
