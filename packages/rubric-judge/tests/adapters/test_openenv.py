"""The rubric module for OpenEnv: on its own base class where that is installed."""

import asyncio
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rubric_core import ConfigError, MissingExtraError, Task
from rubric_judge import LexicalJudge
from rubric_judge.adapters import openenv
from rubric_judge.testing import FailingJudge


class Rubric:
    """What the adapter uses of `openenv.core.rubrics.Rubric`: an async `forward`, awaited."""

    last_score: float | None

    def __init__(self) -> None:
        self.last_score = None

    async def __call__(self, action: Any, observation: Any) -> float | None:
        self.last_score = await self.forward(action, observation)
        return self.last_score

    async def forward(self, action: Any, observation: Any) -> float | None:
        raise NotImplementedError


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("openenv", "openenv.core", "openenv.core.rubrics"):
        module = ModuleType(name)
        vars(module)["Rubric"] = Rubric
        monkeypatch.setitem(sys.modules, name, module)
    openenv.module_class.cache_clear()
    yield
    openenv.module_class.cache_clear()


def judged(module: Any, action: Any, **metadata: Any) -> float | None:
    return asyncio.run(module(action, SimpleNamespace(metadata=metadata)))


@pytest.mark.usefixtures("stack")
def test_an_action_is_judged_against_the_task_of_its_observation(
    tasks: dict[str, Task], task: Task, row: dict[str, Any]
) -> None:
    module = openenv.RubricModule(judge=LexicalJudge(), tasks=tasks)
    text = "It is the cross entropy."

    assert judged(module, SimpleNamespace(message=text), task_id=task.task_id) == 0.75
    assert judged(module, text, **row) == module.last_score == 0.75
    assert module.last_metrics["rubric/loss"] == 1.0


@pytest.mark.usefixtures("stack")
def test_a_response_that_cannot_be_judged_has_no_metrics_of_another(
    tasks: dict[str, Task], task: Task
) -> None:
    module = openenv.RubricModule(judge=LexicalJudge(), tasks=tasks)
    judged(module, "y", task_id=task.task_id)
    assert module.last_metrics
    with pytest.raises(ConfigError, match="response_field"):
        judged(module, SimpleNamespace(answer="y"), task_id=task.task_id)
    assert module.last_metrics == {}


@pytest.mark.usefixtures("stack")
def test_without_a_judgement_there_is_no_reward(
    tasks: dict[str, Task], task: Task
) -> None:
    module = openenv.RubricModule(judge=FailingJudge(), tasks=tasks)

    assert judged(module, "y", task_id=task.task_id) is None
    assert module.last_metrics["rubric/unavailable"] == 1.0


@pytest.mark.usefixtures("stack")
def test_an_action_without_the_field_is_refused(
    tasks: dict[str, Task], task: Task
) -> None:
    module = openenv.RubricModule(
        judge=LexicalJudge(), tasks=tasks, response_field="answer"
    )

    with pytest.raises(ConfigError, match="has no field 'answer'"):
        judged(module, SimpleNamespace(message="y"), task_id=task.task_id)


def test_without_the_stack_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "openenv", None)
    openenv.module_class.cache_clear()

    with pytest.raises(MissingExtraError, match="pip install openenv-core"):
        openenv.RubricModule  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        openenv.Other  # noqa: B018


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_openenv_runs_the_module_in_a_step(tasks: dict[str, Task], task: Task) -> None:
    types = pytest.importorskip("openenv.core.env_server.types")
    interfaces = pytest.importorskip("openenv.core.env_server.interfaces")
    openenv.module_class.cache_clear()

    class Answer(types.Action):
        message: str

    class Exam(interfaces.Environment):
        def reset(self, *_: Any, **__: Any) -> Any:
            return types.Observation()

        def step(self, action: Any, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        async def step_async(self, action: Any, *_: Any, **__: Any) -> Any:
            observation = types.Observation(
                done=True, metadata={"task_id": task.task_id}
            )
            observation.reward = await self._apply_rubric_async(action, observation)
            return observation

        @property
        def state(self) -> Any:
            return types.State()

    rubric = openenv.RubricModule(judge=LexicalJudge(), tasks=tasks)
    hooked: list[float] = []
    rubric.register_forward_hook(lambda *call: hooked.append(call[-1]))
    failing = openenv.RubricModule(judge=FailingJudge(), tasks=tasks)

    async def rewards() -> list[Any]:
        answer = Answer(message="It is the cross entropy.")
        return [
            (await Exam(rubric=one).step_async(answer)).reward
            for one in (rubric, failing)
        ]

    assert asyncio.run(rewards()) == [0.75, None]
    assert hooked == [rubric.last_score] == [0.75]
