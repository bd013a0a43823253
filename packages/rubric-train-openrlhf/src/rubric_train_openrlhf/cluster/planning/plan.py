"""What a run on a cluster will do and need: the text of `rubric-train plan`. Nothing is started."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from rubric_train_openrlhf.cluster.command.command_check import check_command, openrlhf_installed
from rubric_train_openrlhf.cluster.command.flags import command_words, grpo_flags
from rubric_train_openrlhf.cluster.planning.plan_sizes import size_lines
from rubric_train_openrlhf.cluster.planning.traps import traps
from rubric_train_openrlhf.config import dump_config

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rubric_train_openrlhf.cluster.command.flags import Flag
    from rubric_train_openrlhf.config import TrainConfig

PROGRAM: Final = "openrlhf.cli.train_ppo_ray"
SFT_PROGRAM: Final = "openrlhf.cli.train_sft"


def describe_plan(config: TrainConfig) -> str:
    """Lay out the resolved configuration, the machines, what a step needs, and the command.

    Raises:
        TrainConfigError: OpenRLHF cannot do what the configuration asks for, or, where it is
            installed, its own parser refuses the command.
        PolicyLoadError: the model's config.json cannot be read.
    """
    flags = grpo_flags(config)
    sft = () if config.sft is None else _sft_flags(config)
    lines = [
        dump_config(config),
        *_layout_lines(config),
        *_step_lines(config),
        *size_lines(config),
        *_flag_lines(flags),
        *_command_lines(flags, sft),
        *_warning_lines(config),
    ]
    return "\n".join(lines)


def _sft_flags(config: TrainConfig) -> tuple[Flag, ...]:
    # Loads the tensor libraries, which a plan without a warm start has no need of.
    from rubric_train_openrlhf.cluster.launching.warm_start import warm_start_flags  # noqa: PLC0415

    # A model without a path was refused with the other flags.
    return warm_start_flags(config, model=getattr(config.model, "path", config.out))


def _layout_lines(config: TrainConfig) -> Iterator[str]:
    cluster, deepspeed = config.cluster, config.cluster.deepspeed
    kind = "GPUs" if cluster.device == "cuda" else "processes on a CPU"
    yield f"layout: {cluster.nodes} × {cluster.gpus_per_node} {kind}"
    together = cluster.colocation == "all"
    shared = "policy, reference and engines in turns" if together else "policy and reference"
    yield (
        f"  train   {cluster.policy_gpus}: {shared}; ZeRO {deepspeed.zero_stage}, "
        f"attention {cluster.attention}"
    )
    on = "on the same" if together else f"on {cluster.engine_gpus} more"
    rests = ", asleep while the policy trains" if cluster.engines_sleep else ""
    yield (
        f"  sample  {cluster.engine_count} engines of {cluster.engines.tensor_parallel}, {on}, "
        f"{cluster.engines.memory_frac:.0%} of the memory each{rests}"
    )
    kept = cluster.nodes * cluster.judge_gpus_per_node
    if kept:
        yield f"  judge   {kept} left alone, the last {cluster.judge_gpus_per_node} of each machine"
    elif config.judge.spec.type in {"llm", "hybrid"}:
        yield "  judge   none of them: its servers, or its provider, are elsewhere"
    yield f"  ray     {_where(config)}"


def _where(config: TrainConfig) -> str:
    ray = config.cluster.ray
    if ray.dashboard is not None:
        return f"handed in at {ray.dashboard} with `ray job submit`"
    if ray.address is not None:
        return f"the cluster at {ray.address}"
    return "a cluster of its own on this machine, which ends with the run"


def _step_lines(config: TrainConfig) -> Iterator[str]:
    rollout, optim = config.rollout, config.optim
    share = config.batch_size // optim.updates_per_rollout
    passes = share // (optim.micro_batch * config.cluster.policy_gpus)
    yield f"each of {config.steps} steps:"
    yield (
        f"  sample  {rollout.prompts} prompts × {rollout.group_size} responses = "
        f"{config.batch_size}, at most {config.batch_size * rollout.max_new_tokens:,} tokens"
    )
    yield (
        f"  judge   each response as soon as it is there, with {config.judge.spec.type!r}, at most "
        f"{config.judge.workers} × {config.judge.micro_batch} at a time"
    )
    yield (
        f"  update  {optim.updates_per_rollout} × {share} responses, in {passes} passes of "
        f"{optim.micro_batch} on each of {config.cluster.policy_gpus}"
    )
    yield (
        f"learning rate {optim.learning_rate:g} after {optim.warmup_steps} warm-up steps; "
        f"{config.steps * optim.updates_per_rollout} optimiser updates in all"
    )
    if config.data.validation is not None:
        yield (
            f"held-out pass before the first step, every {config.validation.every} steps and after "
            "the last; the best checkpoint is by its reward"
        )


def _flag_lines(flags: tuple[Flag, ...]) -> Iterator[str]:
    yield "flags, and the keys they follow from:"
    for flag in flags:
        words = command_words([flag])
        shown = shlex.join(words) if words else f"(no --{flag.name})"
        notes = [f"[{flag.keys}]" if flag.keys else "", flag.why]
        yield f"  {shown:<58} {' '.join(note for note in notes if note)}".rstrip()


def _command_lines(flags: tuple[Flag, ...], sft: tuple[Flag, ...]) -> Iterator[str]:
    words, sft_words = command_words(flags), command_words(sft)
    if sft:
        yield "warm start, before it, on the GPUs of one machine:"
        yield f"  {shlex.join(['python', '-m', SFT_PROGRAM, *sft_words])}"
    yield "command, as `rubric-train run` starts it with our trainer, maker and actors in place:"
    yield f"  {shlex.join(['python', '-m', PROGRAM, *words])}"
    if not openrlhf_installed():
        yield "  OpenRLHF is not installed here: its own parser was not asked"
        return
    printed = check_command(words).warnings
    if sft:
        printed += check_command(sft_words, program=SFT_PROGRAM).warnings
    yield "  OpenRLHF's own parser accepts it"
    for line in printed:
        yield f"  and says: {line}"


def _warning_lines(config: TrainConfig) -> Iterator[str]:
    for trap in traps(config):
        yield f"warning: {trap}"
