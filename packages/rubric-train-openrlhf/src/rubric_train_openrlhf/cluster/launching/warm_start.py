"""Supervised warm start through OpenRLHF's SFT trainer, before GRPO: all weights, or adapters.

It is done once: its folder records what it was made from, and a resumed run finds it there.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any

import structlog
from transformers import AutoTokenizer

from rubric_core import SftExample
from rubric_core.data.chat_prompt import prompt_identity
from rubric_core.files import open_file, open_to_append, read_file, text_sha256
from rubric_core.schema.context import context_sha256
from rubric_judge.ui.console.progress import current
from rubric_train_openrlhf.cluster.command import flags as command
from rubric_train_openrlhf.cluster.settings import WarmStartPaths
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import ClusterError, ResumeError, TrainConfigError
from rubric_train_openrlhf.policy import ChatCodec, supervised
from rubric_train_openrlhf.policy_config import SftConfig
from rubric_train_openrlhf.randomness import derived_seed
from rubric_train_openrlhf.run.writing import disk_errors, write_lines, write_text

_TRAINER = "openrlhf.cli.train_sft"
_COMBINER = "openrlhf.cli.lora_combiner"
_PROCESS = "rubric_train_openrlhf.cluster.launching.warm_start_process"
_LOG_LINES = 30
_LOG_BYTES = 4096
_LOOK_EVERY_S = 1.0
_BAR = re.compile(rb"Train step of epoch \d+:[^\r\n]*?(\d+)/(\d+) \[")

_log = structlog.get_logger()


def warm_start(
    config: TrainConfig, *, examples: Sequence[SftExample], model: Path, folder: Path
) -> Path:
    """Train a model on reference answers, on the GPUs of this machine.

    Args:
        config: of a run with `sft:`.
        examples: questions with reference answers: `TaskSet.reference_answers`.
        model: the folder to start from.
        folder: where everything that is written goes.

    Returns:
        A folder in Hugging Face format. Adapters are merged into the weights: the reference model
        and the engines of the run start from the same folder, and take whole models.

    Raises:
        TrainConfigError: no `sft:`, no example within its lengths, or an indivisible batch.
        ResumeError: the folder holds a warm start of something else.
        ClusterError: OpenRLHF failed; names its log and quotes the end of it.
        DiskWriteError: a file could not be written.
    """
    sft = command.sft_section(config)
    paths = WarmStartPaths(folder)
    made_of = _made_of(config, examples=examples, model=model)
    if paths.done.exists():
        _check_same(paths, made_of)
        _log.info("train.sft.found", path=str(paths.model))
        return paths.model
    words = command.command_words(
        command.warm_start_flags(config, model=model, folder=folder)
    )
    tokenizer: Any = AutoTokenizer.from_pretrained(model, local_files_only=True)
    prompt = config.model.chat_prompt
    thoughts = config.model.told_thoughts
    codec = ChatCodec(tokenizer, prompt=prompt, thoughts=thoughts)
    rows = sft_rows(examples, sft, codec=codec, seed=config.seed)
    with disk_errors(folder):
        for old in (paths.trained, paths.model):
            shutil.rmtree(old, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
    write_lines(paths.examples, rows)
    processes = command.warm_start_processes(config)
    _run(config, paths, module=_TRAINER, words=words, processes=processes)
    _put_model(config, paths, model=model)
    write_text(paths.done, json.dumps(made_of, indent=2) + "\n")
    _log.info("train.sft.finished", path=str(paths.model), steps=sft.steps)
    return paths.model


def sft_rows(
    examples: Sequence[SftExample], config: SftConfig, *, codec: ChatCodec, seed: int
) -> Iterator[str]:
    """Lay out the examples of every step, each once per round.

    Args:
        examples: questions with answers.
        config: steps, batch and lengths.
        codec: of the model.
        seed: of the run.

    Returns:
        `steps · batch_size` JSON lines with the prompt's text as `input`, and as `output` the
        answer with the end token after it, to which OpenRLHF adds nothing.

    Raises:
        TrainConfigError: no example is within the configured lengths.
    """
    pairs = [
        (
            codec.prompt_text(example.view),
            f"{codec.answer_text(example.view, example.text)}{codec.eos_text}",
        )
        for example in supervised.fitting(examples, config, codec)
    ]
    if not pairs:
        raise TrainConfigError(
            f"none of {len(examples)} reference answers has a question of at most "
            f"{config.max_prompt_tokens} tokens and an answer of at most "
            f"{config.max_answer_tokens}; raise the limits of sft, or add answers",
            location="sft",
        )
    _log.info(
        "train.sft.examples", used=len(pairs), left_out=len(examples) - len(pairs)
    )
    order = supervised.in_rounds(
        len(pairs), seed=derived_seed(seed, step=0, purpose="sft")
    )
    rows = [
        json.dumps({"input": prompt, "output": answer}, ensure_ascii=False)
        for prompt, answer in pairs
    ]
    return (rows[index] for index in islice(order, config.steps * config.batch_size))


def _put_model(config: TrainConfig, paths: WarmStartPaths, *, model: Path) -> None:
    """Give the model its name once it is whole; until then it has one that nobody looks for."""
    whole = paths.trained
    if config.cluster.warm_start.lora is not None:
        whole = paths.folder / ".model.tmp"
        words = ["--model_path", str(model), "--lora_path", str(paths.trained)]
        words += ["--output_path", str(whole), "--ds.param_dtype", "bf16"]
        _run(config, paths, module=_COMBINER, words=words)
    with disk_errors(paths.model):
        whole.rename(paths.model)


def _run(
    config: TrainConfig,
    paths: WarmStartPaths,
    *,
    module: str,
    words: Sequence[str],
    processes: int | None = None,
) -> None:
    """Run a module under torch's launcher in that many processes, or in a single one without it."""
    device = config.cluster.device
    launcher = (
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(processes),
    )
    arguments = [
        "env",
        # Other users' caches of other files by the same name stay out of it.
        f"HF_DATASETS_CACHE={paths.folder / 'cache'}",
        "HF_HUB_OFFLINE=1",
        "HF_DATASETS_OFFLINE=1",
        "TOKENIZERS_PARALLELISM=false",
        *(("DS_ACCELERATOR=cpu",) if device == "cpu" else ()),
        sys.executable,
        "-m",
        *((*launcher, "--module") if processes else ()),
        _PROCESS,
        device,
        module,
        *words,
    ]
    with disk_errors(paths.log), open_to_append(paths.log) as log:
        status = _watched(arguments, log)
    shutil.rmtree(paths.folder / "cache", ignore_errors=True)
    if status:
        end = read_file(paths.log).decode(errors="replace").splitlines()[-_LOG_LINES:]
        raise ClusterError(
            f"{module} ended with status {status}; {str(paths.log)!r} ends:\n"
            + "\n".join(end)
        )


def _watched(arguments: Sequence[str], log: IO[bytes]) -> int:
    """Run OpenRLHF and count the batches that its own bar shows; return its exit status."""
    with (
        current().phase("batches") as phase,
        subprocess.Popen(arguments, stdout=log, stderr=log) as process,  # noqa: S603  # ours
    ):
        try:
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_EVERY_S)
                phase.done, phase.total = batches_done(Path(log.name)) or (0, None)
            # The last count, which a short training reaches between two beats.
            current().beat()
        except BaseException:
            process.kill()
            raise
    return process.returncode


def batches_done(log: Path) -> tuple[int, int] | None:
    """Return the batches that are done and all that there are, by the end of OpenRLHF's log.

    None before its first bar.
    """
    with open_file(log) as file:
        file.seek(max(0, log.stat().st_size - _LOG_BYTES))
        bars = _BAR.findall(file.read())
    return (int(bars[-1][0]), int(bars[-1][1])) if bars else None


def _made_of(
    config: TrainConfig, *, examples: Sequence[SftExample], model: Path
) -> dict[str, object]:
    """Return all that a warm start depends on."""
    content = [
        [example.task_id, example.question, example.answer]
        + ([context_sha256(example.context)] if example.context else [])
        for example in examples
    ]
    return {
        "model": str(model),
        "sft": command.sft_section(config).model_dump(mode="json"),
        "lora": config.cluster.warm_start.model_dump(mode="json")["lora"],
        "seed": config.seed,
        "examples_sha256": text_sha256(json.dumps(content)),
        **prompt_identity(model, config.model.chat_prompt),
    }


def _check_same(paths: WarmStartPaths, made_of: dict[str, object]) -> None:
    """Refuse a finished warm start that was made from something else."""
    try:
        before: Any = json.loads(read_file(paths.done))
    except (OSError, ValueError):
        before = None
    if before != made_of or not (paths.model / "config.json").is_file():
        raise ResumeError(
            f"{str(paths.folder)!r} holds a warm start of another model, section or answers; "
            "delete it to do it again, or choose another `out`",
            path=paths.folder,
        )
