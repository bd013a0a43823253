import contextlib
import gc
import json
import random
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import warnings
from collections import Counter
from http.client import HTTPException
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import aiohttp
import anyio
import pytest

from rubric_core import Outcome, Reason, Rubric
from rubric_core.judgement.result import JudgeResult
from rubric_judge import JudgeConfig, LLMJudge
from rubric_judge.judges.llm.replies import reply_model
from rubric_judge.testing import (
    HOSTILE_TEXTS,
    FakeCall,
    FakeEndpoint,
    FakeEndpointProcess,
    Fault,
    FaultMix,
    HostileText,
    Latency,
    log_normal,
    marked,
    marked_share,
    read_json_test_suite,
)

Endpoint = FakeEndpoint | FakeEndpointProcess


def _ask(
    endpoint: Endpoint, rubric: Rubric | None = None, *, response: str = "Score it."
) -> dict[str, object]:
    text = _body(endpoint, rubric, response=response).decode(errors="surrogateescape")
    return cast("dict[str, object]", json.loads(text))


def _body(endpoint: Endpoint, rubric: Rubric | None, *, response: str) -> bytes:
    body: dict[str, object] = {
        "model": "m",
        "messages": [{"role": "user", "content": response}],
    }
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
    with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310  # as above
        return cast("bytes", answer.read())


def _message(answer: dict[str, object]) -> str:
    choices = cast("list[dict[str, dict[str, str]]]", answer["choices"])
    return choices[0]["message"]["content"]


def _content(answer: dict[str, object]) -> dict[str, object]:
    return cast("dict[str, object]", json.loads(_message(answer)))


def test_a_synchronous_client_gets_a_reply_for_any_rubric(rubric: Rubric) -> None:
    with FakeEndpoint(0.5) as endpoint:
        reply = _content(_ask(endpoint, rubric))
    assert reply["scores"] == {"names the loss": 1.0, "gives_limit": 0.5}
    assert (reply["total"], reply["max_total"]) == (1.5, 3.0)
    assert endpoint.calls[0].weights == {"names the loss": 2.0, "gives_limit": 1.0}


def test_awards_may_be_scores_or_the_text_itself(rubric: Rubric) -> None:
    scores = {"names the loss": 0.25, "gives_limit": 1.0}
    with FakeEndpoint(
        lambda call: scores if call.number == 0 else '{"a": 1}'
    ) as endpoint:
        assert _content(_ask(endpoint, rubric))["scores"] == scores
        assert _content(_ask(endpoint)) == {"a": 1}


def test_faults_follow_the_script_and_then_stop(rubric: Rubric) -> None:
    with FakeEndpoint(
        faults=[Fault.SERVER_ERROR, None, Fault.RATE_LIMIT_RETRY_AFTER]
    ) as endpoint:
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


_UNANSWERED = {Fault.HANG, Fault.RESET, Fault.HALF_RESPONSE, Fault.SLOW_DRIP}
_REFUSED = {
    Fault.RATE_LIMIT,
    Fault.RATE_LIMIT_RETRY_AFTER,
    Fault.SERVER_ERROR,
    Fault.OVERLOADED,
    Fault.UNAUTHORIZED,
    Fault.NOT_FOUND,
    Fault.BAD_REQUEST,
    Fault.CONTENT_POLICY,
}


@pytest.mark.parametrize("fault", [None, *sorted(set(Fault) - _UNANSWERED - _REFUSED)])
def test_every_fault_has_an_answer_to_a_question_without_weights(
    fault: Fault | None,
) -> None:
    with FakeEndpoint(0.5, faults=[fault]) as endpoint:
        assert (
            _body(endpoint, None, response="Are you ready?") is not None
        )  # no HTTP error
    assert endpoint.counts == {fault: 1}


@pytest.mark.parametrize("transport", ["direct", "litellm"])
def test_a_judge_is_checked_whatever_is_wrong_with_its_scores(transport: str) -> None:
    faults = [
        Fault.NAN,
        Fault.MISSING_ID,
        Fault.DUPLICATE_ID,
        Fault.RENAMED_ID,
        Fault.HUGE_SCORE,
    ]

    async def check(url: str) -> None:
        options = {"model": "openai/fake", "api_base": url, "transport": transport}
        async with LLMJudge(JudgeConfig.model_validate(options)) as judge:
            for _ in faults:
                await judge.check()

    with FakeEndpoint(faults=faults) as endpoint:
        anyio.run(check, endpoint.url)
    assert endpoint.counts == dict.fromkeys(faults, 1)


def test_faults_by_probability_repeat_with_the_seed(rubric: Rubric) -> None:
    def drawn(seed: int) -> list[Fault | None]:
        with FakeEndpoint(
            faults={Fault.NAN: 0.3, Fault.PROSE: 0.2}, seed=seed
        ) as endpoint:
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
        assert arrived.wait(timeout=600)
    caller.join(timeout=600)
    assert threading.active_count() == before
    with pytest.raises(urllib.error.URLError):
        _ask(endpoint)


def _swallow(endpoint: FakeEndpoint, rubric: Rubric) -> None:
    with contextlib.suppress(OSError):
        _ask(endpoint, rubric)


ENDLESS = {Fault.HANG, Fault.SLOW_DRIP}


@pytest.mark.parametrize("fault", sorted(set(Fault) - ENDLESS))
def test_what_a_spoilt_answer_awards_is_nothing(rubric: Rubric, fault: Fault) -> None:
    with FakeEndpoint(marked_share, faults=[fault, None]) as endpoint:
        for view in (7, 8):
            with contextlib.suppress(OSError, HTTPException):
                _body(endpoint, rubric, response=marked("x", view=view, share=0.5))
    awarded = {"names the loss": 1.0, "gives_limit": 0.5}
    first, second = endpoint.records
    assert (first.view, first.fault) == (7, fault)
    assert first.awarded == (awarded if fault is Fault.GIANT else {})
    assert (second.view, second.fault, second.awarded) == (8, None, awarded)
    assert endpoint.counts == {fault: 1, None: 1}


def _answers(rubric: Rubric, texts: tuple[HostileText, ...]) -> list[str]:
    with FakeEndpoint(0.5, faults=texts) as endpoint:
        return [_message(_ask(endpoint, rubric)) for _ in texts]


def test_no_hostile_message_is_a_valid_reply(rubric: Rubric) -> None:
    texts = tuple(text for text in HOSTILE_TEXTS if text.place != "body")
    reasons: Counter[Reason | None] = Counter()
    for text, sent in zip(texts, _answers(rubric, texts), strict=True):
        result = JudgeResult.from_reply(rubric, sent)
        assert result.outcome is Outcome.INVALID, text.name
        reasons[result.reason] += 1
    assert {Reason.NOT_JSON, Reason.NOT_FINITE, Reason.DUPLICATE_CRITERION} < set(
        reasons
    )


def test_hostile_texts_stand_where_they_say(rubric: Rubric) -> None:
    texts = (
        HostileText("a", "<@reply@>"),
        HostileText("b", "1/2", "score"),
        HostileText("c", "1/2", "total"),
    )
    whole, score, total = _answers(rubric, texts)
    assert (
        _content({"choices": [{"message": {"content": whole[1:-1]}}]})["total"] == 1.5
    )
    assert '"names the loss": 1/2, "gives_limit": 0.5' in score
    assert '"total": 1/2' in total


def test_bytes_that_are_no_utf_8_are_sent_as_they_are(rubric: Rubric) -> None:
    texts = (HostileText("a", "\udcff", "body"), HostileText("b", "\udcff\n"))
    with FakeEndpoint(faults=texts) as endpoint:
        assert _body(endpoint, rubric, response="x") == b"\xff"
        assert b'"content": "\xff\\n"' in _body(endpoint, rubric, response="x")


def test_hostile_faults_take_their_texts_in_turn(rubric: Rubric) -> None:
    texts = tuple(HostileText(name, name) for name in "abc")
    mix = FaultMix({Fault.HOSTILE_REPLY: 1.0}, texts=texts)
    with FakeEndpoint(faults=mix) as endpoint:
        assert [_message(_ask(endpoint, rubric)) for _ in range(4)] == [
            "a",
            "b",
            "c",
            "a",
        ]
    assert [record.hostile for record in endpoint.records] == ["a", "b", "c", "a"]


@pytest.mark.parametrize(
    ("keep", "calls", "records"), [("calls", 2, 2), ("records", 0, 2), ("counts", 0, 0)]
)
def test_an_endpoint_remembers_what_it_is_told_to(
    rubric: Rubric, keep: str, calls: int, records: int
) -> None:
    with FakeEndpoint(keep=keep) as endpoint:  # pyright: ignore[reportArgumentType]  # parametrised
        for _ in range(2):
            _ask(endpoint, rubric)
    assert (len(endpoint.calls), len(endpoint.records)) == (calls, records)
    assert endpoint.counts == {None: 2}


def test_the_same_endpoint_runs_in_a_process_of_its_own(rubric: Rubric) -> None:
    with FakeEndpointProcess(
        marked_share, faults=[Fault.PROSE], keep="calls"
    ) as endpoint:
        for view in range(3):
            _ask(endpoint, rubric, response=marked("x", view=view, share=1.0))
        records, counts, calls = endpoint.records, endpoint.counts, endpoint.calls
        assert 0 < endpoint.cpu_s < 60
    assert [(record.view, record.fault) for record in records] == [
        (0, Fault.PROSE),
        (1, None),
        (2, None),
    ]
    assert counts == {Fault.PROSE: 1, None: 2}
    assert calls[1].mark == (1, 1.0)
    with pytest.raises(urllib.error.URLError):
        _ask(endpoint)


@pytest.mark.anyio
async def test_a_thousand_calls_can_hang_while_another_is_answered() -> None:
    held = 1000
    with FakeEndpoint(
        lambda _: "{}", faults=[Fault.HANG] * held, keep="counts"
    ) as endpoint:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            url = f"{endpoint.url}/chat/completions"
            body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
            async with anyio.create_task_group() as group:
                for _ in range(held):
                    group.start_soon(_post, session, url, body)
                while endpoint.counts[Fault.HANG] < held:  # noqa: ASYNC110  # another thread counts
                    await anyio.sleep(0.01)
                answer = await _post(session, url, body)
                group.cancel_scope.cancel()
    assert _content(answer) == {}


async def _post(
    session: aiohttp.ClientSession, url: str, body: dict[str, object]
) -> dict[str, object]:
    async with session.post(url, json=body) as response:
        return cast("dict[str, object]", await response.json())


def test_a_call_without_a_mark_cannot_be_awarded_by_it(rubric: Rubric) -> None:
    with (
        FakeEndpoint(marked_share) as endpoint,
        pytest.raises(urllib.error.HTTPError) as error,
    ):
        _ask(endpoint, rubric)
    error.value.close()
    assert error.value.code == 500


def test_a_folder_of_json_tests_is_read_for_every_place(
    tmp_path: Path, rubric: Rubric
) -> None:
    (tmp_path / "n_open.json").write_bytes(b"[1")
    (tmp_path / "i_utf16.json").write_bytes(b"\xff\xfe[")
    (tmp_path / "y_fine.json").write_bytes(b"[]")
    texts = read_json_test_suite(tmp_path)
    assert {text.name for text in texts} == {
        f"{name} as {place}"
        for name in ("n_open", "i_utf16")
        for place in ("reply", "score", "body")
    }
    for sent in _answers(rubric, tuple(text for text in texts if text.place != "body")):
        assert JudgeResult.from_reply(rubric, sent).outcome is Outcome.INVALID
    with pytest.raises(FileNotFoundError, match="test_parsing"):
        read_json_test_suite(tmp_path.parent)


def test_served_by_a_command_it_judges_on_this_machine_until_ctrl_c(
    rubric: Rubric,
) -> None:
    command = [
        sys.executable,
        "-m",
        "rubric_judge.testing",
        "--award",
        "0.25",
        "--port",
    ]
    with subprocess.Popen(
        [*command, "0"], stdout=subprocess.PIPE, text=True
    ) as serving:
        try:
            assert serving.stdout is not None
            said = serving.stdout.readline().split()
            endpoint = FakeEndpoint()
            endpoint.url = said[1].rstrip(":")
            reply = _content(_ask(endpoint, rubric))
            port = str(urlsplit(endpoint.url).port)
            taken = subprocess.run(
                [*command, port],
                capture_output=True,
                text=True,
                check=False,
                timeout=600,
            )
        finally:
            serving.send_signal(signal.SIGINT)
        assert serving.wait(timeout=600) == 130
    assert endpoint.url.startswith("http://127.0.0.1:")
    assert reply["total"] == 0.25 * rubric.total_weight
    assert taken.returncode == 2
    assert "choose another port" in taken.stderr


def test_served_by_a_command_every_reply_can_have_a_fault(rubric: Rubric) -> None:
    command = [
        sys.executable,
        "-m",
        "rubric_judge.testing",
        "--port",
        "0",
        "--fault",
        "missing_id",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stdout is not None
            said = serving.stdout.readline().split()
            endpoint = FakeEndpoint()
            endpoint.url = said[1].rstrip(":")
            replies = [_content(_ask(endpoint, rubric)) for _ in range(3)]
        finally:
            serving.send_signal(signal.SIGINT)
    for reply in replies:
        assert len(cast("list[object]", reply["scores"])) == len(rubric.criteria) - 1


def test_clients_that_connect_while_it_stops_leave_no_socket_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left_open: list[object] = []
    monkeypatch.setattr(
        sys, "unraisablehook", lambda error: left_open.append(error.exc_value)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        for _ in range(20):
            clients: list[socket.socket] = []
            with FakeEndpoint(1.0) as endpoint:
                place = urlsplit(endpoint.url)
                address = (str(place.hostname), int(place.port or 0))
                connecting = threading.Thread(target=connect, args=(address, clients))
                connecting.start()
            connecting.join()
            for client in clients:
                client.close()
            gc.collect()
    assert left_open == []


def connect(address: tuple[str, int], clients: list[socket.socket]) -> None:
    for _ in range(6):
        with contextlib.suppress(OSError):
            clients.append(socket.create_connection(address, timeout=10))
