"""What a run on a cluster will do and need: the text of `rubric-train plan`. Nothing is started."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from rubric_train_openrlhf.cluster.command.flags import command_words, grpo_flags
from rubric_train_openrlhf.cluster.command.refusals import check_command, openrlhf_installed
from rubric_train_openrlhf.cluster.planning.shapes import GB, GPUS, all_assumptions, model_shape
from rubric_train_openrlhf.cluster.planning.sizing import (
    checkpoint_bytes,
    decode_tokens_per_s,
    engine_room,
    host_memory,
    judge_load,
    mean_response_tokens,
    memory_while_sampling,
    memory_while_scoring,
    memory_while_training,
    own_servers,
    step_time,
    total,
    trainer_state_bytes,
)
from rubric_train_openrlhf.cluster.planning.traps import traps
from rubric_train_openrlhf.config import PathModel, dump_config

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rubric_train_openrlhf.cluster.command.flags import Flag
    from rubric_train_openrlhf.cluster.planning.shapes import Gpu, ModelShape
    from rubric_train_openrlhf.config import TrainConfig


_NAME = 38
_COLUMN = 14
_LONG = 1e5
_SMALLER = (
    "lower optim.micro_batch, switch optim.gradient_checkpointing on, or raise "
    "cluster.deepspeed.zero_stage"
)
_PHASES = (
    (
        "while engines sample",
        memory_while_sampling,
        "lower cluster.engines.memory_frac, or raise cluster.deepspeed.zero_stage",
    ),
    (
        "while log-probabilities are taken",
        memory_while_scoring,
        "lower cluster.deepspeed.forward_micro_batch",
    ),
    ("in an update", memory_while_training, _SMALLER),
)
"""When, how much, and what to do about it."""


def size_lines(config: TrainConfig) -> Iterator[str]:
    """Lay out memory, time and judging of a step for each kind of GPU that we know."""
    shape = model_shape(config.model.path) if isinstance(config.model, PathModel) else None
    if shape is None:
        yield (
            "memory and time: unknown; there is no model at model.path, or it is of another family "
            "than dense decoders of Llama's layout"
        )
        return
    yield (
        f"model: {shape.parameters:,} parameters; keys and values "
        f"{shape.kv_bytes_per_token() / 1024:g} KiB a token"
    )
    if config.cluster.device != "cuda":
        return
    yield from _memory_lines(config, shape)
    yield from _time_lines(config, shape)
    yield from _judge_lines(config)
    yield from _guess_lines()
    yield from _problem_lines(config, shape)


def _memory_lines(config: TrainConfig, shape: ModelShape) -> Iterator[str]:
    yield _row("memory of a GPU that trains, GB", (gpu.name for gpu in GPUS))
    for name, memory, _ in _PHASES:
        columns = [memory(config, shape, gpu) for gpu in GPUS]
        known = [column for column in columns if column is not None]
        if not known:
            continue
        yield _row(f"  {name}", (_gb(total(column)) for column in known))
        for part in known[0]:
            if any(column[part] for column in known):
                yield _row(f"    {part}", (_gb(column[part]) for column in known))
    rooms = [engine_room(config, shape, gpu) for gpu in GPUS]
    yield _row("  an engine: keys and values", (_gb(room.cache) for room in rooms))
    yield _row("  an engine: responses at once", (str(room.sequences) for room in rooms))
    host = _gb(host_memory(config, shape))
    yield f"  a machine's own memory, for what steps aside: {host}"
    checkpoint, state = checkpoint_bytes(config, shape), trainer_state_bytes(shape)
    yield f"  on disk: a checkpoint {_gb(checkpoint)}, a state to go on from {_gb(state)}"


def _time_lines(config: TrainConfig, shape: ModelShape) -> Iterator[str]:
    times = [step_time(config, shape, gpu) for gpu in GPUS]
    yield _row("time of a step, s", (gpu.name for gpu in GPUS))
    yield _row("  sampling", (_s(time.sampling) for time in times))
    if times[0].judging is not None:
        yield _row("  judging, beside it", (_s(time.judging or 0.0) for time in times))
    yield _row("  log-probabilities", (_s(time.scoring) for time in times))
    yield _row("  updates", (_s(time.updates) for time in times))
    yield _row("  weights to the engines", (_s(time.sync) for time in times))
    yield _row("  in all", (_s(time.total) for time in times))
    rates = (decode_tokens_per_s(config, shape, gpu) for gpu in GPUS)
    yield _row("  tokens/s of an engine", (f"{rate:,.0f}" for rate in rates))
    length = mean_response_tokens(config)
    yield f"  for responses of {length:.0f} tokens; held-out passes and checkpoints come on top"


def _judge_lines(config: TrainConfig) -> Iterator[str]:
    judge = own_servers(config.judge.spec)
    loads = [load for gpu in GPUS if (load := judge_load(config, gpu)) is not None]
    if judge is None or not loads:
        if config.judge.spec.type != "lexical":
            yield f"judge: {config.batch_size} calls a step to a provider, whose rate is its own"
        return
    load = loads[0]
    yield (
        f"judge: {load.calls} calls a step on {load.servers} servers, "
        f"{load.calls_per_server:.0f} at a time on each; sized as gpt-oss-20b, one GPU each"
    )
    yield (
        f"  reads {load.sent_tokens / 1e6:.1f} million tokens, of which the prefix cache leaves "
        f"{load.read_tokens / 1e6:.1f}; writes {load.written_tokens / 1e6:.1f} million"
    )
    yield _row("  calls/s", (f"{load.calls / load.seconds:.1f}" for load in loads))


def _guess_lines() -> Iterator[str]:
    yield "guessed, none measured here:"
    for guess in all_assumptions():
        yield f"  {_number(guess.value):>10}  {guess.meaning} ({guess.source})"


def _problem_lines(config: TrainConfig, shape: ModelShape) -> Iterator[str]:
    for gpu in GPUS:
        for name, memory, advice in _PHASES:
            parts = memory(config, shape, gpu)
            if parts is not None and total(parts) > gpu.memory:
                yield f"warning: {gpu.name}: {_gb(total(parts))} GB {name} do not fit; {advice}"
        yield from _engine_problems(config, shape, gpu)


def _engine_problems(config: TrainConfig, shape: ModelShape, gpu: Gpu) -> Iterator[str]:
    if engine_room(config, shape, gpu).sequences == 0:
        yield (
            f"warning: {gpu.name}: an engine's share holds no response beside the weights; raise "
            "cluster.engines.memory_frac or cluster.engines.tensor_parallel"
        )
        return
    time = step_time(config, shape, gpu)
    if time.judging is not None and time.judging > time.sampling:
        yield (
            f"note: {gpu.name}: judging is slower than sampling, which adds "
            f"{_s(time.judging - time.sampling)} s to a step; more servers of the judge, or more "
            "calls at a time (judge.workers × judge.micro_batch), hide it"
        )


def _row(name: str, values: Iterable[str]) -> str:
    return f"{name:<{_NAME}}" + "".join(f"{value:>{_COLUMN}}" for value in values)


def _gb(size: float) -> str:
    return f"{size / GB:.1f}"


def _s(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 1 else f"{seconds:.1f}"


def _number(value: float) -> str:
    return f"{value:.6g}" if value < _LONG else f"{value:.2e}"


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
    from rubric_train_openrlhf.cluster.launching.warm_start import warm_start_flags

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
