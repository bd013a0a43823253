"""The service on a real socket: uvicorn in a thread, or the command in a process of its own."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import httpx
import pytest
import uvicorn
from structlog.testing import capture_logs

from rubric_core import JudgeResult, JudgeView, Reason, Task, Usage
from rubric_judge import JudgePool, JudgeSetupError
from rubric_judge.serve import JudgeService, ServeConfig, build_app, serve
from rubric_judge.testing import FailingJudge, ScriptedJudge

PASSAGE = "The passage that nobody may see, marked ZEBRA."
CRITERION = "The criterion that nobody may see, marked OKAPI."
RESPONSE = "The response that is not echoed, marked QUAGGA."
VARIABLE = "SERVICE_TOKEN"
BEARER = "a-token-of-more-than-sixteen-characters"
TEXTS = ("ZEBRA", "OKAPI", "QUAGGA", BEARER)

Serving = Callable[..., Any]


@pytest.fixture
def task() -> Task:
    return Task.from_json(_row())


def _row() -> dict[str, Any]:
    criteria = [
        {"id": "a", "weight": 3, "description": CRITERION},
        {"id": "b", "weight": 1},
    ]
    return {"question": "Which loss?", "passage": PASSAGE, "criteria": criteria}


@contextmanager
def _running(service: JudgeService) -> Iterator[httpx.Client]:
    config = uvicorn.Config(
        build_app(service), log_config=None, access_log=False, ws="none", lifespan="off"
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
            yield client
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def serving(task: Task) -> Serving:
    """Return a context manager that serves a judge with one task and gives a client."""

    def start(judge: Any = None, *, workers: int = 4, **bounds: Any) -> Any:  # noqa: ANN401
        pool = JudgePool(judge or ScriptedJudge(0.5), workers=workers, micro_batch=1)
        tasks = {task.task_id: task}
        return _running(JudgeService(pool, tasks, config=ServeConfig(**bounds)))

    return start


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    """A service that many tests may ask, for none changes it."""
    pool = JudgePool(ScriptedJudge(0.5))
    with _running(JudgeService(pool, {})) as one:
        yield one


def _items(task: Task, *responses: str) -> dict[str, Any]:
    return {"items": [{"task_id": task.task_id, "response": text} for text in responses]}


def _says_no_text(answer: httpx.Response) -> None:
    assert not [text for text in TEXTS if text in answer.text + str(answer.headers)]


# --- judging --------------------------------------------------------------------------------------


def test_a_batch_is_judged_in_its_order_and_shows_no_text(serving: Serving, task: Task) -> None:
    def by_length(view: JudgeView) -> JudgeResult:
        scores = {"a": 0.125 * len(view.response), "b": 0.0}
        return JudgeResult.scored(view.rubric, scores, judge="x", reasoning=PASSAGE)

    with serving(ScriptedJudge(by_length)) as client:
        answer = client.post("/v1/judge", json=_items(task, *("y" * n for n in range(20))))

    rows = answer.json()["results"]
    assert answer.status_code == 200
    assert [row["scores"]["a"] for row in rows] == [0.125 * n for n in range(20)]
    assert [row["reward"] for row in rows] == [0.125 * n / 4 for n in range(20)]
    assert {row["task_id"] for row in rows} == {task.task_id}
    _says_no_text(answer)


def test_a_request_may_bring_its_task(client: httpx.Client, task: Task) -> None:
    body = {"items": [{"task": _row(), "response": "An answer."}]}
    answer = client.post("/v1/judge", json=body)
    (row,) = answer.json()["results"]
    assert (row["reward"], row["task_id"]) == (0.5, task.task_id)
    _says_no_text(answer)


@pytest.mark.parametrize(
    ("reason", "reward"), [(Reason.TRUNCATED, 0.0), (Reason.RATE_LIMITED, None)]
)
def test_a_judgement_without_scores_keeps_its_reason(
    serving: Serving, task: Task, reason: Reason, reward: float | None
) -> None:
    with serving(FailingJudge(reason)) as client:
        (row,) = client.post("/v1/judge", json=_items(task, "An answer.")).json()["results"]
    assert (row["reward"], row["reason"]) == (reward, reason.value)
    assert row["outcome"] == reason.outcome.value


def test_what_is_not_judged_by_the_deadline_is_unavailable(serving: Serving, task: Task) -> None:
    async def slowly(view: JudgeView) -> None:
        await anyio.sleep(30 if view.response == "slow" else 0)

    with serving(ScriptedJudge(before=slowly), deadline_s=0.4) as client:
        rows = client.post("/v1/judge", json=_items(task, "quick", "slow")).json()["results"]
    assert [row["outcome"] for row in rows] == ["scored", "unavailable"]


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "kind", "field"),
    [
        (b"{", 400, "malformed_json", None),
        (b'{"items": [], "items": []}', 400, "malformed_json", None),
        (b"\xff", 400, "malformed_json", None),
        (b"[" * 100_000, 400, "malformed_json", None),
        (b"", 422, "invalid_request", None),
        (b"[]", 422, "invalid_request", None),
        (b'{"items": []}', 422, "invalid_request", "items"),
        (b'{"items": [{"task_id": "x"}]}', 422, "invalid_request", None),
        (b'{"items": [{"task_id": "x", "response": 3}]}', 422, "invalid_request", None),
        (b'{"items": [{"task_id": "x", "response": "\\ud800"}]}', 422, "invalid_request", None),
        (b'{"items": [{"task_id": "QUAGGA", "response": ""}]}', 404, "unknown_task",
         "items.0.task_id"),
        (b'{"items": 1e999}', 422, "invalid_request", "items"),
        (b'{"items": [], "QUAGGA": 1}', 422, "invalid_request", None),
    ],
)  # fmt: skip
def test_a_wrong_body_is_refused_with_its_place_and_no_text(
    client: httpx.Client, body: bytes, status: int, kind: str, field: str | None
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = client.post("/v1/judge", content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (status, kind)
    if field is not None:
        assert answer.json()["error"]["field"] == field
    assert "QUAGGA" not in answer.json()["error"]["message"]


def test_an_inline_task_that_is_none_names_its_field_and_no_text(client: httpx.Client) -> None:
    broken = _row()
    broken["criteria"][1] = {**broken["criteria"][0]}
    body = {"items": [{"task": broken, "response": RESPONSE}]}
    answer = client.post("/v1/judge", json=body)
    assert answer.status_code == 422
    assert "criteria" in answer.json()["error"]["field"]
    assert "unique" in answer.json()["error"]["message"]
    _says_no_text(answer)


def test_a_body_is_bounded_in_bytes_and_in_items(serving: Serving, task: Task) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(64):
            yield b"x" * 2**16

    with serving(max_items=2, max_body_bytes=2**16) as client:
        many = client.post("/v1/judge", json=_items(task, "1", "2", "3"))
        stated = client.post("/v1/judge", content=b"x" * 2**22)
        streamed = client.post("/v1/judge", content=chunks())
        began_s = time.monotonic()
        barely = client.post("/v1/judge", content=iter([b"x" * (2**16 + 1)]))
        took_s = time.monotonic() - began_s
        still = client.post("/v1/judge", json=_items(task, "1", "2"))
    assert [one.status_code for one in (many, stated, streamed, barely)] == [413] * 4
    assert took_s < 4  # nothing is waited for when the body has ended
    assert many.json()["error"]["kind"] == "too_many_items"
    assert {a.json()["error"]["kind"] for a in (stated, streamed)} == {"too_large"}
    assert still.status_code == 200


def test_another_method_or_path_is_refused_in_the_same_shape(client: httpx.Client) -> None:
    assert client.get("/v1/judge").json()["error"]["kind"] == "method_not_allowed"
    assert client.get("/QUAGGA").json()["error"]["kind"] == "not_found"


def test_a_fault_of_ours_is_a_500_without_its_message(
    serving: Serving, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError(PASSAGE)

    monkeypatch.setattr(JudgeService, "judge", broken)
    with capture_logs() as events, serving() as client:
        answer = client.post("/v1/judge", json=_items(task, RESPONSE))
    assert (answer.status_code, answer.json()["error"]["kind"]) == (500, "internal")
    _says_no_text(answer)
    (event,) = [one for one in events if one["event"] == "serve.request.unexpected"]
    assert event["error"] == "RuntimeError"
    assert "ZEBRA" not in str(events)


# --- the token ------------------------------------------------------------------------------------


def test_only_health_is_answered_without_the_token(
    serving: Serving, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, BEARER)
    body = _items(task, RESPONSE)
    with serving(token_env=VARIABLE) as client:
        for given in (None, "", "Bearer", "Bearer wrong", f"Basic {BEARER}", f"Bearer {BEARER}x"):
            headers = {} if given is None else {"Authorization": given}
            answer = client.post("/v1/judge", json=body, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            _says_no_text(answer)
        for path in ("/metrics", "/openapi.json", "/nowhere"):
            assert client.get(path).status_code == 401
        assert client.get("/healthz").status_code == 200
        assert client.get("/healthz/live").status_code == 200
        right = {"Authorization": f"Bearer {BEARER}"}
        assert client.post("/v1/judge", json=body, headers=right).status_code == 200
        assert client.get("/metrics", headers=right).status_code == 200


@pytest.mark.parametrize("value", [None, "", "short"])
def test_a_token_that_is_missing_or_soon_guessed_is_refused(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(JudgeSetupError, match=VARIABLE), serving(token_env=VARIABLE):
        pass


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])  # noqa: S104
def test_other_machines_are_not_served_without_a_token(host: str) -> None:
    service = JudgeService(JudgePool(ScriptedJudge()), {}, config=ServeConfig(host=host))
    with pytest.raises(JudgeSetupError, match="token_env"):
        anyio.run(lambda: serve(service, on_start=print))


def test_an_address_that_is_taken_is_an_error_of_the_system() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = ServeConfig(port=taken.getsockname()[1])
        service = JudgeService(JudgePool(ScriptedJudge()), {}, config=config)
        with pytest.raises(OSError, match="in use"):
            anyio.run(lambda: serve(service, on_start=print))


# --- the queue ------------------------------------------------------------------------------------


def test_a_full_queue_turns_requests_away_and_says_for_how_long(
    serving: Serving, task: Task
) -> None:
    release = threading.Event()

    async def wait(view: JudgeView) -> None:
        del view
        await anyio.to_thread.run_sync(release.wait, abandon_on_cancel=True)

    answers: list[httpx.Response] = []
    with serving(ScriptedJudge(before=wait), workers=1, max_queued=3) as client:
        address = str(client.base_url)

        def ask() -> None:
            answers.append(
                httpx.post(f"{address}/v1/judge", json=_items(task, "1", "2"), timeout=20)
            )

        waiting = threading.Thread(target=ask)
        waiting.start()
        while client.get("/healthz").json()["queued"] < 2:
            time.sleep(0.01)
        refused = client.post("/v1/judge", json=_items(task, "3", "4"))
        fits = threading.Thread(target=lambda: client.post("/v1/judge", json=_items(task, "5")))
        fits.start()
        release.set()
        waiting.join()
        fits.join()
        assert client.get("/healthz").json()["queued"] == 0
    assert (refused.status_code, refused.json()["error"]["kind"]) == (429, "busy")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert [answer.status_code for answer in answers] == [200]


def test_a_client_that_goes_away_has_its_judgements_cancelled(serving: Serving, task: Task) -> None:
    cancelled = threading.Event()

    async def wait(view: JudgeView) -> None:
        del view
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    with serving(ScriptedJudge(before=wait)) as client:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{client.base_url}/v1/judge", json=_items(task, "1"), timeout=0.5)
        assert cancelled.wait(10)
        while client.get("/healthz").json()["queued"]:
            time.sleep(0.01)


# --- what is seen of it ---------------------------------------------------------------------------


def test_the_metrics_count_outcomes_times_and_tokens(serving: Serving, task: Task) -> None:
    def script(view: JudgeView) -> JudgeResult:
        if view.response == "bad":
            return JudgeResult.invalid(Reason.NOT_JSON)
        result = JudgeResult.scored(view.rubric, {"a": 1.0, "b": 0.0}, judge="x")
        usage = Usage(prompt_tokens=100, completion_tokens=7, cached_tokens=60, cost_usd=0.5)
        return result.with_call(usage=usage, latency_s=0.2)

    with serving(ScriptedJudge(script)) as client:
        before = client.get("/metrics").text
        client.post("/v1/judge", json=_items(task, "good", "bad", "good"))
        after = client.get("/metrics").text
    assert "cached_token_share" not in before  # unknown is not 0
    for line in (
        'rubric_judge_judgements_total{outcome="scored",reason=""} 2.0',
        'rubric_judge_judgements_total{outcome="invalid",reason="not_json"} 1.0',
        "rubric_judge_prompt_tokens_total 200.0",
        "rubric_judge_completion_tokens_total 14.0",
        "rubric_judge_cached_tokens_total 120.0",
        "rubric_judge_cost_usd_total 1.0",
        "rubric_judge_attempts_total 3.0",
        "rubric_judge_from_ledger_total 0.0",
        "rubric_judge_cached_token_share 0.6",
        "rubric_judge_in_flight 0.0",
        "rubric_judge_waiting 0.0",
        "rubric_judge_judgement_seconds_count 2.0",
        'rubric_judge_request_seconds_count{path="/v1/judge",status="200"} 1.0',
    ):
        assert line in after.splitlines()
    _says_no_text_in(after)


def _says_no_text_in(shown: str) -> None:
    assert not [text for text in TEXTS if text in shown]


def test_a_request_is_one_event_without_texts(serving: Serving, task: Task) -> None:
    with capture_logs() as events, serving() as client:
        client.post("/v1/judge", json=_items(task, RESPONSE))
        client.get("/QUAGGA")
    requests = [one for one in events if one["event"] == "serve.request.finished"]
    assert [(one["path"], one["status"]) for one in requests] == [
        ("/v1/judge", 200),
        ("other", 404),
    ]
    _says_no_text_in(str(events))


def test_the_description_has_examples_that_are_answered(client: httpx.Client) -> None:
    description = client.get("/openapi.json").json()
    examples = description["components"]["schemas"]["JudgeRequest"]["examples"]
    inline = client.post("/v1/judge", json=examples[1])
    by_id = client.post("/v1/judge", json=examples[0])
    assert inline.status_code == 200
    assert by_id.json()["error"]["kind"] == "unknown_task"  # the example's id is nobody's
    post = description["paths"]["/v1/judge"]["post"]
    assert {"200", "400", "404", "408", "413", "422", "429", "500", "503"} <= set(post["responses"])


# --- OpenRLHF -------------------------------------------------------------------------------------

PROMPT = "<|im_start|>user\nWhich loss?<|im_end|>\n<|im_start|>assistant\n"


def test_openrlhf_gets_numbers_for_one_query_and_lists_for_several(
    serving: Serving, task: Task
) -> None:
    seen: list[str] = []

    def script(view: JudgeView) -> float:
        seen.append(view.response)
        return 0.25 if view.response == "one" else 0.75

    label = json.dumps({"task_id": task.task_id})
    row = {"rubric": _row()["criteria"], "passage": PASSAGE}
    with serving(ScriptedJudge(script)) as client:
        one = client.post(
            "/openrlhf",
            json={"query": [f"{PROMPT}one<|im_end|>"], "prompts": [PROMPT], "labels": [label]},
        ).json()
        both = client.post(
            "/get_reward",
            json={
                "query": [f"{PROMPT}one", f"{PROMPT}two"],
                "prompts": [PROMPT] * 2,
                "labels": [task.task_id, json.dumps(row)],
            },
        ).json()
    assert (one["rewards"], one["scores"]) == (0.25, 0.25)
    assert both["rewards"] == both["scores"] == [0.25, 0.75]
    assert set(one["extra_logs"]) == set(both["extra_logs"])
    assert one["extra_logs"]["rubric/score"] == 0.25
    assert both["extra_logs"]["rubric/unavailable"] == [0.0, 0.0]
    assert sorted(seen) == ["one", "one", "two"]


def test_openrlhf_asks_again_or_is_told_of_a_zero(serving: Serving, task: Task) -> None:
    body = {"query": ["An answer."], "prompts": [""], "labels": [task.task_id]}
    with serving(FailingJudge(Reason.CONNECTION)) as client:
        again = client.post("/openrlhf", json=body)
    with serving(FailingJudge(Reason.CONNECTION), on_unavailable="zero") as client:
        zero = client.post("/openrlhf", json=body).json()
    assert (again.status_code, again.headers["retry-after"]) == (503, "1")
    assert (zero["rewards"], zero["extra_logs"]["rubric/unavailable"]) == (0.0, 1.0)


@pytest.mark.parametrize("label", ["unknown", "{", '{"question": "ZEBRA"}', 3, None, [], ""])
def test_a_label_that_names_no_task_is_refused(client: httpx.Client, label: object) -> None:
    body = {"query": ["y"], "prompts": [""], "labels": [label]}
    answer = client.post("/openrlhf", json=body)
    assert answer.status_code in {404, 422}
    assert answer.json()["error"]["field"].startswith("labels.0")
    _says_no_text(answer)


def test_lists_of_different_lengths_are_refused(client: httpx.Client, task: Task) -> None:
    body = {"query": ["y"], "prompts": ["", ""], "labels": [task.task_id]}
    assert client.post("/openrlhf", json=body).json()["error"]["kind"] == "invalid_request"
