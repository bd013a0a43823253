"""Tasks, a planted judge and planted raters."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from rubric_core import Criterion, Grounding, JudgeResult, Rubric, Task
from rubric_judge.quality.calibration.pairing import Combining, Paired, pair
from rubric_judge.quality.labels.rows import Label
from rubric_judge.quality.reliability import Rating, collect

MakeTasks = Callable[..., dict[str, Task]]
Planted = Mapping[str, tuple[float, float]]
"""By criterion: P(judge says met | met), P(judge says met | not met)."""


def _tasks(names: tuple[str, ...], count: int) -> dict[str, Task]:
    rubric = Rubric(
        criteria=tuple(
            Criterion(id=name, weight=2.0, required_elements=(f"word{m}",))
            for m, name in enumerate(names)
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


@pytest.fixture(scope="session")
def make_tasks() -> MakeTasks:
    """Return a function that makes tasks, by id, whose criteria weigh 2 each."""
    return _tasks


@pytest.fixture(scope="session")
def planted() -> Callable[..., Paired]:
    """Return a function that draws what people call met, and a judge with planted rates."""

    def make(
        rates: Planted,
        *,
        raters: Mapping[str, float] | None = None,
        tasks: int = 40,
        group: int = 4,
        replicates: int = 1,
        met: float = 0.5,
        seed: int = 0,
        combining: Combining = "mean",
    ) -> Paired:
        """Raters err so often; one who never errs when left out."""
        generator = np.random.default_rng(seed)
        ratings: list[Rating] = []
        labels: list[Label] = []
        by_id = _tasks(tuple(rates), tasks)
        line = 0
        for task in by_id.values():
            for _ in range(group):
                line += 1
                truth = {name: generator.random() < met for name in rates}
                for name, is_met in truth.items():
                    for rater, error in (raters or {"anna": 0.0}).items():
                        says = is_met != (generator.random() < error)
                        labels.append(
                            Label(
                                line=line, task_id=task.task_id, criterion=name,
                                score=2.0 * says, rater=rater,
                            )
                        )  # fmt: skip
                for _ in range(replicates):
                    scores = {
                        name: 2.0 * (generator.random() < rate[0 if truth[name] else 1])
                        for name, rate in rates.items()
                    }
                    result = JudgeResult.scored(task.rubric, scores, judge="planted")
                    ratings.append(Rating("planted", task.task_id, line, result))
        return pair(labels, collect(ratings, by_id), combining=combining)

    return make
