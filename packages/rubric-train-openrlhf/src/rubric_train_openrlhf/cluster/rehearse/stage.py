"""The stage of a rehearsal: a smaller run, otherwise the same, with process, log and deadline."""

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
from typing import Any, cast

import yaml

from rubric_core import Task, write_tasks
from rubric_core.errors import shortened
from rubric_core.files import read_file
from rubric_judge import JudgeSpec, load_replicas
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.quality.calibration.record import read_calibration
from rubric_train_openrlhf.cluster.orphans import end_session
from rubric_train_openrlhf.cluster.rehearse import judge, stand_ins
from rubric_train_openrlhf.cluster.rehearse.checking import Subject
from rubric_train_openrlhf.config.sections import PathModel
from rubric_train_openrlhf.config.train import TrainConfig, dump_config, parse_config
from rubric_train_openrlhf.policy import load_codec
from rubric_train_openrlhf.run.writing import write_text

_SMALL: dict[str, dict[str, Any]] = yaml.safe_load(
    read_file(Path(__file__).with_name("small.yaml"))
)
_FEWEST_PROMPTS = 4
_OF_PROMPTS = ("prompt_date", "chat_template_kwargs", "thoughts")
"""Settings of a model that the small one keeps."""
_GPU_ONLY = (
    "ds.deepcompile",
    "ds.experts_implementation",
    "ds.use_liger_kernel",
)


def rehearsal_config(
    config: TrainConfig, folder: Path, *, spec: JudgeSpec, longest_prompt: int
) -> TrainConfig:
    """Shrink what costs time and memory, and keep every choice of algorithm.

    Objective, advantages, shaping, dynamic sampling, updates per rollout, precision, ZeRO stage,
    colocation, seed and further flags stay; batch, lengths, processes and models shrink. The
    learning rate rises, and the warm-up goes, so that two steps are enough to move the weights.

    Args:
        config: of the production run.
        folder: of the rehearsal, with its model and its tasks.
        spec: the judge's.
        longest_prompt: of the tasks, in tokens.
    """
    values = config.model_dump(mode="json")
    _put(values, _SMALL["at_most"], min)
    _put(values, _SMALL["instead"], lambda _, new: new)
    model = {"type": "path", "path": str(folder / "model")}
    model |= {
        name: values["model"][name] for name in _OF_PROMPTS if name in values["model"]
    }
    values |= {"model": model, "out": str(folder / "run")}
    # Nobody watches a rehearsal.
    values.pop("trackers", None)
    values["data"]["train"] = str(folder / "train.jsonl")
    if config.data.validation is not None:
        values["data"]["validation"] = str(folder / "validation.jsonl")
    values["judge"]["spec"] = spec.model_dump(mode="json")
    tokens = values["rollout"]["max_new_tokens"]
    flags = config.cluster.extra_flags
    values["cluster"] |= {
        "max_len": longest_prompt + tokens,
        # One process that trains and one engine, laid out as the production run's are.
        "gpus_per_node": 1 if config.cluster.colocation == "all" else 2,
        "extra_flags": {name: flags[name] for name in flags if name not in _GPU_ONLY},
    }
    if (penalty := config.shaping.length_penalty) is not None:
        buffer = max(1, min(penalty.buffer_tokens, tokens // 2))
        values["shaping"]["length_penalty"] = {"buffer_tokens": buffer}
    _shrink_batch(values["rollout"], values["optim"])
    return parse_config(values, source="the rehearsal's configuration")


def _put(
    values: dict[str, Any], changes: dict[str, Any], chosen: Callable[[Any, Any], Any]
) -> None:
    """Change values at any depth to what is chosen of the old and the new; a section may be off."""
    for name, change in changes.items():
        if not change or not isinstance(change, dict):
            values[name] = chosen(values[name], change)
        elif values[name] is not None:
            _put(values[name], cast("dict[str, Any]", change), chosen)


def _shrink_batch(rollout: dict[str, Any], optim: dict[str, Any]) -> None:
    """Few responses, in as many updates as the production run makes of its own."""
    updates = optim["updates_per_rollout"]
    size = rollout["group_size"]
    step = updates // gcd(updates, size)
    rollout["prompts"] = -(-_FEWEST_PROMPTS // step) * step
    share = rollout["prompts"] * size // updates
    # Two passes an update where it has so many responses: gradients are then added up too.
    optim["micro_batch"] = share // 2 if share % 2 == 0 else share


_TRAIN = 8
_HELDOUT = 4


def _without_names(config: TrainConfig) -> TrainConfig:
    """Give no names to the chat template of a model that stands in for another family's."""
    if not isinstance(config.model, PathModel):
        return config
    model = config.model.model_copy(update={"chat_template_kwargs": {}})
    return config.model_copy(update={"model": model})


@contextmanager
def staged(subject: Subject) -> Generator[TrainConfig]:
    """Write tasks and a small model, keep the judge up, and give the configuration of the run.

    Raises:
        RubricError: tasks, model or judge cannot be had.
    """
    config = subject.known
    folder = subject.request.folder
    train, heldout = _rehearsal_tasks(subject)
    write_tasks(folder / "train.jsonl", train)
    if config.data.validation is not None:
        write_tasks(folder / "validation.jsonl", heldout)
    tasks = (*train, *heldout)
    _write_model(
        subject, folder / "model", texts=[task.policy_view().message for task in tasks]
    )
    if subject.model_folder is None:
        config = _without_names(config)
    codec = load_codec(folder / "model", prompt=config.model.chat_prompt)
    longest = max(
        len(codec.encode_prompt(task.policy_view()).token_ids) for task in tasks
    )
    with judge.judging_with(subject) as spec:
        if config.audit is not None and spec != config.judge.spec:
            config = _without_audit(config)
            subject.stand_in("audit: off, since another judge judges here")
        small = rehearsal_config(config, folder, spec=spec, longest_prompt=longest)
        if small.dynamic_sampling is not None and small.judge.language_model is None:
            # A model with random weights earns nothing from a program: no group has a spread.
            subject.stand_in(
                "dynamic sampling: off, since a random model earns nothing here"
            )
            small = small.model_copy(update={"dynamic_sampling": None})
        small = _with_admission(subject, small)
        subject.stand_in(_sizes(config, small))
        yield small


def _without_audit(config: TrainConfig) -> TrainConfig:
    checkpoint = config.checkpoint.model_copy(update={"best_by": "judge"})
    return config.model_copy(update={"audit": None, "checkpoint": checkpoint})


def _sizes(run: TrainConfig, small: TrainConfig) -> str:
    """Say how much smaller than the run its rehearsal is."""
    rollout = small.rollout
    return (
        f"size: {small.steps} steps of {rollout.prompts} × {rollout.group_size} "
        f"responses instead of {run.steps} of {run.rollout.prompts} × "
        f"{run.rollout.group_size}, {small.optim.updates_per_rollout} updates each, at "
        f"most {rollout.max_new_tokens} tokens, {small.cluster.policy_gpus} process for "
        f"{run.cluster.policy_gpus} GPUs that train, {small.judge.workers} judge workers "
        f"for {run.judge.workers}, learning rate {small.optim.learning_rate:g}"
    )


def _with_admission(subject: Subject, config: TrainConfig) -> TrainConfig:
    """Mask what the run will mask, whoever judges here; not of tasks that are not the run's."""
    judging = config.judge
    out = subject.request.folder / "calibration.json"
    if judging.calibration is None:
        return config
    off = {
        "calibration": None,
        "correction": "none",
        "spec": judge.sampled(judging.spec),
    }
    if not (subject.tasks.get("data.train") and judging.calibration.is_file()):
        subject.stand_in(
            "admission: off, since tasks or calibration are not on this machine"
        )
        return config.model_copy(update={"judge": judging.model_copy(update=off)})
    of_judge = fingerprint(load_replicas(judging.spec)[0])
    calibration = read_calibration(judging.calibration)
    if calibration.judge_fingerprint == of_judge:
        return config
    here = calibration.model_copy(update={"judge_fingerprint": of_judge})
    write_text(out, here.model_dump_json())
    subject.stand_in("admission: as calibrated, of the judge of this rehearsal")
    return config.model_copy(
        update={"judge": judging.model_copy(update={"calibration": out})}
    )


def _rehearsal_tasks(
    subject: Subject,
) -> tuple[Sequence[Task], Sequence[Task]]:
    """A few tasks to train on and a few held-out ones: the run's own with the shortest questions.

    Where the run's are not on this machine, tasks of ours.
    """
    config = subject.known
    ours = stand_ins.made_tasks()
    tasks = subject.tasks.get("data.train", ())
    usable = [task for task in tasks if task.reference_answer or config.sft is None]
    train = _shortest(usable, _TRAIN)
    heldout = _shortest(subject.heldout_tasks, _HELDOUT)
    if not train:
        subject.stand_in(
            f"tasks: {_TRAIN} made for rehearsals; data.train is not on this machine"
        )
        train = ours[:_TRAIN]
    if not heldout and config.data.validation is not None:
        subject.stand_in(
            f"held-out tasks: {_HELDOUT} made for rehearsals; data.validation is not on "
            "this machine"
        )
        heldout = ours[_TRAIN : _TRAIN + _HELDOUT]
    return train, heldout


def _shortest(tasks: Sequence[Task], n: int) -> Sequence[Task]:
    """Return the tasks that cost least to read."""
    return sorted(tasks, key=lambda task: len(task.policy_view().message))[:n]


def _write_model(subject: Subject, out: Path, *, texts: Sequence[str]) -> None:
    folder = subject.model_folder
    name = subject.model_name
    seed = subject.known.seed
    if folder and (folder / "config.json").is_file() and subject.codec is not None:
        what = stand_ins.shrink_model(folder, out, seed=seed)
        with_it = f"the tokenizer of {name!r}"
    else:
        what = stand_ins.stand_in_model(name, out, texts=texts, seed=seed)
        why = f"{name!r} is not on this machine, so its tokenizer could not be checked"
        with_it = f"a tokenizer built in code; {why}"
    subject.stand_in(f"model: a {what} and {with_it}")


_POLL_S = 0.2
_LOOK_EVERY = 5
"""Polls between two looks at the arguments of the run's processes."""
_CLEAN_UP_S = 60.0
_CAUSE = re.compile(
    r"^(?:.*?: )?([A-Za-z_.]+(?:Error|Exception|Interrupt|Exit)): (.*)$"
)
_SAID = "rubric-train: "
_TAIL_LINES = 400
_WAITED = re.compile(
    r"time[d ]?[- ]?out|Timeout|did not (?:start|answer|come up) (?:with)?in|deadline",
    re.IGNORECASE,
)
"""In a cause, that something was waited for and did not come."""
_LONGEST_CAUSE = 500


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
        lines = [
            line.strip() for line in text.splitlines()[-_TAIL_LINES:] if line.strip()
        ]
        causes = [
            line for line in lines if line.startswith(_SAID) or _CAUSE.match(line)
        ]
        return shortened((causes or lines or ["it said nothing"])[-1], _LONGEST_CAUSE)

    @property
    def ran_out_of_time(self) -> bool:
        """Whether it ended because something was waited for too long, as on a busy machine."""
        return _WAITED.search(self.cause) is not None


def run_process(
    config: TrainConfig,
    *,
    folder: Path,
    deadline_s: float,
    on_poll: Callable[[], object] = lambda: None,
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
    path = folder / "rehearsal.yaml"
    log = folder / "run.log"
    write_text(path, dump_config(config))
    command = [
        sys.executable,
        "-m",
        "rubric_train_openrlhf.cli",
        "run",
        str(path),
        "--verbose",
    ]
    started_s = time.monotonic()
    arguments = set[bytes]()
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
                on_poll()
                if polls % _LOOK_EVERY == 0:
                    arguments |= _arguments_below(process.pid)
                polls += 1
                time.sleep(_POLL_S)
        finally:
            status = process.poll()
            end_session(process, by=signal.SIGINT, within_s=_CLEAN_UP_S)
    return Ended(status, time.monotonic() - started_s, log, frozenset(arguments))


def _arguments_below(pid: int) -> set[bytes]:
    """Arguments and variables of a process and of all that it has started."""
    import psutil  # comes with OpenRLHF, without which nothing is run

    arguments = set[bytes]()
    with contextlib.suppress(psutil.Error):
        for process in (root := psutil.Process(pid), *root.children(recursive=True)):
            with contextlib.suppress(psutil.Error):  # it has ended
                words = (*process.cmdline(), *process.environ().values())
                arguments.update(map(os.fsencode, words))
    return arguments
