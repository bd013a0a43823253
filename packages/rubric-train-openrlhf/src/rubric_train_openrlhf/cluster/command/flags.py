"""The one place between our configuration and the flags of OpenRLHF 0.11.2.

Nothing else knows a flag of `openrlhf.cli.train_ppo_ray` or `openrlhf.cli.train_sft`. The flags
are in `flags.toml`, and what is computed of several keys is here. Every flag is made for every
configuration; a value of None or False puts nothing on the command line.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from math import isinf
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from rubric_core.files import toml_beside
from rubric_train_openrlhf import objective as losses
from rubric_train_openrlhf.cluster.command import refusals
from rubric_train_openrlhf.cluster.settings import ClusterPaths, WarmStartPaths
from rubric_train_openrlhf.config.cluster import FlagValue
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import TrainConfigError
from rubric_train_openrlhf.policy_config import SftConfig

Values = Mapping[str, FlagValue | None]

NOTES = toml_beside(__file__, "flags.toml")
"""The tables of `flags.toml`."""
NOT_PASSED_ON: dict[str, str] = NOTES["not_passed_on"]
"""Flags, or groups of flags, that are left at their defaults, and why."""


class Flag(NamedTuple):
    """One flag of a command."""

    name: str
    """Without dashes."""
    value: FlagValue | None
    """None and False: not on the command line; True: the bare flag."""
    keys: str
    """Our keys that it follows from, with a space between; empty for what is always the same."""
    why: str
    """A note for readers of the command."""


def grpo_flags(
    config: TrainConfig, *, model: Path | None = None, resume: bool = False
) -> tuple[Flag, ...]:
    """All flags of a run.

    Args:
        config: of `backend: openrlhf`.
        model: folder of the policy that GRPO starts from; by default `model.path`. The warm start
            puts its result here.
        resume: go on from the last state of DeepSpeed.

    Raises:
        TrainConfigError: the configuration asks for what OpenRLHF cannot express, or an extra
            flag is one of this table.
    """
    refusals.check_expressible(config)
    start = model or refusals.model_path(config)
    computed = {
        **_machines(config, start),
        **_updates(config),
        **_files(config, resume=resume),
    }
    flags = _flags("grpo", config, computed)
    return (*flags, *_extra(config, owned=[flag.name for flag in flags]))


def warm_start_flags(
    config: TrainConfig, *, model: Path, folder: Path | None = None
) -> tuple[Flag, ...]:
    """All flags of a warm start.

    Args:
        config: of a run with `sft:`.
        model: the folder that it starts from.
        folder: where its files are; by default in the run's own folder.

    Raises:
        TrainConfigError: there is no `sft:`, or its batch is not divisible.
    """
    paths = WarmStartPaths(folder or ClusterPaths(config.out).warm_start)
    sft = sft_section(config)
    micro_batch = config.cluster.warm_start.micro_batch
    processes = warm_start_processes(config)
    if sft.batch_size % (micro_batch * processes):
        raise TrainConfigError(
            f"sft.batch_size={sft.batch_size} is not divisible by "
            f"cluster.warm_start.micro_batch × GPUs of one machine = {micro_batch} × "
            f"{processes}; change one of them",
            location="sft.batch_size",
        )
    return _flags("sft", config, _supervised(config, model, paths))


def commands(
    config: TrainConfig, *, model: Path | None = None
) -> dict[str, tuple[Flag, ...]]:
    """All flags of a run and of its warm start, if it has one, by OpenRLHF's program.

    Args:
        config: of the run.
        model: folder that the first of them starts from; by default `model.path`.

    Raises:
        TrainConfigError: as `grpo_flags` and `warm_start_flags`.
    """
    flags = {refusals.GRPO_PROGRAM: grpo_flags(config, model=model)}
    if config.sft is not None:
        start = model or refusals.model_path(config)
        flags[refusals.SFT_PROGRAM] = warm_start_flags(config, model=start)
    return flags


def printed_by_openrlhf(commands: Mapping[str, Iterable[Flag]]) -> tuple[str, ...]:
    """Return the output of OpenRLHF's own parsers for commands that they accept.

    Raises:
        TrainConfigError, MissingExtraError, ImportError: as `check_command`.
    """
    words = {program: command_words(flags) for program, flags in commands.items()}
    checked = [
        refusals.check_command(words[program], program=program) for program in words
    ]
    return tuple(chain(*(command.warnings for command in checked)))


def sft_section(config: TrainConfig) -> SftConfig:
    """The section `sft` of a run that has a warm start.

    Raises:
        TrainConfigError: it has none.
    """
    if config.sft is None:
        raise TrainConfigError(
            "there is no warm start without the section sft", location="sft"
        )
    return config.sft


def warm_start_processes(config: TrainConfig) -> int:
    """GPUs that take part: those of one machine that the run has; on a CPU one process."""
    cluster = config.cluster
    return (
        1
        if cluster.device == "cpu"
        else cluster.gpus_per_node - cluster.judge_gpus_per_node
    )


def command_words(flags: Iterable[Flag]) -> list[str]:
    """Arguments for OpenRLHF's program."""
    words: list[str] = []
    for flag in flags:
        if flag.value is None or flag.value is False:
            continue
        words.append(f"--{flag.name}")
        if flag.value is not True:
            values = flag.value if isinstance(flag.value, tuple) else (flag.value,)
            words += [str(value) for value in values]
    return words


def _flags(command: str, config: TrainConfig, computed: Values) -> tuple[Flag, ...]:
    table = NOTES[command]
    if unknown := computed.keys() - table.keys():
        raise KeyError(f"not in flags.toml: {sorted(unknown)}")
    return tuple(
        Flag(
            name, computed[name] if name in computed else _plain(config, *row), *row[:2]
        )
        for name, row in table.items()
    )


def _plain(
    config: TrainConfig, key: str, _why: str, constant: Any = None
) -> FlagValue | None:
    """Value of a flag that is always the same, or that of its key."""
    value = attrgetter(key)(config) if constant is None else constant
    return tuple(value) if isinstance(value, list) else value


def _machines(config: TrainConfig, model: Path) -> Values:
    cluster = config.cluster
    gpus = cluster.policy_gpus
    shares = cluster.colocation == "all"
    # Only the product counts for Ray, which places one GPU at a time.
    nodes = cluster.nodes
    per_node = gpus // cluster.nodes
    if nodes * per_node != gpus:
        nodes = 1
        per_node = gpus
    single = "float32" in {config.precision, cluster.deepspeed.grad_accumulation}
    return {
        "actor.num_nodes": nodes,
        "actor.num_gpus_per_node": per_node,
        "ref.num_nodes": nodes,
        "ref.num_gpus_per_node": per_node,
        "train.colocate_all": shares,
        "train.colocate_actor_ref": not shares,
        "actor.model_name_or_path": str(model),
        "train.agent_func_path": str(
            Path(__file__).parent.parent / "sampling" / "agent.py"
        ),
        "vllm.num_engines": cluster.engine_count,
        "vllm.enable_sleep": cluster.engines_sleep,
        "vllm.sync_backend": cluster.sync_backend,
        "ds.enable_sleep": cluster.policy_sleeps,
        "ds.attn_implementation": cluster.attention,
        "ds.grad_accum_dtype": "fp32" if single else "bf16",
    }


def _updates(config: TrainConfig) -> Values:
    objective = config.objective
    optim = config.optim
    level, mode, band = _correction(objective.importance)
    by_token = objective.aggregation == "token"
    return {
        "train.batch_size": config.batch_size // optim.updates_per_rollout,
        "actor.max_norm": 0.0 if isinf(optim.max_grad_norm) else optim.max_grad_norm,
        "actor.eps_clip_low_high": (objective.clip_low, objective.clip_high),
        "actor.policy_loss_type": "ppo" if objective.ratio == "token" else "gspo",
        "actor.loss_agg_mode": "token-mean" if by_token else "seq-mean-token-mean",
        "algo.advantage.is_correction_level": level,
        "algo.advantage.is_correction_mode": mode,
        "algo.advantage.is_correction_threshold": band,
    }


def _correction(
    importance: losses.ImportanceCorrection,
) -> tuple[str, str, tuple[float, float]]:
    """Level, mode and band that make their correction equal to ours."""
    match importance:
        case losses.NoImportance():
            return "off", "mask", (0.5, 5.0)
        case losses.Truncated(cap=cap):
            # Their clip also raises small weights, unless the band begins at 0.
            return "token", "clip", (0.0, cap)
        case losses.IcePop(low=low, high=high):
            return "token", "mask", (low, high)
        case losses.SeqMaskTruncated(low=low, high=high):
            return "seq", "mask", (low, high)
        case _:
            raise AssertionError("`check_expressible` lets no other through")


def _files(config: TrainConfig, *, resume: bool) -> Values:
    paths = ClusterPaths(config.out)
    has_heldout = config.data.validation is not None
    return {
        "ckpt.output_dir": str(paths.last_model),
        "data.prompt_dataset": str(paths.train_prompts),
        "eval.dataset": str(paths.heldout_prompts) if has_heldout else None,
        "eval.steps": config.validation.every if has_heldout else -1,
        "ckpt.path": str(paths.trainer_state),
        "ckpt.load_enable": resume,
    }


def _extra(config: TrainConfig, *, owned: Iterable[str]) -> Iterator[Flag]:
    for name, value in config.cluster.extra_flags.items():
        location = f"cluster.extra_flags.{name}"
        refusal = None
        # Their parser also takes the beginning of a name for the whole of it.
        if any(known.startswith(name) for known in owned):
            refusal = "follows from other keys; set those instead"
        elif reason := _reason_against(name):
            refusal = f"is not passed on: {reason}"
        if refusal:
            message = f"{location}: OpenRLHF's --{name} {refusal}"
            raise TrainConfigError(message, location=location)
        yield Flag(name, value, location, "as you say")


def _reason_against(name: str) -> str | None:
    groups = [
        group
        for group in NOT_PASSED_ON
        if name.startswith(f"{group}.") or group.startswith(name)
    ]
    return NOT_PASSED_ON[max(groups, key=len)] if groups else None


def _supervised(config: TrainConfig, model: Path, paths: WarmStartPaths) -> Values:
    sft = sft_section(config)
    cluster = config.cluster
    lora = config.cluster.warm_start.lora
    targets = tuple(lora.targets) if lora else ()
    return {
        "data.dataset": str(paths.examples),
        # Their data set leaves out a prompt that reaches the longest length less 2.
        "data.max_len": sft.max_prompt_tokens + sft.max_answer_tokens + 3,
        # They round the product up: half a step less survives the rounding of a float.
        "lr_warmup_ratio": max(0.0, min(sft.warmup_steps, sft.steps) - 0.5) / sft.steps,
        "model.model_name_or_path": str(model),
        "ckpt.output_dir": str(paths.trained),
        "ckpt.path": str(paths.folder / "state"),
        "ds.attn_implementation": cluster.attention,
        "ds.lora.rank": lora.rank if lora else None,
        "ds.lora.alpha": lora.alpha if lora else None,
        "ds.lora.dropout": lora.dropout if lora else None,
        # Their default is not a list.
        "ds.lora.target_modules": None if targets in {(), ("all-linear",)} else targets,
    }
