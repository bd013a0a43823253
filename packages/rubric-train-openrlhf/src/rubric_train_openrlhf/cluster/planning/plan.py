"""What a run on a cluster will do and need: the text of `rubric-train plan`. Nothing is started.

Its last lines are traps: settings that run, but seldom do what was meant.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, StrictUndefined

from rubric_core.files import read_file
from rubric_train_openrlhf.cluster.command import flags as command
from rubric_train_openrlhf.cluster.command import refusals
from rubric_train_openrlhf.cluster.planning import shapes, sizing
from rubric_train_openrlhf.config.loading import dump_config
from rubric_train_openrlhf.config.sections import RolloutConfig
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.policy.shape import ModelShape, model_shape
from rubric_train_openrlhf.step.admission import admission_lines
from rubric_train_openrlhf.step.tasks import heldout_questions

_TEMPLATE: Final = read_file(Path(__file__).with_name("plan.txt.j2")).decode()
_LONG = 1e5
_WIDE_FOR_SEQUENCES = 0.02
"""Clips of GSPO are near 3e-4: a geometric mean over a response hardly leaves 1."""
_MANY_PASSES = 8
"""Sums of more gradients than so many lose bits that 8 bits of mantissa do not have."""
_HERE = ("//localhost", "//127.", "//[::1]")


def describe_plan(config: TrainConfig) -> str:
    """Lay out the resolved configuration, the machines, what a step needs, and the command.

    Raises:
        TrainConfigError: OpenRLHF cannot do what the configuration asks for, or, where it is
            installed, its own parser refuses the command.
        PolicyLoadError: the model's config.json cannot be read.
    """
    commands, heldout = command.commands(config), heldout_questions(config)
    shape = model_shape(refusals.model_path(config))
    content: dict[str, Any] = {
        "config": config,
        "program": refusals.GRPO_PROGRAM,
        "sft_program": refusals.SFT_PROGRAM,
        "resolved": dump_config(config),
        "shape": shape,
        "gpus": shapes.planned_gpus(config.cluster.run_gpus)
        if shape and config.cluster.device == "cuda"
        else (),
        "sizing": sizing,
        "assumptions": shapes.ASSUMPTIONS.values(),
        "flags": commands[refusals.GRPO_PROGRAM],
        "sft_flags": commands.get(refusals.SFT_PROGRAM),
        "printed": command.printed_by_openrlhf(commands) if refusals.openrlhf_installed() else None,
        "admission": tuple(admission_lines(config)),
        "traps": traps(config),
        "heldout": None if heldout is None else heldout * config.validation.samples,
    }
    environment = Environment(  # noqa: S701  # a text for a terminal
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(_filters(config, shape))
    return environment.from_string(_TEMPLATE).render(content).rstrip("\n")


def _filters(config: TrainConfig, shape: ModelShape | None) -> dict[str, Callable[[Any], object]]:
    """How sizes are written, and, by their names in `sizing`, what a GPU of a kind holds and does.

    Without a shape there are none of those to ask about.
    """
    of_gpu: tuple[Callable[..., object], ...] = (
        *(sizing.memory, sizing.engine_room, sizing.step_time, sizing.sampling_s),
        sizing.decode_tokens_per_s,
    )
    return {
        **{size.__name__: partial(size, config, shape) for size in of_gpu},
        "judge_load": partial(sizing.judge_load, config),
        "total": lambda parts: sum(parts.values()),
        "gb": lambda size: f"{size / shapes.GB:.1f}",
        "million": lambda count: f"{count / 1e6:.1f}",
        "seconds": lambda seconds: f"{seconds:.0f}" if seconds >= 1 else f"{seconds:.1f}",
        "whole": lambda number: f"{number:,.0f}",
        "number": lambda value: f"{value:.6g}" if value < _LONG else f"{value:.2e}",
        "calls_per_s": lambda load: f"{config.batch_size / load.seconds:.1f}",
        "shell": lambda flags: shlex.join(command.command_words(flags)),
    }


def traps(config: TrainConfig) -> tuple[str, ...]:
    """Warnings about a configuration that is otherwise in order; each begins with its key."""
    tables = (_algorithm_traps(config), _layout_traps(config))
    return tuple(trap for table in tables for trap, is_set in table.items() if is_set)


def _algorithm_traps(config: TrainConfig) -> dict[str, bool]:
    """What to say of objective, updates and numbers, and whether it is so."""
    objective, optim, cluster = config.objective, config.optim, config.cluster
    widest = max(objective.clip_low, objective.clip_high)
    share = config.batch_size // optim.updates_per_rollout
    passes = share // (optim.micro_batch * cluster.policy_gpus)
    in_bfloat16 = cluster.deepspeed.grad_accumulation == "bfloat16"
    return {
        "optim.updates_per_rollout=1: the one update is made at the weights that sampled, so "
        "the ratio is always about 1 and neither objective.clip_low nor objective.dual_clip "
        "ever acts; the paper's figures match 4": optim.updates_per_rollout == 1,
        f"optim.warmup_steps={optim.warmup_steps} and steps={config.steps}: the run ends "
        "before the learning rate is reached": config.steps <= optim.warmup_steps,
        f"objective.clip_high={objective.clip_high} with ratio='sequence': the ratio is a mean "
        "over the response and hardly leaves 1, so this never acts; GSPO uses about "
        "3e-4": objective.ratio == "sequence" and widest > _WIDE_FOR_SEQUENCES,
        "rollout.micro_batch has no effect here: engines take all prompts at "
        "once": config.rollout.micro_batch != RolloutConfig().micro_batch,
        "precision='float32' on GPUs: twice the memory and a fraction of the speed; runs of "
        "this backend are made for bfloat16, whose master weights are float32 "
        "anyway": config.precision == "float32" and cluster.device == "cuda",
        f"cluster.deepspeed.grad_accumulation='bfloat16' adds up the gradients of {passes} "
        "passes with 8 bits each; use float32": in_bfloat16 and passes > _MANY_PASSES,
    }


def _layout_traps(config: TrainConfig) -> dict[str, bool]:
    """What to say of files, machines and the judge's servers, and whether it is so."""
    cluster, spec, judge = config.cluster, config.judge.spec, config.judge.language_model
    nodes, model = cluster.nodes, config.model.path if config.model.type == "path" else None
    paths = (config.out, config.data.train, config.data.validation, model)
    relative = sorted(str(path) for path in paths if path and not path.is_absolute())
    elsewhere = nodes > 1 or cluster.ray.dashboard is not None
    addresses = [address for address in judge.addresses if address] if judge else []
    here = [address for address in addresses if any(name in address for name in _HERE)]
    parallel, here_gpus = cluster.engines.tensor_parallel, cluster.run_gpus // nodes
    judge_gpus = cluster.judge_gpus_per_node
    return {
        "data.validation is not set: without held-out reward the last checkpoint is the "
        "best": config.data.validation is None,
        f"checkpoint.every={config.checkpoint.every} is more than steps={config.steps}: a run "
        "that is killed has nothing to go on from": config.checkpoint.every > config.steps,
        f"out: with several machines, or handed in with cluster.ray.dashboard, paths must be "
        "on a file system that all share; these are relative: "
        f"{', '.join(relative)}": elsewhere and bool(relative),
        "model.type='smollm2' is a folder in this machine's cache, which no other has; copy it to "
        "where all see it, and give type: path": elsewhere and config.model.type == "smollm2",
        f"judge.spec.api_base={''.join(here[:1])}: judge actors run on every one of {nodes} "
        "machines, and this address is another server on each; give the judge's machine by "
        "name": bool(here) and nodes > 1,
        f"cluster.engines.tensor_parallel={parallel} is more than the {here_gpus} GPUs of a "
        "machine: every token of every response crosses the network several "
        "times": parallel > here_gpus,
        f"cluster.nodes={nodes} with neither cluster.ray.address nor cluster.ray.dashboard: a run "
        "starts Ray on its own machine alone, and ends at once": nodes > 1 and cluster.ray.is_own,
        f"cluster.judge_gpus_per_node={judge_gpus} stay unused: judge.spec.type={spec.type!r} has "
        "no server of yours (judge.spec.api_base)": bool(judge_gpus) and not addresses,
        f"judge.spec.api_base names {len(addresses)} servers for {judge_gpus * nodes} GPUs that "
        "are kept for the judge; one server per GPU, each with an address of its own, keeps a "
        "group's calls where their prefix is": 0 < len(addresses) < judge_gpus * nodes,
    }
