from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks
from rubric_train_openrlhf.config.train import TrainConfig, parse_config
from rubric_train_openrlhf.policy import ChatCodec, build_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rubric_train_openrlhf.policy.codec import Tokenizer


def make_task(number: int) -> Task:
    """A question whose answer the lexical judge can score in steps of 1/6."""
    return Task(
        question=f"Explain `fn_{number}` from maths with left and right: what it does.",
        grounding=Grounding(
            text=f"Sum number {number} of two arrays, secret word quokka{number}."
        ),
        rubric=Rubric(
            criteria=(
                Criterion(id="named", weight=2, required_elements=(f"fn_{number}",)),
                Criterion(
                    id="parameters", weight=3, required_elements=(f"left_{number}",)
                ),
                Criterion(id="returns", weight=1, required_elements=("returns",)),
            )
        ),
        reference_answer=f"fn_{number} returns the sum for you.",
    )


@pytest.fixture(scope="module")
def tasks() -> tuple[Task, ...]:
    return tuple(make_task(number) for number in range(8))


@pytest.fixture(scope="module")
def tokenizer(tasks: Sequence[Task]) -> Tokenizer:
    return build_tokenizer([task.question for task in tasks], 400)


@pytest.fixture(scope="module")
def codec(tokenizer: Tokenizer) -> ChatCodec:
    return ChatCodec(tokenizer)


def write_run(folder: Path, tasks: Sequence[Task]) -> Callable[..., TrainConfig]:
    """Six training tasks and two held-out ones, and what makes configurations of their runs."""
    write_tasks(folder / "train.jsonl", tasks[:6])
    write_tasks(folder / "validation.jsonl", tasks[6:])
    (folder / "run").mkdir()

    def make(**changes: Any) -> TrainConfig:
        values: dict[str, Any] = {
            "backend": "openrlhf",
            "model": {"type": "path", "path": folder / "model"},
            "data": {
                "train": folder / "train.jsonl",
                "validation": folder / "validation.jsonl",
            },
            "rollout": {"prompts": 2, "group_size": 4, "max_new_tokens": 16},
            "optim": {"updates_per_rollout": 2, "micro_batch": 2},
            "cluster": {
                "device": "cpu",
                "gpus_per_node": 1,
                "deepspeed": {"forward_micro_batch": 2},
            },
            "steps": 2,
            "out": folder / "run",
        }
        for name, change in changes.items():
            values[name] = (
                {**values.get(name, {}), **change}
                if isinstance(change, dict)
                else change
            )
        return parse_config(values)

    return make


@pytest.fixture
def make_config(tmp_path: Path, tasks: Sequence[Task]) -> Callable[..., TrainConfig]:
    """Configurations of a run with the lexical judge, with keys of sections replaced."""
    return write_run(tmp_path, tasks)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a run is that all tests of a module look at."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def planted(tasks: Sequence[Task], canaries: Any) -> tuple[Task, ...]:
    """The tasks, with canaries; every other passage is longer than what Ray sends in one piece."""
    return tuple(
        canaries.plant(task, passage_chars=250_000 * (number % 2))
        for number, task in enumerate(tasks)
    )


@pytest.fixture(scope="module")
def make_planted_config(
    run_folder: Path, planted: Sequence[Task]
) -> Callable[..., TrainConfig]:
    """Configurations of a run in `run_folder` whose tasks hold canaries."""
    return write_run(run_folder, planted)
