"""An OpenEnv environment that asks the questions of a task file and rewards by their rubrics.

    cd FOLDER && uvicorn --app-dir CHECKOUT/examples/adapters with_openenv:app --port 8000

FOLDER holds `dataset/train.jsonl` and `judge.yaml`. A trainer connects to it as to any OpenEnv
environment: `reset` gives a question, `step` takes the answer and gives the reward.
"""

import random
from typing import Any

from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

from rubric_core import read_tasks
from rubric_judge.adapters.openenv import RubricModule

TASKS = "dataset/train.jsonl"
JUDGE = "judge.yaml"

VIEWS = [task.policy_view() for task in read_tasks(TASKS)]
RUBRIC = RubricModule(judge=JUDGE, tasks=TASKS)


class Answer(Action):
    """What the policy wrote."""

    message: str


class Question(Observation):
    """What the policy is asked."""

    question: str = ""


class Exam(Environment[Answer, Question, State]):
    """One question, one answer."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        """Every session has the one rubric module, and so one pool of judges."""
        super().__init__(rubric=RUBRIC)
        self._view = VIEWS[0]

    def reset(self, seed: int | None = None, **_: Any) -> Question:
        """Draw a question."""
        self._view = random.Random(seed).choice(VIEWS)
        return Question(question=self._view.message)

    def step(self, action: Answer, **_: Any) -> Question:
        """Only `step_async` can wait for a judge."""
        raise NotImplementedError

    async def step_async(self, action: Answer, **_: Any) -> Question:
        """Judge the answer; the id in the metadata is that by which the judge finds the rubric."""
        seen = Question(done=True, metadata={"task_id": self._view.task_id})
        seen.reward = await self._apply_rubric_async(action, seen)
        return seen

    @property
    def state(self) -> State:
        """Nothing to show."""
        return State()


app = create_app(Exam, Answer, Question, env_name="rubric", max_concurrent_envs=64)
