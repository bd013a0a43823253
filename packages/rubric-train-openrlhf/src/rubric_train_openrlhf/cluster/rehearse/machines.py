"""What the machines must have: memory, disk, a folder to write to; and what no CPU can show."""

# pyright: reportUnknownMemberType=false
# torch annotates these methods in part only.
from __future__ import annotations

import os
import secrets
import shutil
import sys
from functools import wraps
from importlib.util import cache_from_source, find_spec
from math import isfinite
from pathlib import Path
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
from rubric_train_openrlhf.cluster.rehearse.checking import Check, UnknownError
from rubric_train_openrlhf.cluster.rehearse.finding import failed, passed, unchecked, warning
from rubric_train_openrlhf.config import PathModel
from rubric_train_openrlhf.errors import PolicyLoadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rubric_train_openrlhf.cluster.planning.shapes import ModelShape
    from rubric_train_openrlhf.cluster.rehearse.checking import Subject
    from rubric_train_openrlhf.cluster.rehearse.finding import Finding
    from rubric_train_openrlhf.config import TrainConfig


_GIB: Final = 2**30
_LONGEST_PATH: Final = 120
_OTHER: Final = "choose another `out`"


def check_output_folder(subject: Subject) -> Iterator[Finding]:
    """Make a folder beside the run's and take it away again; a run in it must be meant."""
    out = subject.known.out
    try:
        parent = _existing(out)
        holds_run = (out / "config.resolved.yaml").exists()
    except OSError as error:
        yield failed(
            f"there can be no folder {_named(out)!r}: {error.strerror}",
            where="out",
            remedy=_OTHER,
        )
        return
    if not parent.is_dir():
        yield failed(
            f"{str(parent)!r} is a file, so that no run folder can be at {str(out)!r}",
            where="out",
            remedy=_OTHER,
        )
        return
    if holds_run:
        yield warning(
            f"{str(out)!r} holds a run already",
            where="out",
            remedy="continue it with --resume, or choose another out",
        )
    if not os.access(parent, os.W_OK | os.X_OK):
        yield subject.absent(
            f"{str(parent)!r} is not writable by this user", where="out", remedy=_OTHER
        )
        return
    try:
        made = parent / f".rehearsal-{secrets.token_hex(4)}"
        made.mkdir()
        (made / "probe").write_text("probe\n", encoding="utf-8")
        shutil.rmtree(made)
    except OSError as error:
        yield failed(
            f"{str(parent)!r} cannot be written to: {error.strerror}", where="out", remedy=_OTHER
        )
        return
    yield passed(f"{str(parent)!r} is writable", where="out")


def _existing(path: Path) -> Path:
    """What is at the path, or the nearest above it that is there.

    Raises:
        OSError: no file system could hold such a path.
    """
    path = path.absolute()
    return next(place for place in (path, *path.parents) if place.exists())


def _named(path: Path) -> str:
    text = str(path)
    return text if len(text) <= _LONGEST_PATH else f"{text[:_LONGEST_PATH]}…"


def room(subject: Subject, *, needed_bytes: int, what: str) -> Finding:
    """Compare what the checkpoints take with what the disk of `out` has."""
    try:
        free_bytes = shutil.disk_usage(_existing(subject.known.out)).free
    except OSError as error:
        return unchecked(f"there is no disk to look at: {error.strerror}", where="out")
    needed, free = needed_bytes / _GIB, free_bytes / _GIB
    said = f"{what} take up to {needed:.1f} GiB; {free:.1f} GiB are free here"
    if needed_bytes <= free_bytes:
        return passed(said, where="out")
    if subject.request.on_cluster:
        return failed(said, where="out", remedy="choose a larger disk, or lower checkpoint.keep")
    return unchecked(said, where="out", remedy=f"have {needed:.1f} GiB where `out` is there")


_LARGE: Final = ("torch", "transformers", "ray", "deepspeed", "vllm", "openrlhf")
"""What a process of a run spends its start on."""
_SWITCH: Final = "PYTHONDONTWRITEBYTECODE"


def check_bytecode(subject: Subject) -> Iterator[Finding]:
    """Whether what every process imports is compiled once, or by each of them."""
    del subject
    plain = [name for name in _LARGE if _is_uncompiled(name)]
    if not plain or not sys.dont_write_bytecode:
        yield passed("what the processes import is compiled once for all of them")
        return
    yield warning(
        f"{_SWITCH} is set and these packages are not compiled: {', '.join(plain)}; every process "
        "of a run compiles what it imports, at every start",
        where=_SWITCH,
        remedy="unset it, or compile once: python -m compileall, or UV_COMPILE_BYTECODE=1 with uv",
    )


def _is_uncompiled(name: str) -> bool:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return False
    return not Path(cache_from_source(spec.origin)).exists()


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
