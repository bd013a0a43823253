"""What a rehearsal runs on: smaller, otherwise the same; and its process, log and deadline."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil

from rubric_core import Task, write_tasks
from rubric_core.files import read_file
from rubric_train_openrlhf.cluster.rehearse.judge import judging_with
from rubric_train_openrlhf.cluster.rehearse.stand_ins import (
    made_tasks,
    shrink_model,
    stand_in_model,
)
from rubric_train_openrlhf.config import PathModel, TrainConfig, dump_config, parse_config
from rubric_train_openrlhf.policy import load_codec
from rubric_train_openrlhf.run.writing import write_text

if TYPE_CHECKING:
    from rubric_judge import JudgeSpec
    from rubric_train_openrlhf.cluster.rehearse.checking import Subject


STEPS: Final = 2
GROUP_SIZE: Final = 4
_FEWEST_PROMPTS: Final = 4
_MOST_UPDATES: Final = 8
_NEW_TOKENS: Final = 24
_WORKERS: Final = 2
_LEARNING_RATE: Final = 5e-3
"""Moves a random model so far in a step that an engine with the weights of the last one is seen."""
_QUESTIONS: Final = 2
_SFT_STEPS: Final = 2
_SFT_BATCH: Final = 4
_LORA_RANK: Final = 4
_GPU_ONLY: Final = ("ds.deepcompile", "ds.experts_implementation", "ds.use_liger_kernel")


@dataclass(frozen=True)
class StandIns:
    """What a rehearsal runs on."""

    model: Path
    train: Path
    validation: Path | None
    spec: JudgeSpec
    longest_prompt: int
    """Tokens."""
    out: Path


def rehearsal_config(config: TrainConfig, stand_ins: StandIns) -> TrainConfig:
    """Shrink what costs time and memory, and keep every choice of algorithm.

    Objective, advantages, shaping, dynamic sampling, updates per rollout, precision, ZeRO stage,
    colocation, seed and further flags stay; batch, lengths, processes and models shrink. The
    learning rate rises, and the warm-up goes, so that two steps are enough to move the weights.
    """
    values: dict[str, Any] = config.model_dump(mode="json")
    values["model"] = {"type": "path", "path": str(stand_ins.model)}
    values["data"] |= {
        "train": str(stand_ins.train),
        "validation": None if stand_ins.validation is None else str(stand_ins.validation),
    }
    values["judge"]["spec"] = stand_ins.spec.model_dump(mode="json")
    values["judge"]["workers"] = min(_WORKERS, config.judge.workers)
    values |= {"steps": STEPS, "threads": 1, "device": "auto", "out": str(stand_ins.out)}
    _shrink_batch(values, config)
    _shrink_lengths(values, config, longest_prompt=stand_ins.longest_prompt)
    _shrink_cluster(values, config)
    if config.sft is not None:
        values["sft"] |= {"steps": _SFT_STEPS, "batch_size": _SFT_BATCH, "warmup_steps": 1}
    values["validation"] |= {
        "every": 1,
        "questions": _QUESTIONS,
        "samples": min(2, config.validation.samples),
    }
    values["checkpoint"]["every"] = 1
    return parse_config(values, source="the rehearsal's configuration")


def what_shrinks(config: TrainConfig, small: TrainConfig) -> str:
    """One sentence for the report."""
    return (
        f"size: {STEPS} steps of {small.rollout.prompts} × {small.rollout.group_size} responses "
        f"instead of {config.steps} of {config.rollout.prompts} × {config.rollout.group_size}, "
        f"{small.optim.updates_per_rollout} updates each, at most {small.rollout.max_new_tokens} "
        f"tokens, {small.cluster.policy_gpus} process for {config.cluster.policy_gpus} GPUs that "
        f"train, {small.judge.workers} judge workers for {config.judge.workers}, learning rate "
        f"{small.optim.learning_rate:g}"
    )


def _shrink_batch(values: dict[str, Any], config: TrainConfig) -> None:
    """Few responses, in as many updates as the production run makes of its own."""
    updates = min(config.optim.updates_per_rollout, _MOST_UPDATES)
    step = updates // gcd(updates, GROUP_SIZE)
    prompts = -(-_FEWEST_PROMPTS // step) * step
    batch = prompts * GROUP_SIZE
    share = batch // updates
    # Two passes an update where it has so many responses: gradients are then added up too.
    micro_batch = share // 2 if share % 2 == 0 else share
    values["rollout"] |= {"prompts": prompts, "group_size": GROUP_SIZE}
    values["optim"] |= {
        "updates_per_rollout": updates,
        "micro_batch": micro_batch,
        "learning_rate": _LEARNING_RATE,
        "warmup_steps": 0,
    }
    values["cluster"]["deepspeed"]["forward_micro_batch"] = GROUP_SIZE
    values["cluster"]["warm_start"]["micro_batch"] = 1


def _shrink_lengths(values: dict[str, Any], config: TrainConfig, *, longest_prompt: int) -> None:
    tokens = min(_NEW_TOKENS, config.rollout.max_new_tokens)
    values["rollout"]["max_new_tokens"] = tokens
    values["cluster"]["max_len"] = longest_prompt + tokens
    penalty = config.shaping.length_penalty
    if penalty is not None:
        buffer = max(1, min(penalty.buffer_tokens, tokens // 2))
        values["shaping"]["length_penalty"] = {"buffer_tokens": buffer}


def _shrink_cluster(values: dict[str, Any], config: TrainConfig) -> None:
    """One process that trains and one engine, laid out as the production run's are."""
    cluster: dict[str, Any] = values["cluster"]
    cluster |= {
        "nodes": 1,
        "gpus_per_node": 1 if config.cluster.colocation == "all" else 2,
        "judge_gpus_per_node": 0,
        "device": "cpu",
        "ray": {},
    }
    cluster["engines"] |= {
        "count": 1,
        "tensor_parallel": 1,
        "sleep": None,
        "enforce_eager": True,
    }
    cluster["deepspeed"] |= {"sleep": None, "attention": "eager", "packing": False}
    if (lora := cluster["warm_start"]["lora"]) is not None:
        lora["rank"] = min(lora["rank"], _LORA_RANK)
    cluster["extra_flags"] = {
        name: value for name, value in cluster["extra_flags"].items() if name not in _GPU_ONLY
    }


_TRAIN: Final = 8
_HELDOUT: Final = 4


@contextmanager
def staged(subject: Subject) -> Generator[TrainConfig]:
    """Write tasks and a small model, keep the judge up, and give the configuration of the run.

    Raises:
        RubricError: tasks, model or judge cannot be had.
    """
    config, folder = subject.known, subject.request.folder
    train, heldout = rehearsal_tasks(subject)
    write_tasks(folder / "train.jsonl", train)
    validation = None
    if config.data.validation is not None:
        validation = folder / "validation.jsonl"
        write_tasks(validation, heldout)
    model = folder / "model"
    _write_model(subject, model, texts=[task.question for task in (*train, *heldout)])
    codec = load_codec(model)
    prompts = (codec.encode_prompt(task.policy_view()) for task in (*train, *heldout))
    with judging_with(subject) as spec:
        small = rehearsal_config(
            config,
            StandIns(
                model=model,
                train=folder / "train.jsonl",
                validation=validation,
                spec=spec,
                longest_prompt=max(len(prompt.token_ids) for prompt in prompts),
                out=folder / "run",
            ),
        )
        if small.dynamic_sampling is not None and small.judge.language_model is None:
            # A model with random weights earns nothing from a program: no group has a spread.
            subject.stand_in("dynamic sampling: off, since a random model earns nothing here")
            small = small.model_copy(update={"dynamic_sampling": None})
        subject.stand_in(what_shrinks(config, small))
        yield small


def rehearsal_tasks(subject: Subject) -> tuple[Sequence[Task], Sequence[Task]]:
    """A few tasks to train on and a few held-out ones: the run's own with the shortest questions.

    Where the run's are not on this machine, tasks of ours.
    """
    ours = made_tasks()
    train = _shortest(subject.tasks.get("data.train", ()), _TRAIN, answered=subject.known.sft)
    if not train:
        subject.stand_in(f"tasks: {_TRAIN} made for rehearsals; data.train is not on this machine")
        train = ours[:_TRAIN]
    heldout = _shortest(subject.tasks.get("data.validation", ()), _HELDOUT)
    if not heldout and subject.known.data.validation is not None:
        subject.stand_in(
            f"held-out tasks: {_HELDOUT} made for rehearsals; data.validation is not on this "
            "machine"
        )
        heldout = ours[_TRAIN : _TRAIN + _HELDOUT]
    return train, heldout


def _shortest(tasks: Sequence[Task], n: int, *, answered: object = None) -> Sequence[Task]:
    """Those that cost least to read, with a reference answer where a warm start needs one."""
    usable = [task for task in tasks if answered is None or task.reference_answer]
    return sorted(usable, key=lambda task: len(task.question))[:n]


def _write_model(subject: Subject, out: Path, *, texts: Sequence[str]) -> None:
    config = subject.known
    model = config.model
    has_config = isinstance(model, PathModel) and (model.path / "config.json").is_file()
    if isinstance(model, PathModel) and has_config and subject.codec is not None:
        what = shrink_model(model.path, out, seed=config.seed)
        subject.stand_in(f"model: a {what} and the tokenizer of {str(model.path)!r}")
        return
    name = str(model.path) if isinstance(model, PathModel) else model.type
    what = stand_in_model(name, out, texts=texts, seed=config.seed)
    subject.stand_in(
        f"model: a {what} and a tokenizer built in code; {name!r} is not on this machine, so its "
        "tokenizer could not be checked"
    )


_POLL_S: Final = 0.2
_LOOK_EVERY: Final = 5
"""Polls between two looks at the arguments of the run's processes."""
_CLEAN_UP_S: Final = 60.0
_CAUSE: Final = re.compile(r"^(?:.*?: )?([A-Za-z_.]+(?:Error|Exception|Interrupt|Exit)): (.*)$")
_SAID: Final = "rubric-train: "
_TAIL_LINES: Final = 400
_LONGEST_CAUSE: Final = 500


@dataclass(frozen=True)
class Ended:
    """How the process ended."""

    status: int | None
    """Exit status; None where the deadline came first."""
    wall_s: float
    log: Path
    arguments: frozenset[bytes]
    """Arguments and variables that its processes were seen with; one may be a key."""

    @property
    def cause(self) -> str:
        """The last line of the log that the command or an error wrote, or its last line."""
        text = read_file(self.log).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines()[-_TAIL_LINES:] if line.strip()]
        causes = [line for line in lines if line.startswith(_SAID) or _CAUSE.match(line)]
        return (causes or lines or ["it said nothing"])[-1][:_LONGEST_CAUSE]


def run_process(
    config: TrainConfig,
    *,
    folder: Path,
    deadline_s: float,
    on_poll: Callable[[], None] | None = None,
) -> Ended:
    """Run `rubric-train run` and wait for it.

    Args:
        config: the rehearsal's.
        folder: for its configuration and its log.
        deadline_s: when to end it.
        on_poll: called a few times a second, for a progress display.

    Returns:
        How it ended. All of its processes have ended too: it is asked to stop as Ctrl-C would ask,
        and killed with its group if it has not cleaned up a minute later.
    """
    path, log = folder / "rehearsal.yaml", folder / "run.log"
    write_text(path, dump_config(config))
    command = [sys.executable, "-m", "rubric_train_openrlhf.cli", "run", str(path), "--verbose"]
    started_s = time.monotonic()
    arguments: set[bytes] = set()
    polls = 0
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603  # our own command
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while process.poll() is None and time.monotonic() - started_s < deadline_s:
                if on_poll is not None:
                    on_poll()
                if polls % _LOOK_EVERY == 0:
                    arguments |= _arguments_below(process.pid)
                polls += 1
                time.sleep(_POLL_S)
        finally:
            status = process.poll()
            _end(process)
    return Ended(status, time.monotonic() - started_s, log, frozenset(arguments))


def _arguments_below(pid: int) -> set[bytes]:
    """Arguments and variables of a process and of all that it has started."""
    seen: set[bytes] = set()
    with contextlib.suppress(psutil.NoSuchProcess):
        for one in [root := psutil.Process(pid), *root.children(recursive=True)]:
            for name in ("cmdline", "environ"):
                # A system that does not show them, or a process that has ended.
                with contextlib.suppress(OSError):
                    seen.update(read_file(Path(f"/proc/{one.pid}/{name}")).split(b"\0"))
    return seen


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_CLEAN_UP_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
