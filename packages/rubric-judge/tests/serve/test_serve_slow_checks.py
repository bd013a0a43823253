"""Responses on which a check takes as long as it may, sent to the service."""

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from rubric_core import Task, write_tasks

LEXICAL = "type: lexical\nregex_timeout_s: 30\n"
HYBRID = "type: hybrid\nregex_timeout_s: 30\njudge:\n  type: lexical\n"
pytestmark = pytest.mark.slow
SLOW = "a" * 3000 + "!"


@pytest.fixture
def slow_task(tmp_path: Path) -> Task:
    criteria = [{"id": "a", "weight": 1, "verification_method": "regex: (a+)+$"}]
    task = Task.from_json(
        {"question": "Q?", "passage": "P is here.", "criteria": criteria}
    )
    write_tasks(tmp_path / "tasks.jsonl", [task])
    return task


def _body(task: Task, *responses: str) -> dict[str, Any]:
    return {"items": [{"task_id": task.task_id, "response": one} for one in responses]}


@pytest.mark.parametrize("judge", [LEXICAL, HYBRID], ids=["lexical", "hybrid"])
def test_the_deadline_holds_and_others_are_answered_meanwhile(
    judge: str, serving_command: Callable[..., Any], slow_task: Task
) -> None:
    with serving_command(judge, "--deadline-s", "2") as (process, url):
        answers: list[httpx.Response] = []

        def ask() -> None:
            body = _body(slow_task, "aaa", SLOW)
            answers.append(httpx.post(f"{url}/v1/judge", json=body, timeout=600))

        asking = threading.Thread(target=ask)
        asking.start()
        answered = 0
        while asking.is_alive():
            answered += httpx.get(f"{url}/healthz", timeout=600).status_code == 200
        asking.join()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=600)

    (answer,) = answers
    assert answer.status_code == 200
    good, slow = answer.json()["results"]
    assert (good["outcome"], good["total"]) == ("scored", 1.0)
    assert (slow["outcome"], slow["reason"]) == ("unavailable", "timeout")
    assert answered > 1
    assert process.returncode == 0


@pytest.mark.parametrize("judge", [LEXICAL, HYBRID], ids=["lexical", "hybrid"])
def test_a_service_that_ends_says_so_to_whoever_waits(
    judge: str, serving_command: Callable[..., Any], slow_task: Task
) -> None:
    with serving_command(judge, "--drain-s", "0") as (process, url):
        answers: list[httpx.Response] = []

        def ask() -> None:
            body = _body(slow_task, SLOW)
            answers.append(httpx.post(f"{url}/v1/judge", json=body, timeout=600))

        asking = threading.Thread(target=ask)
        asking.start()
        while not httpx.get(f"{url}/healthz", timeout=600).json()["queued"]:
            pass
        process.send_signal(signal.SIGTERM)
        asking.join()
        process.communicate(timeout=600)

    (answer,) = answers
    assert (answer.status_code, answer.json()["error"]["kind"]) == (503, "draining")
