"""What the machines must have: memory, disk, a folder to write to; and what no CPU can show."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from importlib.util import cache_from_source, find_spec
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

import torch

from rubric_train_openrlhf.cluster.planning import sizing
from rubric_train_openrlhf.cluster.planning.shapes import GB, GPUS, Gpu, ModelShape, model_shape
from rubric_train_openrlhf.cluster.rehearse import checking
from rubric_train_openrlhf.config import PathModel, TrainConfig
from rubric_train_openrlhf.errors import PolicyLoadError

_GIB: Final = 2**30
_LONGEST_PATH: Final = 120
_OTHER: Final = "choose another `out`"


def check_output_folder(subject: checking.Subject) -> Iterable[checking.Finding]:
    """Make a folder beside the run's and take it away again; a run in it must be meant."""
    out = subject.known.out
    try:
        parent = _existing(out)
        holds_run = (out / "config.resolved.yaml").exists()
    except OSError as error:
        name = str(out)[:_LONGEST_PATH]  # it may be too long for any file system
        return [
            checking.failed(f"there can be no folder {name!r}: {error.strerror}", remedy=_OTHER)
        ]
    if not parent.is_dir():
        said = f"{str(parent)!r} is a file, so that no run folder can be at {str(out)!r}"
        return [checking.failed(said, remedy=_OTHER)]
    remedy = "continue it with --resume, or choose another out"
    found = (
        [checking.warning(f"{str(out)!r} holds a run already", remedy=remedy)] if holds_run else []
    )
    return [*found, _writable(subject, parent)]


def _writable(subject: checking.Subject, parent: Path) -> checking.Finding:
    if not os.access(parent, os.W_OK | os.X_OK):
        return subject.absent(f"{str(parent)!r} is not writable by this user", remedy=_OTHER)
    try:
        with TemporaryDirectory(prefix=".rehearsal-", dir=parent) as made:
            Path(made, "probe").write_text("probe\n", encoding="utf-8")
    except OSError as error:
        return checking.failed(
            f"{str(parent)!r} cannot be written to: {error.strerror}", remedy=_OTHER
        )
    return checking.passed(f"{str(parent)!r} is writable")


def _existing(path: Path) -> Path:
    """What is at the path, or the nearest above it that is there.

    Raises:
        OSError: no file system could hold such a path.
    """
    path = path.absolute()
    return next(place for place in (path, *path.parents) if place.exists())


def _room(subject: checking.Subject, *, needed_bytes: float, what: str) -> checking.Finding:
    """Compare what the checkpoints take with what the disk of `out` has."""
    try:
        free_bytes = shutil.disk_usage(_existing(subject.known.out)).free
    except OSError as error:
        return checking.unchecked(f"there is no disk to look at: {error.strerror}")
    needed = f"{needed_bytes / _GIB:.1f} GiB"
    said = f"{what} take up to {needed}; {free_bytes / _GIB:.1f} GiB are free here"
    if needed_bytes <= free_bytes:
        return checking.passed(said)
    if subject.request.on_cluster:
        return checking.failed(said, remedy="choose a larger disk, or lower checkpoint.keep")
    return checking.unchecked(said, remedy=f"have {needed} where `out` is there")


_LARGE: Final = ("torch", "transformers", "ray", "deepspeed", "vllm", "openrlhf")
"""What a process of a run spends its start on."""
_SWITCH: Final = "PYTHONDONTWRITEBYTECODE"


def check_bytecode(_: checking.Subject) -> checking.Finding:
    """Whether what every process imports is compiled once, or by each of them."""
    plain = [name for name in _LARGE if _is_uncompiled(name)]
    if not plain or not sys.dont_write_bytecode:
        return checking.passed("what the processes import is compiled once for all of them")
    return checking.warning(
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


def _shape(subject: checking.Subject) -> ModelShape | checking.Finding:
    """The model's sizes, or that there are none to go by.

    Raises:
        UnknownError: its config.json is wrong; the check of the model says how.
    """
    model = subject.known.model
    at = str(model.path) if isinstance(model, PathModel) else model.type
    try:
        shape = model_shape(model.path) if isinstance(model, PathModel) else None
    except PolicyLoadError:
        raise checking.UnknownError("model") from None
    return shape or checking.unchecked(
        f"the sizes of {at!r} are not known",
        where="model.path",
        remedy="copy its config.json there",
    )


def check_memory(subject: checking.Subject) -> Iterator[checking.Finding]:
    """Work out whether each phase of a step fits on a GPU."""
    config, shape, gpus = subject.known, _shape(subject), _gpus(subject)
    if isinstance(shape, checking.Finding):
        yield shape
        return
    for gpu in gpus:
        phases = _phases(config, shape, gpu)
        worst = max(phases, key=lambda name: sizing.total(phases[name]))
        needed = sizing.total(phases[worst])
        cache = sizing.engine_room(config, shape, gpu).cache
        largest = max(phases[worst], key=lambda part: phases[worst][part])
        said = (
            f"{gpu.name}: {needed / GB:.0f} of {gpu.memory / GB:.0f} GB while {worst}, of which "
            f"{largest} {phases[worst][largest] / GB:.0f}"
        )
        if cache > 0 and needed <= gpu.memory:
            yield checking.passed(f"{said}; {cache / GB:.0f} GB for an engine's cache")
            continue
        if cache <= 0:
            said = f"{gpu.name}: the engine's weights leave no room for its cache"
        remedy = "lower optim.micro_batch or cluster.engines.memory_frac, or use more GPUs"
        yield (checking.failed if gpu is gpus[-1] else checking.warning)(said, remedy=remedy)


def check_disk(subject: checking.Subject) -> checking.Finding:
    """Count what checkpoints take at most, one being written."""
    config, shape = subject.known, _shape(subject)
    if isinstance(shape, checking.Finding):
        return shape
    models = config.checkpoint.keep + _FIRST_AND_BEST + _BEING_WRITTEN
    states = config.checkpoint.keep + _BEING_WRITTEN
    needed = models * sizing.checkpoint_bytes(config, shape) + states * sizing.trainer_state_bytes(
        shape
    )
    what = f"{models} models and {states} states of the optimiser"
    return _room(subject, needed_bytes=needed, what=what)


def check_judge_capacity(subject: checking.Subject) -> checking.Finding:
    """Compare the time of judging with the time of sampling that it hides behind."""
    shape, gpu = _shape(subject), _gpus(subject)[0]
    if isinstance(shape, checking.Finding):
        return shape
    times = sizing.step_time(subject.known, shape, gpu)
    if times.judging is None:
        return checking.unchecked(
            "the judge is no server of yours, whose speed could be worked out"
        )
    said = (
        f"judging takes about {times.judging:.0f} s beside sampling of {times.sampling:.0f} s, in "
        f"a step of {times.total:.0f} s ({gpu.name}, a judge of 20 B)"
    )
    if isfinite(times.total) and times.judging > _LARGEST_SHARE * times.total:
        return checking.warning(said, remedy="add servers, or shorten what they read")
    return checking.passed(said)


def _gpus(subject: checking.Subject) -> tuple[Gpu, ...]:
    """The GPU of this machine if it is one of the cluster's, or else the usual ones."""
    if subject.request.on_cluster and torch.cuda.is_available():
        found = cast("Any", torch.cuda.get_device_properties(0))
        return (GPUS[0]._replace(name=found.name, memory=float(found.total_memory)),)
    return GPUS


def _phases(config: TrainConfig, shape: ModelShape, gpu: Gpu) -> dict[str, dict[str, float]]:
    phases = {
        "sampling": sizing.memory_while_sampling(config, shape, gpu),
        "scoring": sizing.memory_while_scoring(config, shape, gpu),
        "training": sizing.memory_while_training(config, shape, gpu),
    }
    return {name: parts for name, parts in phases.items() if parts is not None}


def _only_on_gpus(subject: checking.Subject) -> Iterator[checking.Finding]:
    """Name what the production run does and this rehearsal could not do."""
    cluster = subject.known.cluster
    if cluster.device == "cpu":
        return
    yield checking.unchecked(
        f"weights sent by {cluster.sync_backend} to {cluster.engine_count} engines of "
        f"{cluster.engines.tensor_parallel} GPUs, and ZeRO {cluster.deepspeed.zero_stage} over "
        f"{cluster.policy_gpus} GPUs: one process of each ran here, over gloo"
    )
    if "flash" in cluster.attention:
        yield checking.unchecked(
            f"{cluster.attention}: eager attention ran here", where="cluster.deepspeed.attention"
        )
    if cluster.deepspeed.packing:
        yield checking.unchecked(
            "packed responses: padded ones ran", where="cluster.deepspeed.packing"
        )
    if cluster.engines_sleep or cluster.policy_sleeps:
        yield checking.unchecked(
            "engines and policy that make room for each other: a CPU has nothing to give back",
            where="cluster.colocation",
        )
    if not cluster.engines.enforce_eager:
        yield checking.unchecked(
            "CUDA graphs of the engines", where="cluster.engines.enforce_eager"
        )


ONLY_ON_GPUS: Final = (checking.Check("only on GPUs", _only_on_gpus, needs=("configuration",)),)
"""Asked last, so that a reader sees what the verdict does not cover."""
