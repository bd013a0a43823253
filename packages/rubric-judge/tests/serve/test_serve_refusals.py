"""What the service refuses, and whom."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import httpx
import pytest
from pydantic import BaseModel, ValidationError
from structlog.testing import capture_logs

from rubric_core import Task
from rubric_judge import JudgePool, JudgeSetupError
from rubric_judge.serve import JudgeService, ServeConfig, serve
from rubric_judge.serve.schemas import JudgeRequest, RewardRequest
from rubric_judge.testing import ScriptedJudge

RESPONSE = "The response that is not echoed, marked QUAGGA."
VARIABLE = "SERVICE_TOKEN"
BEARER = "a-token-of-more-than-sixteen-characters"

Serving = Callable[..., Any]
Items = Callable[..., dict[str, Any]]
NoText = Callable[[object], None]
Row = dict[str, Any]


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


def test_an_inline_task_that_is_none_names_its_field_and_no_text(
    client: httpx.Client, says_no_text: NoText, task_row: Row
) -> None:
    broken = task_row
    broken["criteria"][1] = {**broken["criteria"][0]}
    body = {"items": [{"task": broken, "response": RESPONSE}]}
    answer = client.post("/v1/judge", json=body)
    assert answer.status_code == 422
    assert "criteria" in answer.json()["error"]["field"]
    assert "unique" in answer.json()["error"]["message"]
    says_no_text(answer)


def test_a_refusal_says_that_it_cut_a_name_or_an_id(
    client: httpx.Client, task_row: Row
) -> None:
    long = "k" * 200
    named = {"items": [{"task": {**task_row, long: 1}, "response": RESPONSE}]}
    calls = [{"id": long, "type": "function", "function": {"name": "f"}}]
    messages = [
        {"role": "assistant", "content": "Look.", "tool_calls": calls},
        {"role": "assistant", "content": RESPONSE},
    ]

    field = client.post("/v1/judge", json=named).json()["error"]["field"]
    of_call = {"items": [{"task": task_row, "response": messages}]}
    said = client.post("/v1/judge", json=of_call).json()["error"]["message"]

    assert field == f"items.0.task.{'k' * 59}…"
    assert f"tool call '{'k' * 79}…'" in said


def test_a_rubric_that_would_hold_up_every_other_request_is_refused(
    client: httpx.Client, task_row: Row
) -> None:
    one = {"id": "a", "weight": 1}
    terms = [f"k/{number}" for number in range(4_000)]
    for criteria, told in (
        (
            [{**one, "id": str(number)} for number in range(1001)],
            "1001 criteria; at most 1000",
        ),
        (
            [{**one, "required_elements": terms, "expected_keywords": terms}],
            "8000 terms to look for; at most 5000",
        ),
    ):
        item = {"task": {**task_row, "criteria": criteria}, "response": RESPONSE}
        answer = client.post("/v1/judge", json={"items": [item]})
        assert (answer.status_code, answer.json()["error"]["field"]) == (
            422,
            "items.0.task",
        )
        assert told in answer.json()["error"]["message"]
        for label in (criteria, json.dumps({"rubric": criteria})):
            query = {"query": ["Why? So."], "prompts": ["Why? "], "labels": [label]}
            answer = client.post("/openrlhf", json=query)
            assert (answer.status_code, answer.json()["error"]["field"]) == (
                422,
                "labels.0",
            )
            assert told in answer.json()["error"]["message"]


NOTHING: list[Row] = [{}] * 10_000


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (JudgeRequest, {"items": NOTHING}),
        (
            JudgeRequest,
            {"items": [{"task": {"criteria": NOTHING}, "response": RESPONSE}] * 10_000},
        ),
        (
            RewardRequest,
            {"query": [1] * 10_000, "prompts": [1] * 10_000, "labels": [1] * 10_000},
        ),
    ],
)
def test_of_many_faults_only_the_first_ones_are_looked_for(
    kind: type[BaseModel], body: object
) -> None:
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(body)

    assert caught.value.error_count() < 10


def test_a_body_is_bounded_in_bytes_and_in_items(
    serving: Serving, task: Task, items: Items
) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(64):
            yield b"x" * 2**16

    with serving(max_items=2, max_body_bytes=2**16) as client:
        many = client.post("/v1/judge", json=items(task, "1", "2", "3"))
        stated = client.post("/v1/judge", content=b"x" * 2**22)
        streamed = client.post("/v1/judge", content=chunks())
        began_s = time.monotonic()
        barely = client.post("/v1/judge", content=iter([b"x" * (2**16 + 1)]))
        took_s = time.monotonic() - began_s
        still = client.post("/v1/judge", json=items(task, "1", "2"))
    assert [one.status_code for one in (many, stated, streamed, barely)] == [413] * 4
    assert took_s < 20  # nothing is waited for when the body has ended
    assert many.json()["error"]["kind"] == "too_many_items"
    assert {a.json()["error"]["kind"] for a in (stated, streamed)} == {"too_large"}
    assert still.status_code == 200


def test_another_method_or_path_is_refused_in_the_same_shape(
    client: httpx.Client,
) -> None:
    assert client.get("/v1/judge").json()["error"]["kind"] == "method_not_allowed"
    assert client.get("/QUAGGA").json()["error"]["kind"] == "not_found"


def test_a_fault_of_ours_is_a_500_without_its_message(
    serving: Serving,
    task: Task,
    monkeypatch: pytest.MonkeyPatch,
    items: Items,
    says_no_text: NoText,
    task_row: Row,
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError(task_row["passage"])

    monkeypatch.setattr(JudgeService, "judge", broken)
    with capture_logs() as events, serving() as client:
        answer = client.post("/v1/judge", json=items(task, RESPONSE))
    assert (answer.status_code, answer.json()["error"]["kind"]) == (500, "internal")
    says_no_text(answer)
    (event,) = [one for one in events if one["event"] == "serve.request.unexpected"]
    assert event["error"] == "RuntimeError"
    assert "ZEBRA" not in str(events)


# --- the token ------------------------------------------------------------------------------------


def test_only_health_is_answered_without_the_token(
    serving: Serving,
    task: Task,
    monkeypatch: pytest.MonkeyPatch,
    items: Items,
    says_no_text: NoText,
) -> None:
    monkeypatch.setenv(VARIABLE, BEARER)
    body = items(task, RESPONSE)
    with serving(token_env=VARIABLE) as client:
        for given in (
            None,
            "",
            "Bearer",
            "Bearer wrong",
            f"Basic {BEARER}",
            f"Bearer {BEARER}x",
        ):
            headers = {} if given is None else {"Authorization": given}
            answer = client.post("/v1/judge", json=body, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            says_no_text(answer)
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
    service = JudgeService(
        JudgePool(ScriptedJudge()), {}, config=ServeConfig(host=host)
    )
    with pytest.raises(JudgeSetupError, match="token_env"):
        anyio.run(lambda: serve(service, on_start=print))


def test_an_address_that_is_taken_is_an_error_of_the_system() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = ServeConfig(port=taken.getsockname()[1])
        service = JudgeService(JudgePool(ScriptedJudge()), {}, config=config)
        with pytest.raises(OSError, match="in use"):
            anyio.run(lambda: serve(service, on_start=print))
