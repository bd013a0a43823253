"""The server for NeMo-Gym, on base classes with the interface of its snapshot 07d6b0d07.

The request goes through a real FastAPI application, and the failure wrapper is a faithful one.
"""

import functools
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from rubric_core import JudgeResult, MissingExtraError, Reason, Task
from rubric_judge.adapters import nemo_gym, scoring
from rubric_judge.testing import ScriptedJudge

fastapi = pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")


class JudgeError(Exception):
    pass


def judge_failsafe(verify: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(verify)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return await verify(*args, **kwargs)
        except JudgeError as error:
            failed = {
                "reward": 0.0,
                "_ng_failure_class": "judge_failed",
                "_ng_failure_judge_error": str(error),
            }
            return fastapi.responses.JSONResponse(
                content=kwargs["body"].model_dump() | failed
            )

    return wrapper


class CreateParams(BaseModel):
    input: str | list[dict[str, Any]]


class Response(BaseModel):
    id: str
    output: list[dict[str, Any]]


class BaseRunRequest(BaseModel):
    responses_create_params: CreateParams


class BaseVerifyRequest(BaseRunRequest):
    response: Response


class BaseVerifyResponse(BaseVerifyRequest):
    reward: float


class BaseResourcesServerConfig(BaseModel):
    name: str = "rubric"
    host: str = "127.0.0.1"


class SimpleResourcesServer(BaseModel):
    config: BaseResourcesServerConfig

    def setup_webserver(self) -> Any:
        app = fastapi.FastAPI()
        app.post("/verify")(judge_failsafe(self.verify))
        return app

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        raise NotImplementedError


def modules() -> dict[str, dict[str, Any]]:
    """The modules of NeMo-Gym that the adapter reads, with what it reads of them."""
    return {
        "nemo_gym": {},
        "nemo_gym.judge": {"JudgeError": JudgeError},
        "nemo_gym.base_resources_server": {
            one.__name__: one
            for one in (
                BaseResourcesServerConfig,
                BaseVerifyRequest,
                BaseVerifyResponse,
                SimpleResourcesServer,
            )
        },
    }


@pytest.fixture(autouse=True)
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, values in modules().items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
    nemo_gym.bind.cache_clear()
    yield
    nemo_gym.bind.cache_clear()


def client(**settings: Any) -> Any:
    """A client of the server's application."""
    config = nemo_gym.RubricResourcesServerConfig(**settings)
    server = nemo_gym.RubricResourcesServer(config=config)
    return testclient.TestClient(server.setup_webserver())


def body(response: str, **row: Any) -> dict[str, Any]:
    message = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": response}],
    }
    return {
        "responses_create_params": {
            "input": [{"role": "user", "content": "Which loss?"}]
        },
        "response": {
            "id": "r",
            "output": [{"type": "reasoning", "summary": []}, message],
        },
        **row,
    }


def test_a_response_is_judged_and_its_numbers_are_on_top(
    judge_file: str, tasks_file: str, task: Task
) -> None:
    sent = body(
        "It is the cross entropy.", task_id=task.task_id, uuid="kept", reward=9.0
    )

    answer = client(judge=judge_file, tasks=tasks_file).post("/verify", json=sent)

    assert answer.status_code == 200
    found = answer.json()
    assert found["reward"] == found["rubric/score"] == 0.75
    assert (found["rubric/loss"], found["rubric/target"]) == (1.0, 0.0)
    assert (found["rubric/invalid"], found["rubric/unavailable"]) == (0.0, 0.0)
    assert found["uuid"] == "kept"
    assert found["response"] == sent["response"]


def test_a_row_may_hold_its_rubric_and_no_response_is_an_empty_one(
    judge_file: str, row: dict[str, Any]
) -> None:
    server = client(judge=judge_file)
    silent = body("", **row)
    silent["response"]["output"] = []

    assert (
        server.post("/verify", json=body("It is cross entropy.", **row)).json()[
            "reward"
        ]
        == 0.75
    )
    assert server.post("/verify", json=silent).json()["reward"] == 0.0


def test_a_row_may_be_a_line_of_a_task_file(judge_file: str, task: Task) -> None:
    sent = body("It is cross entropy.", **task.to_json(reveal_grounding=True))

    assert client(judge=judge_file).post("/verify", json=sent).json()["reward"] == 0.75


@pytest.fixture
def timing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = ScriptedJudge(JudgeResult.unavailable(Reason.TIMEOUT))
    monkeypatch.setattr(scoring, "load_replicas", lambda _: (judge,))


@pytest.mark.usefixtures("timing_out")
def test_a_failed_judge_is_a_failure_to_the_stack_and_masked_in_training(
    judge_file: str, tasks_file: str, task: Task
) -> None:
    sent = body("An answer.", task_id=task.task_id, instance_config={"seed": 3})

    answer = client(judge=judge_file, tasks=tasks_file).post("/verify", json=sent)

    found = answer.json()
    assert (answer.status_code, found["reward"]) == (200, 0.0)
    assert found["_ng_failure_class"] == "judge_failed"
    assert found["_ng_failure_judge_error"].startswith("timeout")
    assert found["instance_config"] == {"seed": 3, "mask_sample": True}


@pytest.mark.usefixtures("timing_out")
def test_a_failed_judge_may_be_0(judge_file: str, tasks_file: str, task: Task) -> None:
    server = client(judge=judge_file, tasks=tasks_file, on_unavailable="zero")

    found = server.post("/verify", json=body("An answer.", task_id=task.task_id)).json()

    assert (found["reward"], found["rubric/unavailable"]) == (0.0, 1.0)
    assert "_ng_failure_class" not in found


def test_without_the_stack_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "nemo_gym.base_resources_server")
    monkeypatch.setitem(sys.modules, "nemo_gym", None)

    with pytest.raises(MissingExtraError, match="pip install nemo-gym"):
        nemo_gym.bind()
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        nemo_gym.Other  # noqa: B018
