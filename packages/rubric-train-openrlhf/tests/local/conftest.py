from __future__ import annotations

import functools
import itertools
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from rubric_core import (
    Criterion,
    Grounding,
    JudgeView,
    Rubric,
    SftExample,
    Task,
    write_tasks,
)
from rubric_judge.testing import ScriptedJudge
from rubric_train_openrlhf.config.train import TrainConfig, parse_config
from rubric_train_openrlhf.local.start import run_grpo
from rubric_train_openrlhf.policy import (
    Policy,
    SftConfig,
    TinyConfig,
    build_tiny_policy,
    load_policy,
    sample_groups,
    sft,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rubric_train_openrlhf.policy import Rollouts

SHAPE = TinyConfig(
    vocab_size=340,
    hidden_size=32,
    intermediate_size=64,
    layers=2,
    heads=2,
    kv_heads=2,
    max_positions=128,
)


def make_task(number: int) -> Task:
    """A question about one function, which the lexical judge can score."""
    name, first, second = f"fn_{number}", f"left_{number}", f"right_{number}"
    return Task(
        question=f"Explain `{name}` from maths with `{first}`, `{second}`: what it does.",
        grounding=Grounding(
            text=f"Sum number {number} of two arrays, secret word quokka{number}."
        ),
        rubric=Rubric(
            criteria=(
                Criterion(id="named", weight=2, required_elements=(name,)),
                Criterion(id="parameters", weight=3, required_elements=(first, second)),
                Criterion(id="returns", weight=1, expected_keywords=("returns", "sum")),
            )
        ),
        reference_answer=f"The function {name} returns the sum of {first} and {second} for you.",
    )


@dataclass(frozen=True)
class Workspace:
    """What a run reads: tasks, and a policy that can nearly answer them."""

    train: Path
    validation: Path
    model: Path
    tasks: tuple[Task, ...]


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    folder = tmp_path_factory.mktemp("workspace")
    torch.set_num_threads(1)
    tasks = tuple(make_task(number) for number in range(16))
    write_tasks(folder / "train.jsonl", tasks[:12])
    write_tasks(folder / "validation.jsonl", tasks[12:])
    texts = [f"{task.question} {task.reference_answer}" for task in tasks]
    policy = build_tiny_policy(texts, SHAPE, seed=0)
    examples = [
        SftExample(
            task_id=task.task_id,
            question=task.question,
            answer=task.reference_answer or "",
        )
        for task in tasks[:12]
    ]
    sft(
        policy, examples, SftConfig(steps=250, learning_rate=1e-2, batch_size=6), seed=0
    )
    policy.save(folder / "model")
    return Workspace(
        folder / "train.jsonl", folder / "validation.jsonl", folder / "model", tasks
    )


def config_of(workspace: Workspace, out: Path, **changes: Any) -> TrainConfig:
    values: dict[str, Any] = {
        "model": {"type": "path", "path": workspace.model},
        "data": {"train": workspace.train, "validation": workspace.validation},
        "rollout": {
            "prompts": 4,
            "group_size": 4,
            "max_new_tokens": 24,
            "micro_batch": 2,
        },
        "optim": {"learning_rate": 1e-3, "updates_per_rollout": 2, "micro_batch": 4},
        "validation": {"every": 2},
        "checkpoint": {"every": 2},
        "steps": 4,
        "threads": 1,
        "device": "cpu",
        "out": out,
    }
    for name, change in changes.items():
        keeps = isinstance(change, dict) and "type" not in change
        values[name] = {**values.get(name, {}), **change} if keeps else change
    return parse_config(values)


@pytest.fixture
def make_config(workspace: Workspace, tmp_path: Path) -> Callable[..., TrainConfig]:
    """A short run; keyword arguments replace whole sections or add keys to them."""
    return lambda **changes: config_of(
        workspace, **{"out": tmp_path / "run", **changes}
    )


@pytest.fixture(scope="session")
def whole_run(
    workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int], Path]:
    """Folder of a run of so many steps with the rewards of `spread_judge`, made once for all."""

    @functools.cache
    def make(steps: int) -> Path:
        out = tmp_path_factory.mktemp("whole") / "run"
        run_grpo(config_of(workspace, out, steps=steps), judge=ScriptedJudge(spread))
        return out

    return make


@pytest.fixture
def made_run(
    make_config: Callable[..., TrainConfig], whole_run: Callable[[int], Path]
) -> Callable[[int], TrainConfig]:
    """Make a run of so many steps: a copy of the one that was made once."""

    def make(steps: int) -> TrainConfig:
        config = make_config(steps=steps)
        shutil.copytree(whole_run(steps), config.out, symlinks=True)
        return config

    return make


@pytest.fixture
def tasks(workspace: Workspace) -> tuple[Task, ...]:
    return workspace.tasks


@pytest.fixture
def policy(workspace: Workspace) -> Policy:
    return load_policy(workspace.model)


def spread(view: JudgeView) -> float:
    return (len(view.response) % 7) / 7


@pytest.fixture
def spread_judge() -> ScriptedJudge:
    """Rewards that differ within a group: by the length of the response."""
    return ScriptedJudge(spread)


@pytest.fixture
def rollouts(policy: Policy, workspace: Workspace) -> Rollouts:
    """Four responses to each of two questions."""
    return sample(policy, workspace.tasks[:2], group_size=4)


def sample(
    policy: Policy,
    tasks: tuple[Task, ...],
    *,
    group_size: int,
    temperature: float = 1.0,
) -> Rollouts:
    return sample_groups(
        policy.model,
        [policy.codec.encode_prompt(task.policy_view()) for task in tasks],
        group_size=group_size,
        max_new_tokens=16,
        temperature=temperature,
        generator=torch.Generator().manual_seed(1),
        eos_token_id=policy.codec.eos_token_id,
        pad_token_id=policy.codec.pad_token_id,
    )


class Fork:
    """A `rubric-train` of its own process, begun by a fork of one that has torch."""

    def __init__(self, pid: int, errors: Path, ask: Callable[..., int]) -> None:
        self.pid = pid
        self._errors = errors
        self._ask = ask

    def wait(self) -> tuple[int, str]:
        """Its status, negative if a signal ended it, and what it said on standard error."""
        return self._ask(wait=self.pid), self._errors.read_text("utf-8")


class Forks:
    """Starts commands as `forking.py` does, each of a new process."""

    def __init__(self, folder: Path, *prefix: str) -> None:
        self._folder = folder
        self._count = itertools.count()
        program = [*prefix, sys.executable, str(Path(__file__).with_name("forking.py"))]
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, *words: str, largest: int | None = None) -> Fork:
        """Start `rubric-train WORDS`, whose files may have up to `largest` bytes."""
        errors = self._folder / f"errors_{next(self._count)}"
        return Fork(
            self._ask(run=words, errors=str(errors), largest=largest), errors, self._ask
        )

    def call(self, *words: str) -> None:
        """Run another command where these runs are."""
        assert self._ask(call=words) == 0, words

    def close(self) -> None:
        self._process.communicate()

    def _ask(self, **asked: object) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """Starts real runs without their start-up."""
    found = Forks(tmp_path_factory.mktemp("forks"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def forks_that_mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """The same in a namespace of their own, in which they may mount file systems."""
    words = ["unshare", "-rm", "mount", "-t", "tmpfs", "-o", "size=64k", "none", "/mnt"]
    if shutil.which("unshare") is None or subprocess.run(words, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    found = Forks(tmp_path_factory.mktemp("forks"), "unshare", "-rm")
    yield found
    found.close()
