"""Trajectories in the place of a response, over a real socket."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from rubric_core import JudgeView, Task
from rubric_core.traces import TraceViews
from rubric_judge import LexicalJudge
from rubric_judge.quality.trajectories import views_of
from rubric_judge.serve import openrlhf, service
from rubric_judge.testing import ScriptedJudge

Serving = Callable[..., Any]
NoText = Callable[[object], None]

CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "find", "arguments": '{"q": "QUAGGA"}'},
}
MESSAGES: list[dict[str, Any]] = [
    {"role": "assistant", "content": "Let me look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "good, says QUAGGA"},
    {"role": "assistant", "content": "It is good."},
]
ITEMS = [
    {"type": "message", "role": "assistant", "content": "Let me look."},
    {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "good, says QUAGGA"},
    {"type": "message", "role": "assistant", "content": "It is good."},
]


@pytest.fixture
def task(task_row: dict[str, Any]) -> Task:
    task_row["criteria"] = [
        {"id": "a", "weight": 3, "judges": "tool_use"},
        {"id": "b", "weight": 1},
        {"id": "c", "weight": 2, "judges": "every_turn"},
        {"id": "d", "weight": 2, "judges": "turn_3"},
    ]
    return Task.from_json(task_row)


def _good(view: JudgeView) -> float:
    """Full marks for what the policy wrote that is good, half for calls."""
    if view.excerpt is not None and view.excerpt.judges == "tool_use":
        return 0.5
    return float("good" in view.quotable)


@pytest.mark.parametrize(
    ("response", "kind"),
    [(MESSAGES, "messages"), ({"output": ITEMS}, "responses"), (ITEMS, "responses")],
)
def test_a_trajectory_is_judged_by_what_criteria_name(
    serving: Serving, task: Task, says_no_text: NoText, response: object, kind: str
) -> None:
    item = {"task_id": task.task_id, "response": response}
    with serving(ScriptedJudge(_good)) as client:
        answer = client.post("/v1/judge", json={"items": [item, item]})

    assert answer.status_code == 200
    first, second = answer.json()["results"]
    assert first["scores"] == second["scores"] == {"a": 1.5, "b": 1, "c": 0, "d": 0}
    assert first["reward"] == pytest.approx(2.5 / 8)
    assert first["trace"] == {
        "format": kind,
        "turns": 2,
        "calls": 1,
        "judged": {"a": "tool_use", "b": "last_reply", "c": "turn_1", "d": "missing"},
    }
    says_no_text(answer)


def test_openrlhf_may_send_messages(
    serving: Serving, task: Task, says_no_text: NoText
) -> None:
    before = [
        {"role": "user", "content": "Which loss?"},
        {"role": "assistant", "content": "good: of the prompt, and no turn"},
    ]
    body: dict[str, Any] = {
        "query": [[*before, *MESSAGES], MESSAGES],
        "prompts": [before, "Which loss?"],
        "labels": [task.task_id] * 2,
    }
    with serving(ScriptedJudge(_good)) as client:
        answer = client.post("/openrlhf", json=body)

    assert answer.status_code == 200
    assert answer.json()["rewards"] == pytest.approx([2.5 / 8] * 2)
    says_no_text(answer)


def test_a_text_has_no_trace_in_its_answer(client: httpx.Client) -> None:
    item = {"task": _plain(), "response": "An answer."}

    (result,) = client.post("/v1/judge", json={"items": [item]}).json()["results"]

    assert "trace" not in result


def _plain() -> dict[str, Any]:
    return {"question": "Q?", "passage": "p", "criteria": [{"id": "a", "weight": 1}]}


@pytest.mark.parametrize(
    ("response", "message"),
    [
        ([], "an empty list is no trajectory"),
        ({"QUAGGA text": 1}, "an object with no field of these is no trajectory"),
        ([*MESSAGES[:1], MESSAGES[2]], "steps.0 makes a tool call 'c1' that has no"),
        ([{"role": "assistant", "content": [{"type": "x"}]}], "is of the kind 'x'"),
        ("A text.", "criterion 'a' judges 'tool_use', and the response is one text"),
    ],
)
def test_a_trajectory_that_cannot_be_judged_is_refused(
    serving: Serving, task: Task, says_no_text: NoText, response: object, message: str
) -> None:
    items = [
        {"task_id": task.task_id, "response": MESSAGES},
        {"task_id": task.task_id, "response": response},
    ]
    with serving(ScriptedJudge(_good)) as client:
        answer = client.post("/v1/judge", json={"items": items})

    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["field"] == "items.1.response"
    assert message in error["message"]
    says_no_text(answer)


def test_a_judge_without_traces_and_too_many_parts_are_refused(
    serving: Serving, task: Task
) -> None:
    items = {"items": [{"task_id": task.task_id, "response": MESSAGES}]}
    with serving(LexicalJudge()) as client:
        refused = client.post("/v1/judge", json=items)
    with serving(ScriptedJudge(_good), max_items=3) as client:
        parts = client.post("/v1/judge", json=items)

    assert refused.status_code == 422
    assert "no calls of tools" in refused.json()["error"]["message"]
    assert parts.status_code == 413
    assert "4 responses in one request" in parts.json()["error"]["message"]


@pytest.mark.parametrize(
    ("query", "prompt", "field"),
    [
        ([{"says": 1}], "", "query.0"),
        ("A text.", [], "prompts.0"),
        (3, "", "query.0"),
    ],
)
def test_openrlhf_s_place_of_a_fault_is_named(
    serving: Serving, task: Task, query: object, prompt: object, field: str
) -> None:
    body = {"query": [query], "prompts": [prompt], "labels": [task.task_id]}
    with serving(ScriptedJudge(_good)) as client:
        answer = client.post("/openrlhf", json=body)

    assert answer.status_code == 422
    assert answer.json()["error"]["field"] == field


def test_openapi_describes_a_trajectory(client: httpx.Client) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]

    response = schemas["TaskItem"]["properties"]["response"]
    assert "messages with tool calls" in str(response)
    assert "TraceRecord" in schemas


@pytest.mark.parametrize("copies", [1, 3])
def test_too_many_turns_are_refused_before_their_views_are_made(
    serving: Serving, task: Task, monkeypatch: pytest.MonkeyPatch, copies: int
) -> None:
    views_made = 0

    def counted(*args: Any) -> TraceViews:
        nonlocal views_made
        views_made += 1
        return views_of(*args)

    monkeypatch.setattr(service, "views_of", counted)
    turns = 12 // copies
    trace = [{"role": "assistant", "content": f"Step {n}."} for n in range(turns)]
    item = {"task_id": task.task_id, "response": trace}
    with serving(ScriptedJudge(_good), max_items=10) as client:
        answer = client.post("/v1/judge", json={"items": [item] * copies})

    assert answer.status_code == 413
    assert answer.json()["error"]["kind"] == "too_many_items"
    assert views_made < copies


def test_openrlhfs_trajectory_with_too_many_turns_is_refused(
    serving: Serving, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openrlhf, "views_in", None)
    trace = [{"role": "assistant", "content": f"Step {n}."} for n in range(12)]
    body = {
        "query": [trace],
        "prompts": [[{"role": "user", "content": task.question}]],
        "labels": [task.task_id],
    }
    with serving(ScriptedJudge(_good), max_items=10) as client:
        answer = client.post("/get_reward", json=body)

    assert answer.status_code == 413
