"""Memory and time as `rubric-train plan` prints them, with every guess beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_train_openrlhf.cluster.planning.assumptions import GB, GPUS, all_assumptions
from rubric_train_openrlhf.cluster.planning.shapes import model_shape
from rubric_train_openrlhf.cluster.planning.sizing import (
    checkpoint_bytes,
    engine_room,
    host_memory,
    mean_response_tokens,
    memory_while_sampling,
    memory_while_scoring,
    memory_while_training,
    total,
    trainer_state_bytes,
)
from rubric_train_openrlhf.cluster.planning.timing import (
    decode_tokens_per_s,
    judge_load,
    own_servers,
    step_time,
)
from rubric_train_openrlhf.config import PathModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rubric_train_openrlhf.cluster.planning.assumptions import Gpu
    from rubric_train_openrlhf.cluster.planning.shapes import ModelShape
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
