from __future__ import annotations

import contextlib
import json
import random
import statistics
import threading
import time
import urllib.error
import urllib.request
from typing import cast

import pytest

from rubric_core import Rubric
from rubric_judge.reply_model import reply_model
from rubric_judge.testing import FakeCall, FakeEndpoint, Fault, Latency, log_normal


def _ask(endpoint: FakeEndpoint, rubric: Rubric | None = None) -> dict[str, object]:
    body: dict[str, object] = {"model": "m", "messages": [{"role": "user", "content": "Score it."}]}
    if rubric is not None:
        schema = reply_model(rubric, "paper").model_json_schema()
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "JudgeReply", "schema": schema},
        }
    request = urllib.request.Request(  # noqa: S310  # our own server
        f"{endpoint.url}/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=5) as response:  # noqa: S310  # as above
        return cast("dict[str, object]", json.load(response))


def _content(answer: dict[str, object]) -> dict[str, object]:
    choices = cast("list[dict[str, dict[str, str]]]", answer["choices"])
    return cast("dict[str, object]", json.loads(choices[0]["message"]["content"]))


def test_a_synchronous_client_gets_a_reply_for_any_rubric(rubric: Rubric) -> None:
    with FakeEndpoint(0.5) as endpoint:
        reply = _content(_ask(endpoint, rubric))
    assert reply["scores"] == {"names the loss": 1.0, "gives_limit": 0.5}
    assert (reply["total"], reply["max_total"]) == (1.5, 3.0)
    assert endpoint.calls[0].weights == {"names the loss": 2.0, "gives_limit": 1.0}


def test_awards_may_be_scores_or_the_text_itself(rubric: Rubric) -> None:
    scores = {"names the loss": 0.25, "gives_limit": 1.0}
    with FakeEndpoint(lambda call: scores if call.number == 0 else '{"a": 1}') as endpoint:
        assert _content(_ask(endpoint, rubric))["scores"] == scores
        assert _content(_ask(endpoint)) == {"a": 1}


def test_faults_follow_the_script_and_then_stop(rubric: Rubric) -> None:
    with FakeEndpoint(faults=[Fault.SERVER_ERROR, None, Fault.RATE_LIMIT_RETRY_AFTER]) as endpoint:
        statuses: list[int] = []
        for _ in range(4):
            try:
                _ask(endpoint, rubric)
                statuses.append(200)
            except urllib.error.HTTPError as error:
                statuses.append(error.code)
                retry_after = error.headers["Retry-After"]
                error.close()
    assert statuses == [500, 200, 429, 200]
    assert retry_after == "0"
    assert [call.fault for call in endpoint.calls] == [
        Fault.SERVER_ERROR,
        None,
        Fault.RATE_LIMIT_RETRY_AFTER,
        None,
    ]


def test_faults_by_probability_repeat_with_the_seed(rubric: Rubric) -> None:
    def drawn(seed: int) -> list[Fault | None]:
        with FakeEndpoint(faults={Fault.NAN: 0.3, Fault.PROSE: 0.2}, seed=seed) as endpoint:
            for _ in range(40):
                _ask(endpoint, rubric)
        return [call.fault for call in endpoint.calls]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert {None, Fault.NAN, Fault.PROSE} == set(drawn(1))


@pytest.mark.parametrize("latency", [0.2, lambda _: 0.2])
def test_answers_take_the_given_time(rubric: Rubric, latency: float | Latency) -> None:
    started_s = time.monotonic()
    with FakeEndpoint(latency=latency) as endpoint:
        _ask(endpoint, rubric)
    assert time.monotonic() - started_s >= 0.2


def test_log_normal_latencies_have_the_given_median_and_tail() -> None:
    generator = random.Random(0)
    draw = log_normal(median_s=1.0, p99_s=10.0)
    cuts = statistics.quantiles((draw(generator) for _ in range(20_000)), n=100)
    assert cuts[49] == pytest.approx(1.0, rel=0.05)
    assert cuts[98] == pytest.approx(10.0, rel=0.15)


def test_the_server_ends_with_the_block_even_while_calls_hang(rubric: Rubric) -> None:
    before = threading.active_count()
    arrived = threading.Event()

    def award(call: FakeCall) -> float:
        del call
        arrived.set()
        return 1.0

    with FakeEndpoint(award, faults=[Fault.HANG]) as endpoint:
        caller = threading.Thread(target=_swallow, args=(endpoint, rubric))
        caller.start()
        assert arrived.wait(timeout=5)
    caller.join(timeout=5)
    assert threading.active_count() == before
    with pytest.raises(urllib.error.URLError):
        _ask(endpoint)


def _swallow(endpoint: FakeEndpoint, rubric: Rubric) -> None:
    with contextlib.suppress(OSError):
        _ask(endpoint, rubric)
