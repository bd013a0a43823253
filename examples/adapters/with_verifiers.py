"""A taskset for verifiers and prime-rl, rewarded by rubrics.

    PYTHONPATH=examples/adapters vf-eval with-verifiers --env.agent.harness.id null \
        --env.agent.runtime.type subprocess \
        --model Qwen/Qwen3-8B --client.base-url http://127.0.0.1:8000/v1 \
        --client.api-key-var MY_KEY -r 4 --push False

The working folder holds `dataset/train.jsonl` and `judge.yaml`. In prime-rl's configuration the
taskset has the same id, `with-verifiers`.
"""

import verifiers.v1 as vf

from rubric_core import read_tasks
from rubric_judge.adapters.verifiers import rubric_reward

TASKS = "dataset/train.jsonl"
JUDGE = "judge.yaml"

__all__ = ["RubricTaskset"]

judged = rubric_reward(judge=JUDGE, tasks=TASKS)


class RubricTask(vf.Task[vf.TaskData]):
    """A question; its passage and its rubric stay with the judge."""

    @vf.reward(weight=1.0)
    async def rubric(self, trace: vf.Trace) -> float:
        """Judge the last reply."""
        return await judged(self.data, trace)


class RubricTaskset(vf.Taskset[RubricTask, vf.TasksetConfig]):
    """The questions of a task file, with the ids by which the judge finds the rubrics."""

    def load(self) -> list[RubricTask]:
        """Return the tasks."""
        views = [task.policy_view() for task in read_tasks(TASKS)]
        return [
            RubricTask(vf.TaskData(id=view.task_id, prompt=view.message), self.config.task)
            for view in views
        ]
