"""The table between the warm start's configuration and the flags of `openrlhf.cli.train_sft`.

As `flags.py` is for the run itself: nothing else knows one of these flags.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from rubric_train_openrlhf.cluster.command.flags import Flag
from rubric_train_openrlhf.errors import TrainConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rubric_train_openrlhf.config import TrainConfig
    from rubric_train_openrlhf.policy_config import SftConfig

BETAS = (0.9, 0.999)
"""Of AdamW, as in the local warm start."""


class WarmStartPaths:
    """Files of a warm start, all in one folder."""

    def __init__(self, folder: Path) -> None:
        """Name the files; nothing is created."""
        self.folder = folder
        self.examples = folder / "examples.jsonl"
        """What is trained on, in OpenRLHF's layout."""
        self.trained = folder / "trained"
        """What OpenRLHF saves: the model, or adapters."""
        self.model = folder / "model"
        """The model that GRPO starts from; it appears whole or not at all."""
        self.done = folder / "done.json"
        """What the model was made of; written last."""
        self.log = folder / "train_sft.log"
        """Output of OpenRLHF."""


def sft_flags(
    config: TrainConfig, *, model: Path, paths: WarmStartPaths, processes: int
) -> tuple[Flag, ...]:
    """All flags of a warm start.

    Args:
        config: of a run with `sft:`.
        model: the folder that it starts from.
        paths: where its files are.
        processes: GPUs that take part, each with one process.

    Raises:
        TrainConfigError: there is no `sft:`, or its batch is not divisible.
    """
    sft = config.sft
    if sft is None:
        raise TrainConfigError("there is no warm start without the section sft", location="sft")
    micro_batch = config.cluster.warm_start.micro_batch
    if sft.batch_size % (micro_batch * processes):
        raise TrainConfigError(
            f"sft.batch_size={sft.batch_size} is not divisible by cluster.warm_start.micro_batch × "
            f"GPUs of one machine = {micro_batch} × {processes}; change one of them",
            location="sft.batch_size",
        )
    rows = chain(
        _data(sft, paths, seed=config.seed),
        _updates(config, sft, micro_batch=micro_batch),
        _model(config, model=model, paths=paths),
        _adapters(config),
    )
    return tuple(rows)


def _data(sft: SftConfig, paths: WarmStartPaths, *, seed: int) -> Iterator[Flag]:
    yield Flag("data.dataset", str(paths.examples), "data.train", "in the order of the seed")
    yield Flag("data.input_key", "input", "", "the rendered prompt")
    yield Flag("data.output_key", "output", "", "the answer and its end token")
    # Their default puts "User:" before a prompt.
    yield Flag("data.input_template", "{}", "", "the prompt is rendered already")
    longest = sft.max_prompt_tokens + sft.max_answer_tokens
    # Their data set leaves out a prompt that reaches the longest length less 2.
    keys = "sft.max_prompt_tokens sft.max_answer_tokens"
    yield Flag("data.max_len", longest + 3, keys, "what is longer was left out before")
    yield Flag("train.seed", seed, "seed", "")


def _updates(config: TrainConfig, sft: SftConfig, *, micro_batch: int) -> Iterator[Flag]:
    yield Flag("train.batch_size", sft.batch_size, "sft.batch_size", "examples of a step")
    yield Flag("train.micro_batch_size", micro_batch, "cluster.warm_start.micro_batch", "per GPU")
    yield Flag("train.max_epochs", 1, "sft.steps", "the file holds every step's examples")
    yield Flag("adam.lr", sft.learning_rate, "sft.learning_rate", "")
    yield Flag("adam.betas", BETAS, "", "")
    yield Flag("adam.weight_decay", sft.weight_decay, "sft.weight_decay", "")
    yield Flag("max_norm", 1.0, "", "gradient norm")
    yield Flag("lr_scheduler", "cosine_with_min_lr", "", "falls to min_lr_ratio")
    yield Flag("min_lr_ratio", 0.1, "", "as low as in the local warm start")
    warmup = min(sft.warmup_steps, sft.steps)
    # They round the product up: half a step less survives the rounding of a float.
    ratio = max(0.0, warmup - 0.5) / sft.steps
    yield Flag("lr_warmup_ratio", ratio, "sft.warmup_steps", "their warm-up is a share of steps")
    checkpointing = config.optim.gradient_checkpointing
    key = "optim.gradient_checkpointing"
    yield Flag("model.gradient_checkpointing_enable", checkpointing, key, "")


def _model(config: TrainConfig, *, model: Path, paths: WarmStartPaths) -> Iterator[Flag]:
    cluster, deepspeed = config.cluster, config.cluster.deepspeed
    yield Flag("model.model_name_or_path", str(model), "model.path", "")
    yield Flag("ckpt.output_dir", str(paths.trained), "out", "")
    yield Flag("ckpt.path", str(paths.folder / "state"), "out", "not written: it is done at once")
    key = "cluster.deepspeed.zero_stage"
    yield Flag("ds.zero_stage", deepspeed.zero_stage, key, "over the GPUs of one machine")
    key = "cluster.deepspeed.offload_optimizer"
    yield Flag("ds.adam_offload", deepspeed.offload_optimizer, key, "steps on CPUs")
    yield Flag("ds.attn_implementation", cluster.attention, "cluster.deepspeed.attention", "")
    yield Flag("ds.param_dtype", "bf16", "", "OpenRLHF trains in 16 bits; sums are single")
    yield Flag("ds.grad_accum_dtype", "fp32", "", "")


def _adapters(config: TrainConfig) -> Iterator[Flag]:
    lora = config.cluster.warm_start.lora
    if lora is None:
        return
    section = "cluster.warm_start.lora"
    yield Flag("ds.lora.rank", lora.rank, f"{section}.rank", "")
    yield Flag("ds.lora.alpha", lora.alpha, f"{section}.alpha", "")
    yield Flag("ds.lora.dropout", lora.dropout, f"{section}.dropout", "")
    targets = tuple(lora.targets)
    if targets != ("all-linear",):  # their default, and no list then
        yield Flag("ds.lora.target_modules", targets, f"{section}.targets", "")
