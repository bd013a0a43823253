"""GRPO with ART, rewarded by rubrics.

    python examples/adapters/with_art.py Qwen/Qwen3-8B

The working folder holds `dataset/train.jsonl` and `judge.yaml`.
"""

import asyncio
import sys
from collections.abc import Sequence

import art

from rubric_core import PolicyView, read_tasks
from rubric_judge.adapters.art import GroupScorer, rubric_rewards

TASKS = "dataset/train.jsonl"
JUDGE = "judge.yaml"
QUESTIONS, ANSWERS = 8, 8


async def rollout(model: art.Model, view: PolicyView) -> art.Trajectory:
    """Ask once; the id in the metadata is that by which the judge finds the rubric."""
    question = {"role": "user", "content": view.message}
    reply = await model.openai_client().chat.completions.create(
        model=model.get_inference_name(), messages=[question], max_completion_tokens=1024
    )
    return art.Trajectory(
        messages_and_choices=[question, reply.choices[0]], metadata={"task_id": view.task_id}
    )


async def gather(
    model: art.Model, views: Sequence[PolicyView], score: GroupScorer
) -> list[art.TrajectoryGroup]:
    """Return a judged group of answers for each question."""
    return await art.gather_trajectory_groups(
        [art.TrajectoryGroup(rollout(model, view) for _ in range(ANSWERS)) for view in views],
        after_each=score,
    )


async def main(base_model: str) -> None:
    """Train one pass over the tasks."""
    from art.local import LocalBackend  # needs a GPU

    model = art.TrainableModel(name="rubric", project="rubric", base_model=base_model)
    backend = LocalBackend()
    await model.register(backend)
    score = rubric_rewards(judge=JUDGE, tasks=TASKS)
    views = [task.policy_view() for task in read_tasks(TASKS)]
    for start in range(0, len(views), QUESTIONS):
        groups = await gather(model, views[start : start + QUESTIONS], score)
        await backend.train(model, groups, learning_rate=1e-5)
        await model.log(groups, split="train")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
