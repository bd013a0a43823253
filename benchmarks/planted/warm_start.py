"""Warm starts of tiny policies: tasks in files, and a policy that learned answers to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import torch

from rubric_core import SftExample, Task, write_tasks
from rubric_train_openrlhf.policy import SftConfig, TinyConfig, build_tiny_policy, sft

TASKS: Final = 16
HELDOUT: Final = 8
_SHAPE: Final = TinyConfig(
    vocab_size=500,
    hidden_size=48,
    intermediate_size=96,
    layers=2,
    heads=2,
    kv_heads=2,
    max_positions=128,
)


def write_start(
    folder: Path,
    make_task: Callable[[int], Task],
    answer: Callable[[int, np.random.Generator], str],
) -> None:
    """Write the tasks and the policy, unless they are there.

    Args:
        folder: gets `train.jsonl`, `validation.jsonl` and `model`.
        make_task: a task by its number.
        answer: an answer to a task, by its number and a draw.
    """
    if (folder / "model" / "config.json").exists():
        return
    torch.set_num_threads(1)
    draw = np.random.default_rng(0)
    tasks = [make_task(number) for number in range(TASKS + HELDOUT)]
    folder.mkdir(parents=True, exist_ok=True)
    write_tasks(folder / "train.jsonl", tasks[:TASKS])
    write_tasks(folder / "validation.jsonl", tasks[TASKS:])
    examples = [
        SftExample(
            task_id=task.task_id, question=task.question, answer=answer(number, draw)
        )
        for number, task in enumerate(tasks)
        for _ in range(24)
    ]
    texts = [f"{example.question} {example.answer}" for example in examples]
    policy = build_tiny_policy(texts, _SHAPE, seed=0)
    settings = SftConfig(steps=400, learning_rate=1e-2, batch_size=8)
    sft(policy, examples, settings, seed=0)
    policy.save(folder / "model")
