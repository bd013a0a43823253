"""GRPO with Tinker's cookbook, rewarded by rubrics.

    TINKER_API_KEY=… python examples/adapters/with_tinker.py Qwen/Qwen3-8B runs/tinker

The working folder holds `dataset/train.jsonl` and `judge.yaml`.
"""

import asyncio
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import chz
import tinker
from tinker_cookbook import model_info, renderers
from tinker_cookbook.rl import train
from tinker_cookbook.rl.types import (
    Action,
    ActionExtra,
    Env,
    EnvGroupBuilder,
    Observation,
    RLDataset,
    RLDatasetBuilder,
    StepResult,
)
from tinker_cookbook.tokenizer_utils import get_tokenizer

from rubric_core import read_tasks
from rubric_judge.adapters.tinker import RubricEnvGroupBuilder, rubric_rewards

TASKS = "dataset/train.jsonl"
JUDGE = "judge.yaml"
QUESTIONS, ANSWERS = 32, 8


class Question(Env):
    """One question, one answer; the reward is given to the group."""

    def __init__(self, renderer: renderers.Renderer, question: str) -> None:
        self._renderer = renderer
        self._question = question

    async def initial_observation(self) -> tuple[Observation, list[str] | list[int]]:
        """Ask."""
        asked = [renderers.Message(role="user", content=self._question)]
        stops = self._renderer.get_stop_sequences()
        return self._renderer.build_generation_prompt(asked), stops

    async def step(self, action: Action, *, extra: ActionExtra | None = None) -> StepResult:
        """End the episode."""
        del action, extra
        return StepResult(
            reward=0.0,
            episode_done=True,
            next_observation=tinker.ModelInput.empty(),
            next_stop_condition=self._renderer.get_stop_sequences(),
        )


@dataclass(frozen=True)
class Questions(EnvGroupBuilder):
    """The answers to one question that are compared."""

    renderer: renderers.Renderer
    question: str

    async def make_envs(self) -> Sequence[Env]:
        """Make one environment for each answer."""
        return [Question(self.renderer, self.question) for _ in range(ANSWERS)]


@dataclass(frozen=True)
class Batches(RLDataset):
    """The groups of a pass over the tasks."""

    groups: Sequence[EnvGroupBuilder]

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        """Return the groups of a step."""
        return self.groups[index * QUESTIONS : (index + 1) * QUESTIONS]

    def __len__(self) -> int:
        return math.ceil(len(self.groups) / QUESTIONS)


@chz.chz
class Tasks(RLDatasetBuilder):
    """Makes the groups; the id is that by which the judge finds the rubric."""

    model_name: str

    async def __call__(self) -> tuple[RLDataset, None]:
        """Return the groups, and no test set."""
        renderer = renderers.get_renderer(
            model_info.get_recommended_renderer_name(self.model_name),
            get_tokenizer(self.model_name),
        )
        rewards = rubric_rewards(judge=JUDGE, tasks=TASKS, renderer=renderer)
        views = [task.policy_view() for task in read_tasks(TASKS)]
        return Batches(
            [
                RubricEnvGroupBuilder(
                    Questions(renderer, view.message), rewards, {"task_id": view.task_id}
                )
                for view in views
            ]
        ), None


def configuration(model_name: str, log_path: str) -> train.Config:
    """Return the settings of the run."""
    return train.Config(
        recipe_name="rubric",
        model_name=model_name,
        log_path=log_path,
        dataset_builder=Tasks(model_name=model_name),
        learning_rate=4e-5,
        max_tokens=1024,
        eval_every=0,
    )


if __name__ == "__main__":
    asyncio.run(train.main(configuration(*sys.argv[1:3])))
