"""A server's thoughts, beside the content, in it, or without their marks: one answer is stored."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from rubric_core import (
    Ask,
    Decoding,
    Finish,
    PolicyView,
    Reason,
    Reply,
    Thought,
    ThoughtTags,
)
from rubric_eval.responders.opening import OpenModel, open_model
from rubric_eval.responders.spec import ModelSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.anyio

TRANSPORTS = [("direct", "fake"), ("litellm", "hosted_vllm/fake")]
SPECIAL = ("[THINK]", "[/THINK]")
SHOWN = ("<think>", "</think>")
"""Tokens of the server's model."""


class Server:
    """What a server is like, and what it was asked."""

    def __init__(
        self, message: Callable[[dict[str, Any]], dict[str, Any]], finish: str
    ) -> None:
        self.message, self.finish = message, finish
        self.special: tuple[str, ...] = SPECIAL
        self.template = "<|user|>{question}<|assistant|>"
        self.asked: list[dict[str, Any]] = []
        self.url = ""

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        match path:
            case "/v1/chat/completions":
                self.asked.append(body)
                message = {"role": "assistant", **self.message(body)}
                choice = {"index": 0, "message": message, "finish_reason": self.finish}
                usage = {"prompt_tokens": 3, "completion_tokens": 7, "total_tokens": 10}
                return {
                    "id": "1",
                    "object": "chat.completion",
                    "created": 1,
                    "model": "fake",
                } | {
                    "choices": [choice],
                    "usage": usage,
                }
            case "/tokenize" if "messages" in body:
                prompt = self.template.format(question=body["messages"][0]["content"])
                if body.get("chat_template_kwargs", {}).get("enable_thinking") is False:
                    prompt += "<think>\n\n</think>\n\n"
                return {"tokens": list(map(ord, prompt)), "count": len(prompt)}
            case "/tokenize":
                marks = [
                    one for one in (*SHOWN, *self.special) if one in body["prompt"]
                ]
                return {"tokens": list(range(len(marks))), "token_strs": marks}
            case "/detokenize":
                return {"prompt": "".join(map(chr, body["tokens"]))}
            case "/v1/completions" if "allowed_token_ids" in body:
                text = "" if body["prompt"] in self.special else body["prompt"]
                return {"choices": [{"text": text}]}
            case _:
                return {}


def _handler(server: Server, owner: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send({"data": [{"id": "fake", "owned_by": owner, "root": "fake"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._send(server.answer(self.path, body))

        def _send(self, content: dict[str, Any]) -> None:
            data = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Keep quiet."""

    return Handler


@contextmanager
def _serving(
    message: dict[str, Any] | Callable[[dict[str, Any]], dict[str, Any]],
    *,
    finish: str = "stop",
    owner: str = "vllm",
) -> Iterator[Server]:
    server = Server(message if callable(message) else lambda _: message, finish)
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(server, owner)) as http:
        server.url = f"http://127.0.0.1:{http.server_port}/v1"
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield server
        http.shutdown()
        thread.join()


def _spec(server: Server, **options: object) -> ModelSpec:
    given = {"api_base": server.url, "model": "fake", "transport": "direct", **options}
    return ModelSpec.model_validate(
        {"name": "m", "kind": "server", "options": given, "spec": "m=server"}
    )


async def _reply(model: OpenModel) -> Reply:
    asks = [Ask(view=PolicyView(task_id="t", question="How many?"), seed=0)]
    ((_, reply),) = [found async for found in model.responder.respond(asks, Decoding())]
    return reply


async def _answered(server: Server, **options: object) -> Reply:
    async with await open_model(_spec(server, **options)) as model:
        return await _reply(model)


CLOSED = [
    {"content": "<think>It is 4?</think>\n\nI do not know."},
    {"content": "It is 4?\n</think>\n\nI do not know."},
    {"content": "\n\nI do not know.", "reasoning": "It is 4?"},
    {"content": "I do not know.", "reasoning_content": "It is 4?"},
    {
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "It is 4?"}]},
            {"type": "text", "text": "I do not know."},
        ]
    },
]
UNCLOSED = [
    ({"content": "<think>It is 4? Let me"}, "length"),
    ({"content": None, "reasoning": "It is 4? Let me"}, "length"),
    ({"content": "", "reasoning_content": "It is 4? Let me"}, "length"),
    ({"content": None, "reasoning": "It is 4? I stop here."}, "stop"),
]


@pytest.mark.parametrize(("transport", "name"), TRANSPORTS)
@pytest.mark.parametrize("message", CLOSED)
async def test_one_answer_is_stored_wherever_a_server_puts_the_thought(
    transport: str, name: str, message: dict[str, Any]
) -> None:
    if transport == "litellm" and isinstance(message["content"], list):
        pytest.skip("litellm refuses content in parts")
    with _serving(message) as server:
        reply = await _answered(server, transport=transport, model=name)
    assert reply == Reply(
        text="I do not know.", finish=Finish.COMPLETE, tokens=7, thought=Thought.CLOSED
    )


@pytest.mark.parametrize(("transport", "name"), TRANSPORTS)
@pytest.mark.parametrize(("message", "finish"), UNCLOSED)
async def test_a_thought_that_does_not_end_is_no_answer_wherever_it_stands(
    transport: str, name: str, message: dict[str, Any], finish: str
) -> None:
    with _serving(message, finish=finish) as server:
        reply = await _answered(server, transport=transport, model=name)
    assert reply == Reply(
        text="", finish=Finish.TRUNCATED, tokens=7, thought=Thought.UNCLOSED
    )


async def test_vllm_says_whether_its_template_opens_a_thought() -> None:
    with _serving({"content": "It is 4? Let me"}, finish="length") as server:
        usual = await _answered(server)
        server.template = "<|user|>{question}<|assistant|><think>\n"
        opened = await _answered(server)
        switched = await _answered(
            server, chat_template_kwargs={"enable_thinking": False}
        )
        kept = await _answered(server, thoughts="kept")
    assert (usual.text, usual.thought) == ("It is 4? Let me", Thought.NONE)
    assert (opened.text, opened.thought) == ("", Thought.UNCLOSED)
    assert (switched.text, kept.text) == ("It is 4? Let me",) * 2
    assert server.asked[2]["chat_template_kwargs"] == {"enable_thinking": False}


async def test_an_answer_behind_an_empty_thought_that_a_parser_took_is_one() -> None:
    with _serving({"content": "4", "reasoning": ""}) as server:
        server.template = "{question}<think>\n"
        reply = await _answered(server)
    assert reply.text == "4"


@pytest.mark.parametrize("finish", ["stop", "length"])
async def test_an_answer_that_a_parser_takes_for_a_thought_is_no_thought_without_an_end(
    finish: str,
) -> None:
    with _serving(
        {"content": None, "reasoning_content": "It is 4."}, finish=finish
    ) as server:
        off = await _answered(server, chat_template_kwargs={"enable_thinking": False})
        on = await _answered(server)
    assert (off.text, off.reason) == (None, Reason.BAD_REQUEST)
    assert "reasoning parser takes the answer for a thought" in off.detail
    assert on.thought is Thought.UNCLOSED


async def test_a_context_that_leaves_no_room_for_an_answer_is_no_empty_answer() -> None:
    with _serving({"content": ""}, finish="length") as server:
        full = await _answered(server)
    with _serving({"content": "It is"}, finish="length") as server:
        cut = await _answered(server)
    assert (full.text, full.reason) == (None, Reason.BAD_REQUEST)
    assert "longer than the model's context" in full.detail
    assert (cut.text, cut.finish) == ("It is", Finish.TRUNCATED)


async def test_marks_that_would_vanish_are_asked_for() -> None:
    def message(body: dict[str, Any]) -> dict[str, Any]:
        text = "[THINK]It is 4?[/THINK]I do not know."
        shows = body.get("skip_special_tokens") is False
        return {
            "content": text
            if shows
            else text.replace("[THINK]", "").replace("[/THINK]", "")
        }

    with _serving(message) as server:
        reply = await _answered(server)
    assert (reply.text, reply.thought) == ("I do not know.", Thought.CLOSED)
    with _serving(message, owner="organization") as server:
        options = {"parameters": {"skip_special_tokens": False}}
        assert (await _answered(server, **options)).text == "I do not know."


async def test_a_family_whose_close_is_several_tokens_is_told_by_what_opens_a_thought() -> (
    None
):
    def message(body: dict[str, Any]) -> dict[str, Any]:
        text = "<|think|>It is 4?<|end|><|begin|>assistant<|content|>I do not know."
        shows = body.get("skip_special_tokens") is False
        return {"content": text if shows else "It is 4?assistantI do not know."}

    with _serving(message) as server:
        server.special = ("<|think|>",)
        reply = await _answered(server)
    assert (reply.text, reply.thought) == ("I do not know.", Thought.CLOSED)


async def test_the_tags_of_a_family_of_ones_own_are_a_setting() -> None:
    tags = ThoughtTags(open="((", close="))").model_dump()
    with _serving({"content": "((4?))5"}) as server:
        async with await open_model(_spec(server, thoughts=tags)) as model:
            assert (await _reply(model)).text == "5"
            own = model.entry
        async with await open_model(_spec(server)) as model:
            assert (await _reply(model)).text == "((4?))5"
            usual = model.entry
    assert own.identity["thoughts"] == tags
    assert "thoughts" not in usual.identity
    assert own.fingerprint != usual.fingerprint


async def test_arguments_of_the_template_are_part_of_who_answers() -> None:
    told: list[object] = []
    with _serving({"content": "5"}) as server, capture_logs() as logs:
        for arguments in ({}, {"enable_thinking": False}, {"enable_thinkin": False}):
            async with await open_model(
                _spec(server, chat_template_kwargs=arguments)
            ) as model:
                told.append(model.entry.identity.get("chat_template_kwargs"))
    assert told == [None, {"enable_thinking": False}, {"enable_thinkin": False}]
    warned = [one["key"] for one in logs if one["log_level"] == "warning"]
    assert warned == ["enable_thinkin"]


async def test_a_whole_completion_is_not_to_be_had_of_a_server_that_takes_thoughts_out() -> (
    None
):
    with _serving({"content": "5", "reasoning": "4?"}) as server:
        reply = await _answered(server, thoughts="kept")
    assert reply.reason is Reason.BAD_REQUEST
    assert "without its reasoning parser" in reply.detail
