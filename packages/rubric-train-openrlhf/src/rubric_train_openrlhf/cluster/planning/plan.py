"""The text of `rubric-train plan`: what a run on a cluster will do and need. Nothing is started.

Its last lines are traps: settings that run, but seldom do what was meant.
"""

import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rubric_core.files import read_file
from rubric_judge.ui.page.rendering import text_template
from rubric_train_openrlhf.cluster.command import flags, refusals
from rubric_train_openrlhf.cluster.planning import sizing
from rubric_train_openrlhf.config.sections import RolloutConfig
from rubric_train_openrlhf.config.train import TrainConfig, dump_config
from rubric_train_openrlhf.policy.shape import ModelShape, model_shape
from rubric_train_openrlhf.step.admission import admission_lines
from rubric_train_openrlhf.step.audit import audit_lines
from rubric_train_openrlhf.step.tasks import (
    heldout_questions,
    missing_lines,
    shared_lines,
)
from rubric_train_openrlhf.tracking import running as tracking

_TEMPLATE = read_file(Path(__file__).with_name("plan.txt.j2")).decode()
_LONG = 1e5
_WIDE_FOR_SEQUENCES = 0.02
"""Clips of GSPO are near 3e-4: a geometric mean over a response hardly leaves 1."""
_MANY_PASSES = 8
"""Sums of more gradients than so many lose bits that 8 bits of mantissa do not have."""
_HERE = ("//localhost", "//127.", "//[::1]")


def describe_plan(config: TrainConfig, *, full: bool = False) -> str:
    """Lay out the machines, what a step needs, and traps.

    Args:
        config: of the run.
        full: add the resolved configuration, what sizes and times are made of, and the command.

    Raises:
        TrainConfigError: OpenRLHF cannot do what the configuration asks for, or, in full and where
            it is installed, its own parser refuses the command.
        PolicyLoadError: the model's config.json cannot be read.
    """
    commands = flags.commands(config)
    heldout = heldout_questions(config)
    shape = model_shape(refusals.model_path(config))
    content: dict[str, Any] = {
        "config": config,
        "full": full,
        "program": refusals.GRPO_PROGRAM,
        "sft_program": refusals.SFT_PROGRAM,
        "resolved": dump_config(config),
        "shape": shape,
        "gpus": sizing.planned_gpus(config.cluster.run_gpus)
        if shape and config.cluster.device == "cuda"
        else (),
        "sizing": sizing,
        "assumptions": sizing.ASSUMPTIONS.values(),
        "flags": commands[refusals.GRPO_PROGRAM],
        "sft_flags": commands.get(refusals.SFT_PROGRAM),
        "printed": flags.printed_by_openrlhf(commands)
        if full and refusals.openrlhf_installed()
        else None,
        "admission": (*admission_lines(config), *audit_lines(config)),
        "missing": (*missing_lines(config), *tracking.missing_lines(config)),
        "traps": (*traps(config), *shared_lines(config)),
        "heldout": None if heldout is None else heldout * config.validation.samples,
    }
    template = text_template(_TEMPLATE, **_filters(config, shape))
    return template.render(content).rstrip("\n")


def _filters(
    config: TrainConfig, shape: ModelShape | None
) -> dict[str, Callable[[Any], object]]:
    """How sizes are written, and, by their names in `sizing`, what a GPU of a kind holds and does.

    Without a shape there are none of those to ask about.
    """
    of_gpu: tuple[Callable[..., object], ...] = (
        sizing.memory,
        sizing.engine_room,
        sizing.step_time,
        sizing.sampling_s,
        sizing.decode_tokens_per_s,
    )
    return {
        **{size.__name__: partial(size, config, shape) for size in of_gpu},
        "judge_load": partial(sizing.judge_load, config),
        "total": lambda parts: sum(parts.values()),
        "gb": lambda size: f"{size / sizing.GB:.1f}",
        "million": lambda count: f"{count / 1e6:.1f}",
        "seconds": lambda seconds: (
            f"{seconds:.0f}" if seconds >= 1 else f"{seconds:.1f}"
        ),
        "whole": lambda number: f"{number:,.0f}",
        "number": lambda value: f"{value:.6g}" if value < _LONG else f"{value:.2e}",
        "calls_per_s": lambda load: f"{load.calls / load.seconds:.1f}",
        "shell": lambda of: shlex.join(flags.command_words(of)),
    }


def traps(config: TrainConfig) -> tuple[str, ...]:
    """Warnings about a configuration that is otherwise in order; each begins with its key."""
    cluster = config.cluster
    share = config.batch_size // config.optim.updates_per_rollout
    passes = share // (config.optim.micro_batch * cluster.policy_gpus)
    return (
        *config.traps(),
        *_objective_traps(config),
        *_number_traps(config, passes),
        *_run_traps(config),
        *_machine_traps(config),
        *_judge_gpu_traps(config),
    )


def _objective_traps(config: TrainConfig) -> Iterator[str]:
    """Clips that never act."""
    objective = config.objective
    usual = type(objective)()
    sets_clips = any(
        getattr(objective, name) != getattr(usual, name)
        for name in ("clip_low", "clip_high", "dual_clip")
    )
    if config.optim.updates_per_rollout == 1 and sets_clips:
        yield (
            "optim.updates_per_rollout=1, as in the paper: the one update is made at the "
            "weights that sampled, so the ratio is always about 1, and what was set of "
            "objective.clip_low, clip_high and dual_clip never acts; it does with 2 or "
            "more updates"
        )
    widest = max(objective.clip_low, objective.clip_high)
    if objective.ratio == "sequence" and widest > _WIDE_FOR_SEQUENCES:
        yield (
            f"objective.clip_high={objective.clip_high} with ratio='sequence': the ratio "
            "is a mean over the response and hardly leaves 1, so this never acts; GSPO "
            "uses about 3e-4"
        )


def _number_traps(config: TrainConfig, passes: int) -> Iterator[str]:
    """Batches that have no effect, and numbers of too many or too few bits."""
    cluster = config.cluster
    if config.rollout.micro_batch != RolloutConfig().micro_batch:
        yield (
            "rollout.micro_batch has no effect here: engines take all prompts at once"
        )
    if config.precision == "float32" and cluster.device == "cuda":
        yield (
            "precision='float32' on GPUs: twice the memory and a fraction of the speed; "
            "runs of this backend are made for bfloat16, whose master weights are "
            "float32 anyway"
        )
    in_bfloat16 = cluster.deepspeed.grad_accumulation == "bfloat16"
    if in_bfloat16 and passes > _MANY_PASSES:
        yield (
            "cluster.deepspeed.grad_accumulation='bfloat16' adds up the gradients of "
            f"{passes} passes with 8 bits each; use float32"
        )


def _run_traps(config: TrainConfig) -> Iterator[str]:
    """Runs without a best checkpoint, or without any to go on from."""
    if config.data.validation is None:
        yield (
            "data.validation is not set: without held-out reward the last checkpoint is "
            "the best"
        )
    if config.checkpoint.every > config.steps:
        yield (
            f"checkpoint.every={config.checkpoint.every} is more than "
            f"steps={config.steps}: a run that is killed has nothing to go on from"
        )


def _machine_traps(config: TrainConfig) -> Iterator[str]:
    """Paths, addresses and splits that several machines read in another way."""
    cluster = config.cluster
    elsewhere = cluster.nodes > 1 or cluster.ray.dashboard is not None
    model = config.model.path if config.model.type == "path" else None
    paths = (config.out, config.data.train, config.data.validation, model)
    relative = sorted(str(path) for path in paths if path and not path.is_absolute())
    if elsewhere and relative:
        yield (
            "out: with several machines, or handed in with cluster.ray.dashboard, paths "
            "must be on a file system that all share; these are relative: "
            f"{', '.join(relative)}"
        )
    if elsewhere and config.model.type == "smollm2":
        yield (
            "model.type='smollm2' is a folder in this machine's cache, which no other "
            "has; copy it to where all see it, and give type: path"
        )
    here = [
        address
        for address in _judge_addresses(config)
        if any(name in address for name in _HERE)
    ]
    if here and cluster.nodes > 1:
        yield (
            f"judge.spec.api_base={here[0]}: judge actors run on every one of "
            f"{cluster.nodes} machines, and this address is another server on each; give "
            "the judge's machine by name"
        )
    tensor_parallel = cluster.engines.tensor_parallel
    here_gpus = cluster.run_gpus // cluster.nodes
    if tensor_parallel > here_gpus:
        yield (
            f"cluster.engines.tensor_parallel={tensor_parallel} is more than the "
            f"{here_gpus} GPUs of a machine: every token of every response crosses the "
            "network several times"
        )
    if cluster.nodes > 1 and cluster.ray.is_own:
        yield (
            f"cluster.nodes={cluster.nodes} with neither cluster.ray.address nor "
            "cluster.ray.dashboard: a run starts Ray on its own machine alone, and ends "
            "at once"
        )


def _judge_gpu_traps(config: TrainConfig) -> Iterator[str]:
    """GPUs that are kept for a judge, and its servers."""
    cluster = config.cluster
    kept = cluster.judge_gpus_per_node
    servers = len(_judge_addresses(config))
    if kept and not servers:
        yield (
            f"cluster.judge_gpus_per_node={kept} stay unused: "
            f"judge.spec.type={config.judge.spec.type!r} has no server of yours "
            "(judge.spec.api_base)"
        )
    judged_on = kept * cluster.nodes
    if 0 < servers < judged_on:
        yield (
            f"judge.spec.api_base names {servers} servers for {judged_on} GPUs that are "
            "kept for the judge; one server per GPU, each with an address of its own, "
            "keeps a group's calls where their prefix is"
        )


def _judge_addresses(config: TrainConfig) -> list[str]:
    judge = config.judge.language_model
    return [address for address in judge.addresses if address] if judge else []
