"""The endpoint for OpenRLHF's remote reward."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from rubric_core import JudgeView, Reason, Task
from rubric_judge.testing import FailingJudge, ScriptedJudge

Serving = Callable[..., Any]
NoText = Callable[[object], None]
Row = dict[str, Any]


PROMPT = "<|im_start|>user\nWhich loss?<|im_end|>\n<|im_start|>assistant\n"


def test_openrlhf_gets_numbers_for_one_query_and_lists_for_several(
    serving: Serving, task: Task, task_row: Row
) -> None:
    seen: list[str] = []

    def script(view: JudgeView) -> float:
        seen.append(view.response)
        return 0.25 if view.response == "one" else 0.75

    label = json.dumps({"task_id": task.task_id})
    row = {"rubric": task_row["criteria"], "passage": task_row["passage"]}
    with serving(ScriptedJudge(script)) as client:
        one = client.post(
            "/openrlhf",
            json={
                "query": [f"{PROMPT}one<|im_end|>"],
                "prompts": [PROMPT],
                "labels": [label],
            },
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


@pytest.mark.parametrize(
    "label", ["unknown", "{", '{"question": "ZEBRA"}', 3, None, [], ""]
)
def test_a_label_that_names_no_task_is_refused(
    client: httpx.Client, label: object, says_no_text: NoText
) -> None:
    body = {"query": ["y"], "prompts": [""], "labels": [label]}
    answer = client.post("/openrlhf", json=body)
    assert answer.status_code in {404, 422}
    assert answer.json()["error"]["field"].startswith("labels.0")
    says_no_text(answer)


def test_lists_of_different_lengths_are_refused(
    client: httpx.Client, task: Task
) -> None:
    body = {"query": ["y"], "prompts": ["", ""], "labels": [task.task_id]}
    assert (
        client.post("/openrlhf", json=body).json()["error"]["kind"] == "invalid_request"
    )
