"""Generated-and-trained tokens per second of the local loop, over those of TRL's GRPOTrainer.

Both train the same tiny Llama from the same folder on the same questions, with the same group
size, response length, judge, reference model and optimiser updates per rollout, on as many
threads of one process. They take turns step by step, so that whatever else the machine does
falls on both; the first step of each is not counted. A step's tokens are those it generated.

    uv run --group stacks python benchmarks/local_grpo_vs_trl.py [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
import torch
from record import finish
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from transformers.utils import logging as transformers_logging

from rubric_core import (
    Criterion,
    Grounding,
    JudgeResult,
    JudgeView,
    Rubric,
    Task,
    normalized_reward,
    write_tasks,
)
from rubric_train_openrlhf import TrainConfig
from rubric_train_openrlhf.local.start import run_grpo
from rubric_train_openrlhf.policy import TinyConfig, build_tiny_policy
from rubric_train_openrlhf.policy.codec import SLOT_FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import TrainerControl, TrainerState, TrainingArguments

CLAIM = "the local loop generates and trains at least twice as many tokens per second as TRL"
TARGET = 2.0


@dataclass(frozen=True)
class Workload:
    """What both sides do."""

    prompts: int = 8
    group_size: int = 12
    max_new_tokens: int = 80
    updates_per_rollout: int = 4
    steps: int = 16
    """Of each side; the first is not counted."""
    threads: int = 1
    learning_rate: float = 3e-7
    kl_coef: float = 0.01

    @property
    def rows_per_update(self) -> int:
        """Responses in one optimiser update."""
        return self.prompts * self.group_size // self.updates_per_rollout


@dataclass(frozen=True)
class Step:
    """One step of one side."""

    tokens: float
    seconds: float
    cpu_s: float

    @property
    def rate(self) -> float:
        """Generated-and-trained tokens per second."""
        return self.tokens / self.seconds


class Side:
    """One of two trainers that run by turns, each in its own thread."""

    def __init__(self, name: str, train: Callable[[Side], None]) -> None:
        """Prepare the thread; it waits for its first turn."""
        self.steps: list[Step] = []
        self._name = name
        self._train = train
        self._may_go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def take_turn(self) -> None:
        """Let this side make one step, and wait for its end."""
        self._may_go.release()
        self._done.acquire()
        if self._error is not None:
            message = f"{self._name} failed"
            raise RuntimeError(message) from self._error

    def step_ended(self, tokens: float) -> None:
        """Note a step, in its own thread, and wait for the next turn."""
        seconds, cpu_s = (
            time.perf_counter() - self._began,
            time.process_time() - self._cpu_began,
        )
        self.steps.append(Step(tokens, seconds, cpu_s))
        self._done.release()
        self._wait()

    def _wait(self) -> None:
        self._may_go.acquire()
        self._began, self._cpu_began = time.perf_counter(), time.process_time()

    def _run(self) -> None:
        try:
            self._wait()
            self._train(self)
        except BaseException as error:  # noqa: BLE001 -- handed to the thread that waits
            self._error = error
        self._done.release()


class VowelJudge:
    """A judge that costs nothing and gives every text another reward."""

    name = "vowels"

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Score the only criterion by the share of vowels."""
        share = sum(letter in "aeiou" for letter in view.response) / max(
            1, len(view.response)
        )
        return JudgeResult.scored(view.rubric, {"vowels": share}, judge=self.name)


def main() -> None:
    """Run the comparison and print its ratio."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument(
        "--quick", action="store_true", help="under a minute, smaller workload"
    )
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    workload = Workload(threads=arguments.threads)
    if arguments.quick:
        workload = Workload(
            prompts=4,
            group_size=8,
            max_new_tokens=48,
            steps=6,
            threads=arguments.threads,
        )
    transformers_logging.disable_progress_bar()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    torch.set_num_threads(workload.threads)
    with tempfile.TemporaryDirectory() as folder:
        result = compare(workload, Path(folder))
    print(f"{result['value']:.2f} times TRL (target {TARGET}): {result['passed']=}")
    finish(result, arguments.json)


def compare(workload: Workload, folder: Path) -> dict[str, Any]:
    """Let both sides take turns and put their rates beside each other.

    Args:
        workload: sizes.
        folder: for the model, the tasks and the run folder.

    Returns:
        The benchmark's record; its value is the median rate of ours over that of TRL.
    """
    tasks = [make_task(index) for index in range(4 * workload.prompts)]
    write_tasks(folder / "tasks.jsonl", tasks)
    save_model(tasks, folder / "model")
    ours = Side("ours", lambda side: train_ours(side, workload, folder))
    theirs = Side("TRL", lambda side: train_trl(side, workload, folder, tasks))
    for step in range(workload.steps):
        ours.take_turn()
        theirs.take_turn()
        rates = [side.steps[-1].rate for side in (ours, theirs)]
        print(
            f"step {step}: ours {rates[0]:.0f}, TRL {rates[1]:.0f} tokens/s", flush=True
        )
    value = median_rate(ours) / median_rate(theirs)
    return {
        "claim": CLAIM,
        "value": value,
        "target": TARGET,
        "direction": "at least",
        "passed": value >= TARGET,
        "details": {
            "workload": asdict(workload),
            "ours": details(ours),
            "trl": details(theirs),
            "value_by_cpu_time": median_cpu_s(theirs) / median_cpu_s(ours),
            "torch": torch.__version__,
        },
    }


def median_rate(side: Side) -> float:
    """Median tokens per second of the counted steps."""
    return statistics.median(step.rate for step in side.steps[1:])


def median_cpu_s(side: Side) -> float:
    """Median processor seconds per token of the counted steps."""
    return statistics.median(step.cpu_s / step.tokens for step in side.steps[1:])


def details(side: Side) -> dict[str, float]:
    """Say what a side did, for the record."""
    return {
        "tokens_per_s": median_rate(side),
        "tokens_per_step": statistics.mean(step.tokens for step in side.steps[1:]),
        "cpu_s_per_step": statistics.median(step.cpu_s for step in side.steps[1:]),
    }


def make_task(index: int) -> Task:
    """Make one question about a function that does not exist."""
    name = f"transform_{index}"
    names = [f"argument_{part}" for part in range(1 + index % 4)]
    listed = ", ".join(f"`{one}`" for one in names)
    return Task(
        question=f"Explain `{name}` with {listed}: what it does, its parameters and its caveats.",
        grounding=Grounding(
            text=f"Passage {index}: it reshapes an array along an axis."
        ),
        rubric=Rubric(criteria=(Criterion(id="vowels", weight=1),)),
    )


def save_model(tasks: list[Task], path: Path) -> None:
    """Build the tiny policy and save it as a plain Hugging Face folder, which both can read."""
    texts = [
        f"Question: {task.question}\nAnswer: It returns the result." for task in tasks
    ]
    policy = build_tiny_policy(texts * 3, TinyConfig(vocab_size=3000), seed=0)
    # Few texts give a small vocabulary; its rows are padded to the usual 3000.
    policy.model.resize_token_embeddings(3000, mean_resizing=False)
    policy.save(path)
    (path / SLOT_FILE).unlink()


def train_ours(side: Side, workload: Workload, folder: Path) -> None:
    """Train through the product's own loop, run folder and all."""
    config = TrainConfig.model_validate(
        {
            "model": {"type": "path", "path": folder / "model"},
            "data": {"train": folder / "tasks.jsonl"},
            "rollout": {
                "prompts": workload.prompts,
                "group_size": workload.group_size,
                "max_new_tokens": workload.max_new_tokens,
            },
            "objective": {"kl_coef": workload.kl_coef},
            "optim": {
                "learning_rate": workload.learning_rate,
                "warmup_steps": 0,
                "updates_per_rollout": workload.updates_per_rollout,
                "micro_batch": workload.rows_per_update,
            },
            "checkpoint": {"every": 1_000_000},  # TRL saves none either
            "steps": workload.steps + 1,
            "threads": workload.threads,
            "device": "cpu",
            "out": folder / "run",
        }
    )
    run_grpo(
        config,
        judge=VowelJudge(),
        on_step=lambda row: side.step_ended(row.generated_tokens),
    )


def train_trl(side: Side, workload: Workload, folder: Path, tasks: list[Task]) -> None:
    """Train through TRL's trainer with its logging, saving and progress bars off."""
    from datasets import Dataset  # only in the `stacks` group
    from transformers import PrinterCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(workload.threads)  # the setting belongs to a thread
    generated: list[int] = []
    prompts = [f"Question: {task.question}\nAnswer:" for task in tasks]
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(
            folder / "model", dtype=torch.float32
        ),
        reward_funcs=trl_reward(tasks, generated),
        args=GRPOConfig(
            output_dir=str(folder / "trl"),
            per_device_train_batch_size=workload.rows_per_update,
            steps_per_generation=workload.updates_per_rollout,
            gradient_accumulation_steps=1,
            num_generations=workload.group_size,
            max_completion_length=workload.max_new_tokens,
            max_steps=(workload.steps + 1) * workload.updates_per_rollout,
            temperature=1.0,
            top_k=0,
            beta=workload.kl_coef,
            learning_rate=workload.learning_rate,
            lr_scheduler_type="constant",
            weight_decay=0.01,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict(
            {"prompt": prompts, "task": list(range(len(tasks)))}
        ),
        processing_class=AutoTokenizer.from_pretrained(folder / "model"),
        callbacks=[StepEnds(side, workload, generated)],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()


class StepEnds(TrainerCallback):
    """Ends a turn after the last optimiser update on each batch of rollouts."""

    def __init__(self, side: Side, workload: Workload, generated: list[int]) -> None:
        """Take the counter that the reward function fills."""
        self._side = side
        self._workload = workload
        self._generated = generated

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        """Hand the turn over."""
        del args, control, kwargs
        if state.global_step % self._workload.updates_per_rollout == 0:
            self._side.step_ended(self._generated[-1])


def trl_reward(tasks: list[Task], generated: list[int]) -> Callable[..., list[float]]:
    """Wrap the judge as a TRL reward function that also notes how much was generated."""
    judge = VowelJudge()

    async def judge_all(chosen: list[Task], responses: list[str]) -> list[float]:
        views = [
            task.judge_view(response)
            for task, response in zip(chosen, responses, strict=True)
        ]
        results = [await judge.judge(view) for view in views]
        return [
            normalized_reward(result, view.rubric)
            for result, view in zip(results, views, strict=True)
        ]

    def reward(
        completions: list[str],
        completion_ids: list[list[int]],
        task: list[int],
        **_: object,
    ) -> list[float]:
        generated.append(sum(len(ids) for ids in completion_ids))
        return asyncio.run(judge_all([tasks[one] for one in task], completions))

    return reward


if __name__ == "__main__":
    main()
