"""The text of `rubric-train plan`: what a run on a cluster will do and need. Nothing is started.

Its last lines are traps: settings that run, but seldom do what was meant.
"""

import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from rubric_core.configuration import said_where
from rubric_core.files import read_file, toml_beside
from rubric_judge.ui.page.rendering import text_template
from rubric_train_openrlhf.cluster.command import flags, refusals
from rubric_train_openrlhf.cluster.planning import sizing
from rubric_train_openrlhf.config.sections import RolloutConfig
from rubric_train_openrlhf.config.train import TrainConfig, dump_config
from rubric_train_openrlhf.policy.shape import ModelShape, model_shape
from rubric_train_openrlhf.step.admission import admission_lines
from rubric_train_openrlhf.step.tasks import (
    heldout_questions,
    missing_lines,
    shared_lines,
)

_TEMPLATE: Final = read_file(Path(__file__).with_name("plan.txt.j2")).decode()
_TRAPS: Final[dict[str, str]] = toml_beside(__file__, "traps.toml")
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
        "admission": tuple(admission_lines(config)),
        "missing": tuple(missing_lines(config)),
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
        "calls_per_s": lambda load: f"{config.batch_size / load.seconds:.1f}",
        "shell": lambda of: shlex.join(flags.command_words(of)),
    }


def traps(config: TrainConfig) -> tuple[str, ...]:
    """Warnings about a configuration that is otherwise in order; each begins with its key."""
    judge = config.judge.language_model
    cluster = config.cluster
    addresses = [address for address in judge.addresses if address] if judge else []
    here = [address for address in addresses if any(name in address for name in _HERE)]
    model = config.model.path if config.model.type == "path" else None
    paths = (config.out, config.data.train, config.data.validation, model)
    relative = sorted(str(path) for path in paths if path and not path.is_absolute())
    share = config.batch_size // config.optim.updates_per_rollout
    passes = share // (config.optim.micro_batch * cluster.policy_gpus)
    here_gpus = cluster.run_gpus // cluster.nodes
    judge_gpus = cluster.judge_gpus_per_node
    elsewhere = cluster.nodes > 1 or cluster.ray.dashboard is not None
    tensor_parallel = cluster.engines.tensor_parallel
    servers = len(addresses)
    judged_on = judge_gpus * cluster.nodes
    holds = _algorithm_traps(config, passes) | {
        "no_validation": config.data.validation is None,
        "no_checkpoint": config.checkpoint.every > config.steps,
        "relative_paths": elsewhere and bool(relative),
        "model_in_cache": elsewhere and config.model.type == "smollm2",
        "judge_on_this_machine": bool(here) and cluster.nodes > 1,
        "engine_over_machines": tensor_parallel > here_gpus,
        "own_ray": cluster.nodes > 1 and cluster.ray.is_own,
        "unused_judge_gpus": bool(judge_gpus) and not servers,
        "few_judge_servers": 0 < servers < judged_on,
    }
    messages = said_where(
        holds,
        _TRAPS,
        run=config,
        cluster=cluster,
        passes=passes,
        here_gpus=here_gpus,
        servers=servers,
        judged_on=judged_on,
        relative=", ".join(relative),
        address="".join(here[:1]),
    )
    return config.traps() + messages


def _algorithm_traps(config: TrainConfig, passes: int) -> dict[str, bool]:
    """Return whether each trap of objective, updates and numbers is set."""
    objective = config.objective
    optim = config.optim
    cluster = config.cluster
    usual = type(objective)()
    sets_clips = any(
        getattr(objective, name) != getattr(usual, name)
        for name in ("clip_low", "clip_high", "dual_clip")
    )
    widest = max(objective.clip_low, objective.clip_high)
    in_bfloat16 = cluster.deepspeed.grad_accumulation == "bfloat16"
    return {
        "one_update": optim.updates_per_rollout == 1 and sets_clips,
        "wide_clip": objective.ratio == "sequence" and widest > _WIDE_FOR_SEQUENCES,
        "rollout_micro_batch": config.rollout.micro_batch
        != RolloutConfig().micro_batch,
        "float32_on_gpus": config.precision == "float32" and cluster.device == "cuda",
        "coarse_sums": in_bfloat16 and passes > _MANY_PASSES,
    }
