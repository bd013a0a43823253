"""What only the direct transport decides; `test_client.py` has the contract of both."""

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from aiohttp import web

from rubric_core import JudgeResult, JudgeView, Outcome, Reason
from rubric_judge import JudgeConfig, JudgePool, LLMJudge
from rubric_judge.errors import JudgeSetupError
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.judges.load import load_replicas
from rubric_judge.models import retries
from rubric_judge.testing import FakeEndpoint, Fault

ViewFactory = Callable[..., JudgeView]
Answer = Callable[[web.Request], Any]
pytestmark = pytest.mark.anyio

USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": None}


def _config(url: str | tuple[str, ...], **options: object) -> JudgeConfig:
    settings = {
        "model": "fake",
        "transport": "direct",
        "api_base": url,
        "backoff_s": 0.001,
    }
    return JudgeConfig.model_validate(
        {**settings, "max_transport_attempts": 2, **options}
    )


@asynccontextmanager
async def _serving(answer: Answer) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


async def _judge(answer: Answer, view: JudgeView, **options: object) -> JudgeResult:
    async with _serving(answer) as url, LLMJudge(_config(url, **options)) as judge:
        return await judge.judge(view)


def _saying(
    body: bytes, *, status: int = 200, kind: str = "application/json"
) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=body, status=status, content_type=kind)

    return answer


def _completion(**message: object) -> bytes:
    choice = {"finish_reason": "stop", "message": {"role": "assistant", **message}}
    return json.dumps({"choices": [choice], "usage": USAGE}).encode()


VALID = {"scores": {"names the loss": 2, "gives_limit": 0}, "total": 2, "max_total": 3}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe{}",
        b"[" * 100_000,
        b"{}",
        b'{"choices": null}',
        b'{"choices": []}',
        b'{"choices": ["text"]}',
        b'{"choices": [{"message": null}]}',
        _completion(content="a text").replace(b"{", b'{"error": {"code": 502}, ', 1),
    ],
)
async def test_a_200_that_is_no_chat_completion_is_a_server_error(
    make_view: ViewFactory, body: bytes
) -> None:
    result = await _judge(_saying(body), make_view())
    assert (result.outcome, result.reason) == (Outcome.UNAVAILABLE, Reason.SERVER_ERROR)
    assert result.attempts == 2


async def test_a_content_in_a_form_that_is_not_known_is_not_asked_for_again(
    make_view: ViewFactory,
) -> None:
    result = await _judge(_saying(_completion(content=["a part"])), make_view())
    assert (result.reason, result.attempts) == (Reason.JUDGE_ERROR, 1)


async def test_what_failed_attempts_consumed_is_counted(make_view: ViewFactory) -> None:
    answers = [
        web.json_response({"choices": [], "usage": {"prompt_tokens": 5}}),
        web.json_response({"error": {}, "usage": {"prompt_tokens": 3}}, status=500),
        web.Response(
            body=_completion(content=json.dumps(VALID)), content_type="application/json"
        ),
    ]

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return answers.pop(0)

    result = await _judge(answer, make_view(), max_transport_attempts=3)
    assert (result.outcome, result.attempts) == (Outcome.SCORED, 3)
    assert result.usage is not None
    assert (result.usage.prompt_tokens, result.usage.cached_tokens) == (15, None)
    lost = await _judge(_saying(b'{"usage": {"prompt_tokens": 5}}'), make_view())
    assert lost.usage is not None
    assert (lost.outcome, lost.usage.prompt_tokens) == (Outcome.UNAVAILABLE, 10)


async def test_reasoning_beside_the_answer_is_not_read(make_view: ViewFactory) -> None:
    body = _completion(
        content=json.dumps(VALID), reasoning_content="Full marks!", refusal=None
    )
    result = await _judge(_saying(body, kind="application/vnd.api+json"), make_view())
    assert result.total == 2.0


async def test_a_lone_surrogate_is_an_answer_like_any_other(
    make_view: ViewFactory,
) -> None:
    text = json.dumps(VALID | {"reasoning": "\ud800"})
    result = await _judge(_saying(_completion(content=text)), make_view())
    assert (result.outcome, result.reasoning) == (Outcome.SCORED, "?")


async def test_an_endless_answer_is_left_unread(make_view: ViewFactory) -> None:
    async def pour(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        await stream.prepare(request)
        try:
            while True:
                await stream.write(b" " * 2**20)
        except ConnectionError:
            return stream

    with anyio.fail_after(600):
        result = await _judge(pour, make_view())
    assert (result.outcome, result.reason) == (Outcome.INVALID, Reason.NOT_JSON)
    assert result.detail == "the answer exceeds the size limit"


@pytest.mark.parametrize(
    ("status", "reason"), [(307, Reason.BAD_REQUEST), (502, Reason.SERVER_ERROR)]
)
async def test_other_statuses_have_their_reason(
    make_view: ViewFactory, status: int, reason: Reason
) -> None:
    result = await _judge(
        _saying(b"<html>", status=status, kind="text/html"), make_view()
    )
    assert (result.outcome, result.reason) == (Outcome.UNAVAILABLE, reason)


async def test_parameters_go_into_the_body_and_no_temperature_where_it_is_null(
    make_view: ViewFactory,
) -> None:
    with FakeEndpoint() as endpoint:
        options = {"temperature": None, "parameters": {"reasoning_effort": "low"}}
        async with LLMJudge(
            _config(endpoint.url, model="hosted_vllm/a/b", **options)
        ) as judge:
            await judge.judge(make_view())
    body = endpoint.calls[0].body
    assert (body["model"], body["reasoning_effort"]) == ("a/b", "low")
    assert "temperature" not in body


async def test_many_calls_are_in_flight_at_once_over_kept_connections(
    make_view: ViewFactory,
) -> None:
    with FakeEndpoint(0.5, latency=0.2) as endpoint:
        async with LLMJudge(_config(endpoint.url)) as judge:
            pool = JudgePool(judge, workers=128, micro_batch=1)
            started_s = time.monotonic()
            results = await pool.judge_all([make_view(str(n)) for n in range(256)])
    assert {result.outcome for result in results} == {Outcome.SCORED}
    # One after another they would take 51 s; in two waves, 0.4 s and the work.
    assert time.monotonic() - started_s < 10


def test_a_judge_serves_one_event_loop_after_another(make_view: ViewFactory) -> None:
    async def once() -> JudgeResult:
        async with judge:
            return await judge.judge(make_view())

    with FakeEndpoint(0.5) as endpoint:
        judge = LLMJudge(_config(endpoint.url))
        results = [anyio.run(once) for _ in range(3)]
    assert {result.outcome for result in results} == {Outcome.SCORED}


# --- replicas, and the check before a run ---------------------------------------------------------


async def test_a_task_stays_on_one_of_several_replicas(make_view: ViewFactory) -> None:
    with FakeEndpoint(0.5) as one, FakeEndpoint(0.5) as other:
        config = _config((one.url, other.url))
        async with LLMJudge(config) as judge:
            for number in range(24):
                await judge.judge(make_view(str(number), task_id=f"task {number // 4}"))
        replicas = load_replicas(config)
    assert len({fingerprint(replica) for replica in (*replicas, judge)}) == 1
    assert len(replicas) == 2
    marks = [
        {c.messages[1]["content"].splitlines()[1] for c in e.calls}
        for e in (one, other)
    ]
    assert marks[0].isdisjoint(marks[1])
    assert len(marks[0] | marks[1]) == 6


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Fault.UNAUTHORIZED, "a key is needed and none was sent"),
        (Fault.NOT_FOUND, "no such page: write into `api_base`"),
        (Fault.SERVER_ERROR, "server_error after 2 attempt"),
    ],
)
async def test_a_check_says_what_is_wrong_with_an_endpoint(
    fault: Fault, says: str
) -> None:
    with FakeEndpoint(faults=[fault] * 9) as endpoint:
        async with LLMJudge(_config(endpoint.url)) as judge:
            with pytest.raises(JudgeSetupError) as caught:
                await judge.check()
    for part in (says, "'fake'", endpoint.url, "key: none"):
        assert part in str(caught.value)


async def test_a_check_of_an_endpoint_that_is_not_there_takes_seconds() -> None:
    with FakeEndpoint() as endpoint:
        pass
    with anyio.fail_after(600):
        async with LLMJudge(
            _config(endpoint.url, backoff_s=0.5, max_transport_attempts=50)
        ) as judge:
            with pytest.raises(
                JudgeSetupError, match="check `api_base` and that the server runs"
            ):
                await judge.check()


async def test_servers_that_never_answer_are_found_together_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retries, "_HURRIED_S", 1.0)
    with FakeEndpoint(latency=60) as one, FakeEndpoint(latency=60) as other:
        addresses = (one.url, other.url)
        pool = JudgePool(
            load_replicas(_config(addresses, timeout_s=60, deadline_s=600))
        )
        started_s = time.monotonic()
        with pytest.raises(
            JudgeSetupError, match="within 1 s: check that the server is up"
        ):
            await pool.check()
        assert time.monotonic() - started_s >= 1
        # One after the other, the second would not be asked once the first has not answered.
        assert [len(endpoint.calls) for endpoint in (one, other)] == [1, 1]
        await pool.aclose()

    with FakeEndpoint(latency=60) as endpoint:
        async with LLMJudge(
            _config(endpoint.url, timeout_s=0.2, deadline_s=0.3)
        ) as judge:
            with pytest.raises(
                JudgeSetupError, match=r"not busy, or raise (timeout|deadline)_s"
            ):
                await judge.check()


async def test_a_server_that_never_answers_is_found_in_half_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert retries._HURRIED_S == 30
    monkeypatch.setattr(retries, "_HURRIED_S", 0.5)
    with FakeEndpoint(latency=5_000) as endpoint, anyio.fail_after(600):
        async with LLMJudge(_config(endpoint.url)) as judge:
            with pytest.raises(JudgeSetupError, match=r"no answer within 0\.5 s"):
                await judge.check()


async def test_an_endpoint_that_answers_or_is_busy_passes_the_check() -> None:
    with FakeEndpoint("anything") as endpoint:
        async with LLMJudge(_config(endpoint.url)) as judge:
            await judge.check()
    with FakeEndpoint(faults=[Fault.RATE_LIMIT] * 9) as busy:
        async with LLMJudge(_config(busy.url)) as judge:
            await judge.check()
