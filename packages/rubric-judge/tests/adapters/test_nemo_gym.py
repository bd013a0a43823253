"""The server for NeMo-Gym, on base classes with the interface of its snapshot 07d6b0d07.

The request goes through a real FastAPI application, and the failure wrapper is a faithful one.
"""

import asyncio
import functools
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from rubric_core import (
    ConfigError,
    Criterion,
    CriterionKind,
    Grounding,
    JudgeResult,
    MissingExtraError,
    Reason,
    Rubric,
    Task,
    write_tasks,
)
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


class ReverifyMode(StrEnum):
    STATELESS = "stateless"
    UNKNOWN = "unknown"


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
                ReverifyMode,
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

    with pytest.raises(MissingExtraError, match=r"pip install 'nemo-gym>=0\.5'"):
        nemo_gym.bind()
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        nemo_gym.Other  # noqa: B018


def test_parts_add_up_to_the_reward_under_the_same_names_for_every_task(
    judge_file: str, tasks_file: str, tasks: dict[str, Task]
) -> None:
    server = client(judge=judge_file, tasks=tasks_file, components="criteria")
    answer = "It minimises the cross entropy with AdamW."

    results = [
        server.post("/verify", json=body(answer, task_id=task_id)).json()
        for task_id in tasks
    ]

    parts = [result["reward_components"] for result in results]
    assert [set(part) for part in parts] == [{"criterion_1", "criterion_2"}] * 2
    # Places that a rubric has not, or that weigh nothing, are 0 for all its answers.
    assert [tuple(part.values()) for part in parts] == [(0.75, 0.0), (1.0, 0.0)]
    for part, result in zip(parts, results, strict=True):
        assert sum(part.values()) == pytest.approx(result["reward"], abs=1e-6)
        assert part.items() <= result.items()


def test_parts_may_be_kinds_of_criteria(judge_file: str, tmp_path: Path) -> None:
    cause, limit = CriterionKind.CAUSE, CriterionKind.LIMIT
    rubrics = [
        [("apple", 3.0, cause), ("plum", 1.0, None), ("cherry", 1.0, cause)],
        [("apple", 2.0, limit)],
    ]
    tasks = [
        Task(
            question=f"Q{number}?",
            grounding=Grounding("P"),
            rubric=Rubric(
                criteria=tuple(
                    Criterion(
                        id=name, weight=weight, required_elements=(name,), kind=kind
                    )
                    for name, weight, kind in rubric
                )
            ),
        )
        for number, rubric in enumerate(rubrics)
    ]
    write_tasks(tmp_path / "tasks.jsonl", tasks)
    server = client(
        judge=judge_file, tasks=str(tmp_path / "tasks.jsonl"), components="kinds"
    )
    sent = [
        body("It holds an apple, and a cherry.", task_id=task.task_id) for task in tasks
    ]

    parts = [
        server.post("/verify", json=row).json()["reward_components"] for row in sent
    ]

    assert parts == [
        {"kind_cause": 0.8, "kind_limit": 0.0, "kind_none": 0.0},
        {"kind_cause": 0.0, "kind_limit": 1.0, "kind_none": 0.0},
    ]


def test_without_components_nothing_is_added(
    judge_file: str, tasks_file: str, task: Task
) -> None:
    sent = body("It is the cross entropy.", task_id=task.task_id)

    found = client(judge=judge_file, tasks=tasks_file).post("/verify", json=sent).json()

    assert not {name for name in found if "component" in name or "criterion_" in name}


def test_components_need_all_tasks(
    judge_file: str, tasks_file: str, row: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="components: 'kinds' needs `tasks`"):
        client(judge=judge_file, components="kinds")
    server = client(judge=judge_file, tasks=tasks_file, components="criteria")
    criteria = [
        {"id": f"c{n}", "weight": 1.0, "required_elements": ["a"]} for n in range(3)
    ]
    longer = body("An answer.", **{**row, "rubric": criteria})

    with pytest.raises(ConfigError, match="needs 'criterion_3', which no task of"):
        server.post("/verify", json=longer)


def test_a_rollout_may_be_judged_again() -> None:
    assert nemo_gym.RubricResourcesServerConfig.REVERIFY_MODE is ReverifyMode.STATELESS


def test_the_stacks_fixtures_may_try_the_judge_without_a_server(
    judge_file: str, tasks_file: str, task: Task
) -> None:
    verifier = nemo_gym.RubricVerifier(judge=judge_file, tasks=tasks_file)
    sent = body("It is the cross entropy.", task_id=task.task_id)
    request = nemo_gym.RubricVerifyRequest.model_validate(sent)

    assert asyncio.run(verifier.verify(request)).reward == 0.75


def test_a_release_without_failures_of_judges_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As 0.4.0 is, whose server has no name for a judge that failed."""
    (tmp_path / "nemo_gym").mkdir()
    (tmp_path / "nemo_gym" / "__init__.py").touch()
    info = tmp_path / "nemo_gym-0.4.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: nemo-gym\nVersion: 0.4.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("nemo_gym", "nemo_gym.judge"):
        monkeypatch.delitem(sys.modules, name)

    with pytest.raises(
        MissingExtraError, match=r"nemo-gym 0\.4\.0 has no 'nemo_gym\.judge'"
    ):
        nemo_gym.bind()
