"""What the machines of the cluster must have, and what no CPU can show."""

# pyright: reportUnknownMemberType=false
# torch annotates these methods in part only.
from __future__ import annotations

from functools import wraps
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, cast

import torch

from rubric_train_openrlhf.cluster.planning.shapes import GB, GPUS, Gpu, model_shape
from rubric_train_openrlhf.cluster.planning.sizing import (
    checkpoint_bytes,
    engine_room,
    memory_while_sampling,
    memory_while_scoring,
    memory_while_training,
    step_time,
    total,
    trainer_state_bytes,
)
from rubric_train_openrlhf.cluster.rehearse.checking import Check
from rubric_train_openrlhf.cluster.rehearse.checks.storage import room
from rubric_train_openrlhf.cluster.rehearse.finding import failed, passed, unchecked, warning
from rubric_train_openrlhf.cluster.rehearse.subject import UnknownError
from rubric_train_openrlhf.config import PathModel
from rubric_train_openrlhf.errors import PolicyLoadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rubric_train_openrlhf.cluster.planning.shapes import ModelShape
    from rubric_train_openrlhf.cluster.rehearse.finding import Finding
    from rubric_train_openrlhf.cluster.rehearse.subject import Subject
    from rubric_train_openrlhf.config import TrainConfig

_FIRST_AND_BEST: Final = 2
_BEING_WRITTEN: Final = 1
_LARGEST_SHARE: Final = 0.5
"""Of a step's time: what judging may take before more servers are the cheapest way to speed it."""


def _of_known_shape(
    check: Callable[[Subject, ModelShape], Iterator[Finding]],
) -> Callable[[Subject], Iterator[Finding]]:
    """Ask a check of the model's sizes, or say that there are none to go by."""

    @wraps(check)
    def asked(subject: Subject) -> Iterator[Finding]:
        shape = _shape(subject.known)
        return check(subject, shape) if shape else iter((_unknown(subject.known),))

    return asked


@_of_known_shape
def check_memory(subject: Subject, shape: ModelShape) -> Iterator[Finding]:
    """Work out whether each phase of a step fits on a GPU."""
    config = subject.known
    gpus = _gpus(subject)
    for gpu in gpus:
        phases = _phases(config, shape, gpu)
        worst = max(phases, key=lambda name: total(phases[name]))
        needed = total(phases[worst])
        cache = engine_room(config, shape, gpu).cache
        largest = max(phases[worst], key=lambda part: phases[worst][part])
        said = (
            f"{gpu.name}: {needed / GB:.0f} of {gpu.memory / GB:.0f} GB while {worst}, of which "
            f"{largest} {phases[worst][largest] / GB:.0f}"
        )
        if cache <= 0:
            yield _too_small(
                gpus, gpu, f"{gpu.name}: the engine's weights leave no room for its cache"
            )
        elif needed > gpu.memory:
            yield _too_small(gpus, gpu, said)
        else:
            yield passed(f"{said}; {cache / GB:.0f} GB for an engine's cache")


@_of_known_shape
def check_disk(subject: Subject, shape: ModelShape) -> Iterator[Finding]:
    """Count what checkpoints take at most, one being written."""
    config = subject.known
    models = config.checkpoint.keep + _FIRST_AND_BEST + _BEING_WRITTEN
    states = config.checkpoint.keep + _BEING_WRITTEN
    needed = models * checkpoint_bytes(config, shape) + states * trainer_state_bytes(shape)
    what = f"{models} models and {states} states of the optimiser"
    yield room(subject, needed_bytes=int(needed), what=what)


@_of_known_shape
def check_judge_capacity(subject: Subject, shape: ModelShape) -> Iterator[Finding]:
    """Compare the time of judging with the time of sampling that it hides behind."""
    config = subject.known
    gpu = _gpus(subject)[0]
    times = step_time(config, shape, gpu)
    if times.judging is None:
        yield unchecked("the judge is no server of yours, whose speed could be worked out")
        return
    said = (
        f"judging takes about {times.judging:.0f} s beside sampling of {times.sampling:.0f} s, in "
        f"a step of {times.total:.0f} s ({gpu.name}, a judge of 20 B)"
    )
    if isfinite(times.total) and times.judging > _LARGEST_SHARE * times.total:
        yield warning(
            said, where="judge.spec.api_base", remedy="add servers, or shorten what they read"
        )
    else:
        yield passed(said)


def _gpus(subject: Subject) -> tuple[Gpu, ...]:
    """The GPU of this machine if it is one of the cluster's, or else the usual ones."""
    if subject.request.on_cluster and torch.cuda.is_available():
        found = cast("Any", torch.cuda.get_device_properties(0))
        return (GPUS[0]._replace(name=found.name, memory=float(found.total_memory)),)
    return GPUS


def _phases(config: TrainConfig, shape: ModelShape, gpu: Gpu) -> dict[str, dict[str, float]]:
    phases = {
        "sampling": memory_while_sampling(config, shape, gpu),
        "scoring": memory_while_scoring(config, shape, gpu),
        "training": memory_while_training(config, shape, gpu),
    }
    return {name: parts for name, parts in phases.items() if parts is not None}


def _too_small(gpus: tuple[Gpu, ...], gpu: Gpu, said: str) -> Finding:
    remedy = "lower optim.micro_batch or cluster.engines.memory_frac, or use more GPUs"
    finding = failed if gpu is gpus[-1] else warning
    return finding(said, where="cluster", remedy=remedy)


def _shape(config: TrainConfig) -> ModelShape | None:
    if not isinstance(config.model, PathModel):
        return None
    try:
        return model_shape(config.model.path)
    except PolicyLoadError:
        # Which says what is wrong with the folder's config.json.
        raise UnknownError("model") from None


def _unknown(config: TrainConfig) -> Finding:
    at = str(config.model.path) if isinstance(config.model, PathModel) else config.model.type
    return unchecked(
        f"the sizes of {at!r} are not known",
        where="model.path",
        remedy="copy its config.json there",
    )


def _only_on_gpus(subject: Subject) -> Iterator[Finding]:
    """Name what the production run does and this rehearsal could not do."""
    cluster = subject.known.cluster
    if cluster.device == "cpu":
        return
    yield unchecked(
        f"weights sent by {cluster.sync_backend} to {cluster.engine_count} engines of "
        f"{cluster.engines.tensor_parallel} GPUs, and ZeRO {cluster.deepspeed.zero_stage} over "
        f"{cluster.policy_gpus} GPUs: one process of each ran here, over gloo"
    )
    if "flash" in cluster.attention:
        yield unchecked(
            f"{cluster.attention}: eager attention ran here", where="cluster.deepspeed.attention"
        )
    if cluster.deepspeed.packing:
        yield unchecked("packed responses: padded ones ran", where="cluster.deepspeed.packing")
    if cluster.engines_sleep or cluster.policy_sleeps:
        yield unchecked(
            "engines and policy that make room for each other: a CPU has nothing to give back",
            where="cluster.colocation",
        )
    if not cluster.engines.enforce_eager:
        yield unchecked("CUDA graphs of the engines", where="cluster.engines.enforce_eager")


ONLY_ON_GPUS: Final = (Check("only on GPUs", _only_on_gpus, needs=("configuration",)),)
"""Asked last, so that a reader sees what the verdict does not cover."""
