"""Tasks, and judges of them with a planted noise."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from rubric_core import Criterion, Grounding, JudgeResult, Rubric, Task
from rubric_judge.quality.reliability import Rating

WEIGHTS = (3.0, 1.0, 1.0)


def _tasks(count: int) -> dict[str, Task]:
    rubric = Rubric(
        criteria=tuple(
            Criterion(id=f"c{m}", weight=weight, required_elements=(f"word{m}",))
            for m, weight in enumerate(WEIGHTS)
        )
    )
    tasks = [
        Task(
            question=f"Question {p}?",
            grounding=Grounding(f"Passage {p}."),
            rubric=rubric,
        )
        for p in range(count)
    ]
    return {task.task_id: task for task in tasks}


def _scored(task: Task, z_M: np.ndarray, judge: str) -> JudgeResult:
    scores = {c.id: c.weight * float(z) for c, z in zip(task.rubric, z_M, strict=True)}
    return JudgeResult.scored(task.rubric, scores, judge=judge)


def _simulated(
    tasks: Mapping[str, Task],
    *,
    noise: Mapping[str, float],
    replicates: int = 4,
    group: int = 8,
    shared: float = 0.0,
    bias: float = 0.0,
    seed: int = 0,
) -> list[Rating]:
    """Judges that see z_j ~ 0.5 ± 0.1 with normal noise, of which a part is shared by criteria."""
    generator = np.random.default_rng(seed)
    ratings: list[Rating] = []
    line = 0
    for task in tasks.values():
        for _ in range(group):
            line += 1
            true_M = 0.5 + generator.uniform(-0.17, 0.17, len(WEIGHTS))
            for place, (judge, std) in enumerate(noise.items()):
                for _ in range(replicates):
                    own_M = generator.normal(size=len(WEIGHTS))
                    common = generator.normal()
                    error_M = std * (
                        np.sqrt(1 - shared) * own_M + np.sqrt(shared) * common
                    )
                    z_M = np.clip(true_M + error_M + bias * place, 0, 1)
                    ratings.append(
                        Rating(judge, task.task_id, line, _scored(task, z_M, judge))
                    )
    return ratings


@pytest.fixture(scope="session")
def make_tasks() -> Callable[[int], dict[str, Task]]:
    """Return a function that makes tasks, by id, whose criteria weigh 3, 1 and 1."""
    return _tasks


@pytest.fixture(scope="session")
def simulated() -> Callable[..., list[Rating]]:
    """Return a function that judges made-up responses to tasks."""
    return _simulated
