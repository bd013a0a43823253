"""`granularity: k`: a rubric in calls of k criteria, and a server that cuts long replies off."""

import itertools
import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import anyio
import pytest

from rubric_core import (
    ConfigError,
    Criterion,
    JudgeResult,
    JudgeView,
    Outcome,
    Reason,
    Rubric,
)
from rubric_judge import JudgeConfig, LLMJudge, judge_spec
from rubric_judge.testing import FakeEndpoint, Fault
from rubric_judge.testing.replies import reply_text, weights_asked_for

ViewFactory = Callable[..., JudgeView]
CHARS_PER_TOKEN = 4


class _Cutting(BaseHTTPRequestHandler):
    """A server that awards full marks, and cuts its reply at the `max_tokens` of the request."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its own name
        """Print nothing."""

    def do_POST(self) -> None:  # the library's name
        length = int(self.headers["Content-Length"])
        body = json.loads(self.rfile.read(length))
        weights = weights_asked_for(body)
        text = reply_text(weights, weights, None)
        room = body["max_tokens"] * CHARS_PER_TOKEN
        finish_reason = "length" if len(text) > room else "stop"
        message = {"role": "assistant", "content": text[:room]}
        choice = {"index": 0, "finish_reason": finish_reason, "message": message}
        usage = {
            "prompt_tokens": 100,
            "completion_tokens": min(len(text) // CHARS_PER_TOKEN, body["max_tokens"]),
        }
        answer = {"model": "cutting", "choices": [choice], "usage": usage}
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:  # the library's name
        """There is no list of models."""
        self.send_error(404)


@pytest.fixture(scope="module")
def cutting() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Cutting) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def _judged(url: str, view: JudgeView, **options: object) -> JudgeResult:
    settings: dict[str, Any] = {
        "model": "openai/fake",
        "api_base": url,
        "backoff_s": 0.001,
        "max_transport_attempts": 2,
    }
    config = JudgeConfig.model_validate(settings | options)

    async def judge() -> JudgeResult:
        async with LLMJudge(config) as judge:
            return await judge.judge(view)

    return anyio.run(judge)


@pytest.fixture
def long(make_view: ViewFactory) -> JudgeView:
    """Forty criteria."""
    criteria = tuple(
        Criterion(id=f"criterion {number}", weight=1.0, description=f"Says {number}.")
        for number in range(40)
    )
    return make_view(rubric=Rubric(criteria=criteria))


def test_a_long_rubric_is_cut_off_in_one_call_and_scored_in_five(
    cutting: str, long: JudgeView
) -> None:
    whole = _judged(cutting, long, max_tokens=150)
    parts = _judged(cutting, long, max_tokens=150, granularity=8)

    assert (whole.outcome, whole.reason) == (Outcome.INVALID, Reason.TRUNCATED)
    assert parts.outcome is Outcome.SCORED
    assert (parts.total, parts.max_total, parts.attempts) == (40.0, 40.0, 5)
    assert tuple(parts.scores) == long.rubric.ids


@pytest.mark.parametrize(
    ("k", "sizes"), [(1, [1] * 6), (4, [2, 4]), (6, [6]), (99, [6])]
)
def test_criteria_are_asked_in_their_order_k_at_a_time(
    make_view: ViewFactory, k: int, sizes: list[int]
) -> None:
    criteria = tuple(
        Criterion(id=f"c{number}", weight=float(number)) for number in range(7)
    )
    with FakeEndpoint(1.0) as endpoint:
        result = _judged(
            endpoint.url, make_view(rubric=Rubric(criteria=criteria)), granularity=k
        )

    asked = sorted((list(call.weights) for call in endpoint.calls), key=len)
    assert [len(names) for names in asked] == sizes
    together = itertools.chain.from_iterable(sorted(asked))
    assert list(together) == [f"c{number}" for number in range(1, 7)]
    assert list(result.scores.items()) == [(f"c{n}", float(n)) for n in range(7)]
    assert result.judge.endswith(f" by {k}")


def test_every_call_has_the_same_layout_behind_one_prefix(long: JudgeView) -> None:
    with FakeEndpoint(1.0) as endpoint:
        _judged(endpoint.url, long, granularity=8)
        several = [call.messages for call in endpoint.calls]
    with FakeEndpoint(1.0) as endpoint:
        _judged(endpoint.url, long, granularity=40)
        (alone,) = [call.messages for call in endpoint.calls]

    prompts = [messages[-1]["content"] for messages in several]
    end = prompts[0].index("CRITERIA (total weight")
    assert "----- END RESPONSE" in prompts[0][:end]
    assert {prompt[:end] for prompt in prompts} == {alone[-1]["content"][:end]}
    assert {messages[0]["content"] for messages in several} == {alone[0]["content"]}


def test_one_part_that_fails_makes_the_judgement_what_it_is(long: JudgeView) -> None:
    with FakeEndpoint(faults=[None, Fault.MISSING_ID]) as endpoint:
        invalid = _judged(endpoint.url, long, granularity=20)
    with FakeEndpoint(faults=[None, Fault.BAD_REQUEST]) as endpoint:
        away = _judged(endpoint.url, long, granularity=20)

    assert (invalid.outcome, invalid.reason) == (
        Outcome.INVALID,
        Reason.MISSING_CRITERION,
    )
    assert (away.outcome, away.reason) == (Outcome.UNAVAILABLE, Reason.BAD_REQUEST)
    for result in (invalid, away):
        assert result.detail.startswith("criteria 'criterion ")
        assert result.scores == {}
        assert result.attempts == 2


def test_with_a_warm_call_the_first_part_goes_alone(long: JudgeView) -> None:
    with FakeEndpoint(latency=0.05) as endpoint:
        _judged(endpoint.url, long, granularity=10, warm_call=True)

    begun_s = [call.at_s for call in endpoint.calls]
    assert begun_s[1] - begun_s[0] > 0.04
    assert list(endpoint.calls[0].weights) == [f"criterion {n}" for n in range(10)]


def test_quotes_of_all_parts_are_kept(make_view: ViewFactory) -> None:
    def award(call: Any) -> str:
        said = {
            "reasoning": "r",
            "evidence": dict.fromkeys(call.weights, "minimises the cross entropy"),
            "scores": dict(call.weights),
            "total": sum(call.weights.values()),
            "max_total": sum(call.weights.values()),
        }
        return json.dumps(said)

    criteria = tuple(Criterion(id=f"c{number}", weight=1.0) for number in range(3))
    with FakeEndpoint(award) as endpoint:
        result = _judged(
            endpoint.url,
            make_view(rubric=Rubric(criteria=criteria)),
            granularity=2,
            evidence="require",
        )

    assert list(result.evidence) == ["c0", "c1", "c2"]
    assert result.reasoning == "c0, c1: r\nc2: r"


@pytest.mark.parametrize("value", [0, -3, True, 1.5, "8", "each", None, [2]])
def test_other_granularities_are_refused(value: object) -> None:
    settings = {"type": "llm", "model": "openai/fake", "granularity": value}
    with pytest.raises(ConfigError, match="a number from 1 for so many of them"):
        judge_spec(settings)
