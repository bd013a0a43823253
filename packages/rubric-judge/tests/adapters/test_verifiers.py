"""The reward for verifiers: called as a v1 `Task` calls it, and by one where it is installed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from rubric_core import Reason, Task, UnavailableRewardError
from rubric_judge import LexicalJudge
from rubric_judge.adapters.verifiers import rubric_reward
from rubric_judge.testing import FailingJudge


class TaskData(BaseModel):
    """The part of `verifiers.v1.TaskData` that counts here; data sets add fields."""

    model_config = ConfigDict(frozen=True, extra="allow")

    id: str | None = None
    prompt_text: str = "Which loss is minimised?"


class Trace:
    def __init__(self, reply: str) -> None:
        self.last_reply = reply
        self.metrics: dict[str, float] = {}

    def record_metric(self, name: str, value: float) -> None:
        self.metrics[name] = value


@pytest.mark.parametrize("field", ["id", "task_id"])
def test_a_rollout_is_judged_and_its_criteria_recorded(
    field: str, tasks: dict[str, Task], task: Task
) -> None:
    reward = rubric_reward(judge=LexicalJudge(), tasks=tasks)
    trace = Trace("It is the cross entropy.")

    found = asyncio.run(reward(TaskData(**{field: task.task_id}), trace))

    assert found == 0.75
    assert trace.metrics == {
        "rubric/score": 0.75,
        "rubric/invalid": 0.0,
        "rubric/unavailable": 0.0,
        "rubric/thought": 0.0,
        "rubric/unclosed_thought": 0.0,
        "rubric/empty_answer": 0.0,
        "rubric/loss": 1.0,
        "rubric/target": 0.0,
    }


def test_an_invalid_judgement_is_0_and_a_missing_one_fails_the_rollout(
    row: dict[str, Any],
) -> None:
    data = TaskData(**row)
    invalid = rubric_reward(judge=FailingJudge(Reason.NOT_JSON))
    missing = rubric_reward(judge=FailingJudge(Reason.RATE_LIMITED))

    assert asyncio.run(invalid(data, Trace("y"))) == 0.0
    with pytest.raises(UnavailableRewardError, match="rate_limited"):
        asyncio.run(missing(data, Trace("y")))


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_a_task_of_verifiers_scores_by_it(
    judge_file: str,
    tasks_file: str,
    task: Task,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vf = pytest.importorskip("verifiers.v1")
    errors = pytest.importorskip("verifiers.v1.errors")
    traces = pytest.importorskip("verifiers.v1.trace")
    graph = pytest.importorskip("verifiers.v1.graph")
    types = pytest.importorskip("verifiers.v1.types")
    module = tmp_path / "rewards_of_mine.py"
    module.write_text(
        "from rubric_judge import JudgeConfig\n"
        "from rubric_judge.adapters.verifiers import rubric_reward\n"
        "from rubric_judge.testing import FailingJudge\n"
        f"rubric = rubric_reward(judge={judge_file!r}, tasks={tasks_file!r})\n"
        f"failing = rubric_reward(judge=FailingJudge(), tasks={tasks_file!r})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    class Plain(vf.Task[vf.TaskData]):
        pass

    def scored(name: str) -> Any:
        plugged = {"rubric": {"fn": f"rewards_of_mine:{name}"}}
        one = Plain(
            vf.TaskData(id=task.task_id, prompt=task.question),
            vf.TaskConfig.model_validate({"rewards": plugged}),
        )
        reply = types.AssistantMessage(content="It is the cross entropy.")
        trace = vf.Trace(
            task=traces.TraceTask(type="Plain", data=one.data),
            agent=traces.AgentInfo(config=vf.AgentConfig()),
            nodes=[graph.MessageNode(message=reply, sampled=True)],
        )
        asyncio.run(one.score(trace))
        return trace

    trace = scored("rubric")

    assert trace.rewards["rubric"].score == 0.75
    assert trace.metrics["rubric/loss"] == 1.0
    with pytest.raises(errors.TaskError, match="UnavailableRewardError"):
        scored("failing")
