"""Servers that refuse a field, name it otherwise, fill one in, or say things in their own way."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from rubric_core import JudgeView, Outcome, Reason
from rubric_judge import JudgeConfig, JudgeSetupError, LLMJudge
from rubric_judge.errors import JudgeTransportError
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.judges.load import load_judge
from rubric_judge.testing import FakeEndpoint, Fault, ServedModel

ViewFactory = Callable[..., JudgeView]
Body = dict[str, Any]
Respond = Callable[[Body], tuple[int, Body]]
pytestmark = pytest.mark.anyio

TEXT = json.dumps(
    {"scores": {"names the loss": 2, "gives_limit": 0}, "total": 2, "max_total": 3}
)
WAYS: dict[str, dict[str, object]] = {
    "direct": {"model": "fake", "transport": "direct"},
    "litellm": {"model": "openai/fake", "transport": "litellm"},
}
every_way = pytest.mark.parametrize("way", WAYS)
VLLMS = {
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}


def _said(
    body: Body, content: object = None, finish: str = "stop", **message: object
) -> Body:
    is_judged = "SOURCE PASSAGE" in json.dumps(body["messages"])
    text = content if content is not None else TEXT if is_judged else '{"ready": true}'
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "fake",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", "content": text, **message},
            }
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
    }


def _refusal(message: str = "Zyzzyva", **fields: object) -> Body:
    return {"error": {"message": message, "type": "invalid_request_error"} | fields}


@asynccontextmanager
async def _serving(
    respond: Respond, *, owner: str = ""
) -> AsyncGenerator[tuple[str, list[Body]]]:
    seen: list[Body] = []

    async def answer(request: web.Request) -> web.Response:
        body: Body = await request.json()
        seen.append(body)
        status, said = respond(body)
        return web.json_response(said, status=status)

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "fake", "owned_by": owner}]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1", seen
    finally:
        await runner.cleanup()


def _config(url: str, way: str, **options: object) -> JudgeConfig:
    return JudgeConfig.model_validate(
        {"api_base": url, "backoff_s": 0.001, **WAYS[way], **options}
    )


def _refusing(field: str, **error: object) -> Respond:
    def respond(body: Body) -> tuple[int, Body]:
        if field in body:
            return 400, {"error": {"message": "Zyzzyva", "param": field, **error}}
        return 200, _said(body)

    return respond


@every_way
async def test_a_limit_that_has_another_name_is_sent_by_it_from_then_on(
    make_view: ViewFactory, way: str
) -> None:
    respond = _refusing("max_tokens", code="unsupported_parameter")
    async with _serving(respond) as (url, seen), LLMJudge(_config(url, way)) as judge:
        await judge.check()
        first = await judge.judge(make_view())
    assert first.outcome is Outcome.SCORED
    assert [body.get("max_completion_tokens") for body in seen] == [
        None,
        16_000,
        16_000,
    ]
    assert ["max_tokens" in body for body in seen] == [True, False, False]


async def test_a_request_that_is_sent_again_counts_as_one_attempt_more(
    make_view: ViewFactory,
) -> None:
    respond = _refusing("max_tokens", code="unsupported_parameter")
    async with _serving(respond) as (url, _), LLMJudge(_config(url, "direct")) as judge:
        assert (await judge.judge(make_view())).attempts == 2
        assert (await judge.judge(make_view())).attempts == 1


@every_way
async def test_no_limit_is_sent_where_none_is_wanted(
    make_view: ViewFactory, way: str
) -> None:
    async with _serving(lambda body: (200, _said(body))) as (url, seen):
        for options in (
            {"max_tokens": None},
            {"parameters": {"max_completion_tokens": 50}},
        ):
            async with LLMJudge(_config(url, way, **options)) as judge:
                assert (await judge.judge(make_view())).outcome is Outcome.SCORED
    assert ["max_tokens" in body for body in seen] == [False, False]
    assert [body.get("max_completion_tokens") for body in seen] == [None, 50]


def test_two_names_of_one_limit_are_refused() -> None:
    with pytest.raises(ValueError, match="one limit by two names"):
        JudgeConfig(model="m", max_tokens=5, parameters={"max_completion_tokens": 5})


@every_way
@pytest.mark.parametrize(
    ("field", "setting"),
    [
        ("temperature", "`temperature: null`"),
        ("response_format", "`schema: json_object`"),
    ],
)
async def test_a_check_names_the_setting_of_a_field_that_is_refused(
    way: str, field: str, setting: str
) -> None:
    async with (
        _serving(_refusing(field)) as (url, _),
        LLMJudge(_config(url, way)) as judge,
    ):
        with pytest.raises(JudgeSetupError) as caught:
            await judge.check()
    assert f"the server refuses `{field}`: set {setting}" in str(caught.value)
    assert "Zyzzyva" not in str(caught.value)


async def test_what_litellm_does_not_send_is_not_said_to_be_refused_by_a_server(
    make_view: ViewFactory,
) -> None:
    async with _serving(lambda body: (200, _said(body))) as (url, seen):
        config = _config(url, "litellm", model="openai/gpt-5-mini")
        async with LLMJudge(config) as judge:
            result = await judge.judge(make_view())
    assert (result.reason, seen) == (Reason.BAD_REQUEST, [])
    assert "nothing was sent" in result.detail
    assert "`temperature: null`" in result.detail
    assert "server" not in result.detail


@every_way
@pytest.mark.parametrize("schema", ["json_object", "prompt"])
async def test_a_form_that_no_server_enforces_stands_in_the_prompt(
    make_view: ViewFactory, way: str, schema: str
) -> None:
    with FakeEndpoint(0.5) as endpoint:
        async with LLMJudge(_config(endpoint.url, way, schema=schema)) as judge:
            await judge.check()
            result = await judge.judge(make_view())
    assert (result.outcome, result.total) == (Outcome.SCORED, 1.5)
    sent = [call.body.get("response_format") for call in endpoint.calls]
    assert sent == [{"type": "json_object"} if schema == "json_object" else None] * 2
    assert "names the loss" in endpoint.calls[1].messages[0]["content"]


def test_the_form_is_part_of_who_judges_only_where_it_is_another() -> None:
    prints = {
        fingerprint(
            load_judge(JudgeConfig.model_validate({"model": "anthropic/x", **options}))
        )
        for options in ({}, {"schema": "json_schema"}, {"schema": "json_object"})
    }
    assert len(prints) == 2


@every_way
@pytest.mark.parametrize("outcome", ["invalid", "unavailable"])
async def test_a_response_that_is_too_long_is_no_better_off_than_a_bad_one(
    make_view: ViewFactory, way: str, outcome: str
) -> None:
    def respond(body: Body) -> tuple[int, Body]:
        if len(str(body["messages"])) > 20_000:
            return 400, _refusal(
                "This model's maximum context length is 8 tokens", code=400
            )
        return 200, _said(body)

    async with (
        _serving(respond) as (url, _),
        LLMJudge(_config(url, way, on_full_context=outcome)) as judge,
    ):
        await judge.check()
        short = await judge.judge(make_view())
        long = await judge.judge(make_view("x" * 30_000))
    reason = Reason.CONTEXT_FULL if outcome == "invalid" else Reason.BAD_REQUEST
    assert (short.outcome, long.outcome) == (Outcome.SCORED, Outcome(outcome))
    assert (long.reason, long.attempts) == (reason, 1)
    for word in ("context", "`passage_chars`", "`on_full_context`"):
        assert word in long.detail


async def test_a_check_says_that_the_context_has_no_room_for_any_answer() -> None:
    async with (
        _serving(lambda _: (400, _refusal("the context length is 8"))) as (url, _),
        LLMJudge(_config(url, "direct")) as judge,
    ):
        with pytest.raises(JudgeSetupError, match="max_tokens=16000 do not fit"):
            await judge.check()


async def test_a_limit_that_the_server_lowers_is_a_full_context(
    make_view: ViewFactory,
) -> None:
    written = 0

    def respond(body: Body) -> tuple[int, Body]:
        said = _said(body, TEXT[:20], "length")
        said["usage"] = {
            "prompt_tokens": 90,
            "completion_tokens": written,
            "total_tokens": 0,
        }
        return 200, said

    found: list[Reason | None] = []
    for count in (100, 92, 91, 3):
        written = count
        async with (
            _serving(respond) as (url, _),
            LLMJudge(_config(url, "direct", max_tokens=100)) as judge,
        ):
            found.append((await judge.judge(make_view())).reason)
    assert found == [Reason.TRUNCATED] * 2 + [Reason.CONTEXT_FULL] * 2


@every_way
async def test_no_money_is_said_at_once(make_view: ViewFactory, way: str) -> None:
    error = _refusal(code="insufficient_quota")
    async with (
        _serving(lambda _: (429, error)) as (url, seen),
        LLMJudge(_config(url, way)) as judge,
    ):
        with pytest.raises(JudgeSetupError, match="out of credit"):
            await judge.check()
        result = await judge.judge(make_view())
    assert (result.reason, result.attempts, len(seen)) == (Reason.OUT_OF_CREDIT, 1, 2)


async def test_a_limit_in_the_body_of_a_success_is_told_to_the_limiter(
    make_view: ViewFactory,
) -> None:
    async with (
        _serving(lambda _: (200, _refusal(code=429))) as (url, seen),
        LLMJudge(_config(url, "direct", max_transport_attempts=2)) as judge,
    ):
        result = await judge.judge(make_view())
        heard = judge.limiter.statistics().rate_limited
    assert (result.reason, heard, len(seen)) == (Reason.RATE_LIMITED, 2, 2)


@every_way
async def test_an_answer_in_a_form_that_is_not_known_is_paid_for_once(
    make_view: ViewFactory, way: str
) -> None:
    respond: Respond = lambda body: (200, _said(body, [{"type": "video"}]))  # noqa: E731
    async with _serving(respond) as (url, seen), LLMJudge(_config(url, way)) as judge:
        result = await judge.judge(make_view())
    assert (result.reason, len(seen)) == (Reason.JUDGE_ERROR, 1)


@pytest.mark.parametrize("content", ["", None])
async def test_the_first_word_of_a_thought_is_no_verdict(
    make_view: ViewFactory, content: str | None
) -> None:
    """As vLLM's reasoning parsers answer a call for one token of a model that thinks."""
    yes = {"token": "Yes", "logprob": -0.1, "bytes": [89, 101, 115]}
    message = {"role": "assistant", "content": content, "reasoning_content": "Yes"}
    choice = {
        "message": message,
        "finish_reason": "length",
        "logprobs": {"content": [{**yes, "top_logprobs": [yes]}]},
    }
    async with _serving(lambda _: (200, {"choices": [choice]})) as (url, _):
        config = JudgeConfig(
            model="openai/m", api_base=url, verdict="probability", transport="direct"
        )
        async with LLMJudge(config) as judge:
            result = await judge.judge(make_view())
            with pytest.raises(JudgeSetupError, match="without a reasoning parser"):
                await judge.check()
    assert (result.outcome, result.reason) == (Outcome.INVALID, Reason.NO_VERDICT)
    assert "begins with a thought" in result.detail


@every_way
@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            {"content": "", "reasoning_content": TEXT},
            ("reasoning_content", "--reasoning-parser"),
        ),
        (
            {"content": f"So.\n</think>\n{TEXT}"},
            ("</think>", "--reasoning-parser deepseek_r1"),
        ),
    ],
)
async def test_a_reply_that_a_server_puts_elsewhere_is_not_credited_but_said(
    make_view: ViewFactory, way: str, message: Body, words: tuple[str, ...]
) -> None:
    respond: Respond = lambda body: (200, _said(body, **message))  # noqa: E731
    async with _serving(respond) as (url, _), LLMJudge(_config(url, way)) as judge:
        result = await judge.judge(make_view())
    assert result.outcome is Outcome.INVALID
    assert all(word in result.detail for word in words)


async def test_the_end_of_a_thought_within_a_reply_is_text(
    make_view: ViewFactory,
) -> None:
    text = json.dumps({**json.loads(TEXT), "reasoning": "It writes </think> itself."})
    async with (
        _serving(lambda body: (200, _said(body, text))) as (url, _),
        LLMJudge(_config(url, "direct")) as judge,
    ):
        assert (await judge.judge(make_view())).outcome is Outcome.SCORED


async def test_thoughts_that_are_counted_apart_are_counted(
    make_view: ViewFactory,
) -> None:
    def respond(body: Body) -> tuple[int, Body]:
        usage = {"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135}
        return 200, {**_said(body), "usage": usage}

    async with _serving(respond) as (url, _), LLMJudge(_config(url, "direct")) as judge:
        result = await judge.judge(make_view())
    assert result.usage is not None
    assert (result.usage.prompt_tokens, result.usage.completion_tokens) == (32, 103)


OWNERS: dict[str, Mapping[str, object]] = {
    "vllm": VLLMS,
    "sglang": VLLMS,
    "llamacpp": {
        "top_k": 0,
        "repeat_penalty": 1.0,
        "typical_p": 1.0,
        "dry_multiplier": 0.0,
    },
    "openai": {},
}


@every_way
@pytest.mark.parametrize("owner", OWNERS)
async def test_a_server_that_fills_fields_in_is_sent_neutral_ones(
    make_view: ViewFactory, way: str, owner: str
) -> None:
    async with (
        _serving(lambda body: (200, _said(body)), owner=owner) as (url, seen),
        LLMJudge(_config(url, way)) as judge,
    ):
        await judge.judge(make_view())
    sent = {name: seen[0].get(name) for name in OWNERS[owner]}
    assert sent == OWNERS[owner]
    usual = {"model", "messages", "max_tokens", "temperature", "response_format"}
    assert (set(seen[0]) <= usual) == (owner == "openai")


async def test_what_the_configuration_says_is_sent_as_it_is(
    make_view: ViewFactory,
) -> None:
    async with _serving(lambda body: (200, _said(body)), owner="vllm") as (url, seen):
        config = _config(
            url, "direct", parameters={"top_p": 0.9, "presence_penalty": 0.5}
        )
        async with LLMJudge(config) as judge:
            await judge.judge(make_view())
    assert (seen[0]["top_p"], seen[0]["presence_penalty"], seen[0]["min_p"]) == (
        0.9,
        0.5,
        0.0,
    )


@every_way
async def test_a_neutral_field_that_is_refused_is_left_out_and_said(
    make_view: ViewFactory, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        _serving(_refusing("min_p"), owner="vllm") as (url, seen),
        LLMJudge(_config(url, way)) as judge,
    ):
        results = [await judge.judge(make_view()) for _ in range(2)]
    assert {result.outcome for result in results} == {Outcome.SCORED}
    assert ["min_p" in body for body in seen] == [True, False, False]
    assert seen[-1]["repetition_penalty"] == 1.0
    said = capsys.readouterr().out
    assert said.count("judge.decoding.filled_in") == 1
    assert "min_p" in said


async def test_a_field_of_the_configuration_that_is_refused_is_not_left_out_in_silence(
    make_view: ViewFactory,
) -> None:
    async with _serving(_refusing("min_p"), owner="vllm") as (url, seen):
        config = _config(url, "direct", parameters={"min_p": 0.1})
        async with LLMJudge(config) as judge:
            result = await judge.judge(make_view())
    assert (result.reason, len(seen)) == (Reason.BAD_REQUEST, 1)
    assert "`min_p`: take it out of `parameters`" in result.detail


async def test_what_a_server_cannot_be_told_is_said(
    make_view: ViewFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        _serving(lambda body: (200, _said(body)), owner="library") as (url, _),
        LLMJudge(_config(url, "direct")) as judge,
    ):
        await judge.judge(make_view())
        await judge.judge(make_view())
    said = capsys.readouterr().out
    assert said.count("judge.decoding.filled_in") == 1
    assert "repeat_penalty" in said


async def test_a_server_that_answers_no_more_is_asked_again_who_it_is(
    make_view: ViewFactory,
) -> None:
    with FakeEndpoint(0.5, served=ServedModel(owner="vllm")) as endpoint:
        url = endpoint.url
    async with LLMJudge(_config(url, "direct", max_transport_attempts=1)) as judge:
        assert (await judge.judge(make_view())).reason is Reason.CONNECTION
        with FakeEndpoint(0.5, port=int(url.split(":")[2].split("/")[0])) as endpoint:
            assert (await judge.judge(make_view())).outcome is Outcome.SCORED
    assert endpoint.calls[0].body["repetition_penalty"] == 1.0


async def test_the_endpoint_of_tests_uses_its_tokens_up_where_it_cuts_off(
    make_view: ViewFactory,
) -> None:
    with FakeEndpoint(0.5, faults=[Fault.TRUNCATED]) as endpoint:
        async with LLMJudge(_config(endpoint.url, "direct")) as judge:
            assert (await judge.judge(make_view())).reason is Reason.TRUNCATED


def test_an_error_says_nothing_of_a_field_by_itself() -> None:
    assert JudgeTransportError(Reason.TIMEOUT, "late").refused == ""
