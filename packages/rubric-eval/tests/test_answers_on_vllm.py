"""Answers of a real vLLM server, of a tiny model with random weights and 512 positions."""

from pathlib import Path

import aiohttp
import pytest

from rubric_core import Ask, Decoding, Finish, PolicyView, Reason, Reply
from rubric_eval.responders.opening import open_model
from rubric_eval.responders.spec import ModelSpec
from rubric_judge.testing.vllm import VLLMServer

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.anyio,
]


def _spec(server: VLLMServer, transport: str) -> ModelSpec:
    model = "served" if transport == "direct" else "hosted_vllm/served"
    return ModelSpec(
        name="m",
        kind="server",
        options={"api_base": server.url, "model": model, "transport": transport},
        spec="m",
    )


async def _replies(
    server: VLLMServer,
    asks: list[Ask],
    decoding: Decoding,
    *,
    transport: str = "direct",
) -> list[Reply]:
    async with await open_model(_spec(server, transport)) as model:
        replies = {
            index: reply
            async for index, reply in model.responder.respond(asks, decoding)
        }
    return [replies[index] for index in range(len(asks))]


def _asks(*questions: str, seed: int = 0) -> list[Ask]:
    views = [
        PolicyView(task_id=f"t{i}", question=text) for i, text in enumerate(questions)
    ]
    return [Ask(view=view, seed=seed + number) for number, view in enumerate(views)]


async def test_the_server_names_its_weights_and_positions(
    vllm: VLLMServer, short_model: Path, positions: int
) -> None:
    async with await open_model(_spec(vllm, "direct")) as model:
        identity = model.entry.identity
    assert identity["positions"] == positions
    assert str(identity["root"]).endswith(short_model.name)


@pytest.mark.parametrize("transport", ["direct", "litellm"])
async def test_questions_are_answered_with_all_the_room_there_is(
    vllm: VLLMServer, transport: str, positions: int
) -> None:
    """1,024 tokens are asked for, of a model that has 512 positions for prompt and answer."""
    asks = _asks("Short?", "why " * 60, "why " * 2000)
    replies = await _replies(vllm, asks, Decoding(), transport=transport)
    assert [reply.finish for reply in replies[:2]] != [None, None]
    for reply in replies[:2]:
        assert reply.text is not None
        assert reply.tokens is not None
        if reply.finish is Finish.TRUNCATED:
            assert 200 < reply.tokens < positions
    assert (replies[2].text, replies[2].reason) == (None, Reason.BAD_REQUEST)


@pytest.mark.parametrize("transport", ["direct", "litellm"])
async def test_a_seed_draws_the_same_again_and_another_differently(
    vllm: VLLMServer, transport: str
) -> None:
    decoding = Decoding(temperature=1.0, max_tokens=24)
    asks = _asks("One?", "Two?", "Three?", seed=7)
    first = await _replies(vllm, asks, decoding, transport=transport)
    again = await _replies(vllm, asks, decoding, transport=transport)
    other = await _replies(vllm, _asks("One?", "Two?", "Three?", seed=70), decoding)
    assert [reply.text for reply in first] == [reply.text for reply in again]
    assert [reply.text for reply in first] != [reply.text for reply in other]


async def test_top_k_and_the_folders_own_defaults_are_as_asked(
    vllm: VLLMServer,
) -> None:
    """generation_config.json of this model says top_k 1: all draws would be the same."""
    asks = [
        ask.model_copy(update={"seed": n}) for n in range(6) for ask in _asks("One?")
    ]
    free = await _replies(vllm, asks, Decoding(temperature=1.0, max_tokens=16))
    narrow = await _replies(
        vllm, asks, Decoding(temperature=1.0, top_k=1, max_tokens=16)
    )
    least = await _replies(
        vllm, asks, Decoding(temperature=1.0, top_p=1e-6, max_tokens=16)
    )
    (greedy,) = await _replies(vllm, asks[:1], Decoding(max_tokens=16))
    assert len({reply.text for reply in free}) > 1
    assert (
        {reply.text for reply in narrow}
        == {reply.text for reply in least}
        == {greedy.text}
    )


@pytest.mark.parametrize("transport", ["direct", "litellm"])
async def test_penalties_of_the_folder_change_no_answer(
    vllm: VLLMServer, transport: str
) -> None:
    """vLLM takes those that a request leaves out from the folder, all of them since 0.31."""
    asks = _asks("One?", "Two?", "Three?")
    replies = await _replies(vllm, asks, Decoding(max_tokens=24), transport=transport)
    neutral = {"temperature": 0.0, "repetition_penalty": 1.0, "max_tokens": 24}
    neutral |= {
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "min_p": 0.0,
        "top_p": 1.0,
    }
    async with aiohttp.ClientSession() as session:
        for ask, reply in zip(asks, replies, strict=True):
            messages = [{"role": "user", "content": ask.view.question}]
            body = {"model": vllm.name, "messages": messages, **neutral}
            async with session.post(
                f"{vllm.url}/chat/completions", json=body
            ) as answer:
                told = await answer.json()
            assert reply.text == told["choices"][0]["message"]["content"].strip()


async def test_a_stop_ends_an_answer_and_is_no_part_of_it(vllm: VLLMServer) -> None:
    (whole,) = await _replies(vllm, _asks("One?"), Decoding(max_tokens=32))
    assert whole.text
    middle = whole.text[len(whole.text) // 2]
    (stopped,) = await _replies(
        vllm, _asks("One?"), Decoding(max_tokens=32, stop=(middle,))
    )
    assert stopped.text == whole.text.partition(middle)[0].strip()
    assert stopped.finish is Finish.COMPLETE
