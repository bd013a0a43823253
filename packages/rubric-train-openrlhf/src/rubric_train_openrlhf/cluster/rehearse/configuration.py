"""Can OpenRLHF run the configuration, and have the machines what it takes?"""

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import cache_from_source, find_spec
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from pydantic import TypeAdapter, ValidationError

from rubric_train_openrlhf.cluster.command import flags, refusals
from rubric_train_openrlhf.cluster.planning import sizing
from rubric_train_openrlhf.cluster.planning.plan import traps
from rubric_train_openrlhf.cluster.planning.sizing import GB, GPUS
from rubric_train_openrlhf.cluster.rehearse import checking as check
from rubric_train_openrlhf.cluster.rehearse.checking import EndedError, Finding, Subject
from rubric_train_openrlhf.config.train import TrainConfig, parse_config, written_at
from rubric_train_openrlhf.errors import PolicyLoadError, TrainConfigError
from rubric_train_openrlhf.policy.shape import ModelShape, model_shape


class PartialConfig(TrainConfig):
    """Holds the sections that are well formed; asking for any other is an `EndedError`."""

    def __getattr__(self, name: str) -> Any:
        """Refuse a section that could not be read."""
        if name in TrainConfig.model_fields:
            raise EndedError(check.needs("configuration"))
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")


def sections_alone(values: Mapping[str, object]) -> PartialConfig:
    """Read each section by itself, whatever is wrong with the others or between them."""
    sections: dict[str, Any] = {}
    fields = TrainConfig.model_fields
    for name in fields.keys() & values.keys():
        adapter: TypeAdapter[Any] = TypeAdapter(fields[name].rebuild_annotation())
        with contextlib.suppress(ValidationError):
            sections[name] = adapter.validate_python(values[name])
    read = PartialConfig.model_construct(**sections)
    missing = {
        name
        for name in fields.keys() - sections
        if name in values or fields[name].is_required()
    }
    for name in missing:
        # `model_construct` puts the default there.
        vars(read).pop(name, None)
    return read


_KEY = re.compile(r"[a-z_]+(?:\.[a-z_]+)+|^(?:unknown key ')?([a-z_]+)(?=[:='])")


def _key_in(problem: str) -> str:
    """The first dotted key that a problem names, or the section that it begins with."""
    return (match[1] or match[0]) if (match := _KEY.search(problem)) else ""


def check_configuration(subject: Subject) -> Iterable[Finding]:
    """Every key and value, and what the sections require of each other."""
    request = subject.request
    try:
        place = written_at(request.source, overrides=request.overrides)
        config = subject.config = parse_config(request.values, source=place)
    except TrainConfigError as error:
        # What is wrong between sections keeps nobody from looking at each of them.
        subject.config = sections_alone(request.values)
        lines = str(error).splitlines()
        return [
            check.failed(line, where=_key_in(line.partition(": ")[2])) for line in lines
        ]
    if config.backend != "openrlhf":
        return [
            check.failed(
                f"backend={config.backend!r} does not run on a cluster",
                where="backend",
                remedy="set backend: openrlhf, or run it here with `rubric-train run`",
            )
        ]
    rollout = config.rollout
    cluster = config.cluster
    return [
        check.passed(
            f"{config.steps} steps of {rollout.prompts} prompts × {rollout.group_size} "
            f"responses, {config.optim.updates_per_rollout} updates each, on "
            f"{cluster.nodes} × {cluster.gpus_per_node} GPUs"
        )
    ]


def check_refusals(subject: Subject) -> Finding:
    """Check the configuration for what OpenRLHF cannot do."""
    refusals.check_expressible(subject.known)
    return check.passed("OpenRLHF can do everything that is asked for")


def check_flags(subject: Subject) -> Iterable[Finding]:
    """Read the command with the parser of the OpenRLHF that is installed here."""
    config = subject.known
    path = subject.model_folder or config.out
    try:
        commands = flags.commands(config, model=path)
        printed = flags.printed_by_openrlhf(commands)
    except ImportError as error:
        return [
            check.unchecked(
                f"{error}", remedy="install OpenRLHF 0.11.2, which its extras bring"
            )
        ]
    except TrainConfigError as error:
        where = error.location or (
            "cluster.extra_flags" if config.cluster.extra_flags else ""
        )
        return [
            check.failed(
                f"{error}",
                where=where,
                remedy="see `rubric-train plan` for which key sets which flag",
            )
        ]
    said = [
        check.warning(f"OpenRLHF says: {line}", where=_key_in(line)) for line in printed
    ]
    count = sum(len(flags.command_words(command)) for command in commands.values())
    return said or [
        check.passed(f"OpenRLHF's parser takes all {count} words of the command")
    ]


def check_traps(subject: Subject) -> Iterable[Finding]:
    """Warn of settings that run, but seldom do what was meant."""
    return [check.warning(trap, where=_key_in(trap)) for trap in traps(subject.known)]


_GIB = 2**30
_LONGEST_PATH = 120
_ANOTHER_OUT = "choose another `out`"


def check_output_folder(subject: Subject) -> Iterable[Finding]:
    """Make a folder beside the run's and take it away again; a run in it must be meant."""
    out = subject.known.out
    try:
        parent = _existing(out)
        holds_run = (out / "config.resolved.yaml").exists()
    except OSError as error:
        name = str(out)[:_LONGEST_PATH]  # it may be too long for any file system
        detail = f"there can be no folder {name!r}: {error.strerror}"
        return [check.failed(detail, remedy=_ANOTHER_OUT)]
    place = repr(str(parent))
    if not parent.is_dir():
        detail = f"{place} is a file, so that no run folder can be at {str(out)!r}"
        return [check.failed(detail, remedy=_ANOTHER_OUT)]
    run: list[Finding] = []
    if holds_run:
        holding = check.warning(
            f"{str(out)!r} holds a run already",
            remedy="continue it with --resume, or choose another out",
        )
        run.append(holding)
    if not os.access(parent, os.W_OK | os.X_OK):
        detail = f"{place} is not writable by this user"
        return [*run, subject.absent(detail, remedy=_ANOTHER_OUT)]
    try:
        with TemporaryDirectory(prefix=".rehearsal-", dir=parent) as folder:
            Path(folder, "probe").write_text("probe\n", encoding="utf-8")
    except OSError as error:
        detail = f"{place} cannot be written to: {error.strerror}"
        return [*run, check.failed(detail, remedy=_ANOTHER_OUT)]
    return [*run, check.passed(f"{place} is writable")]


def _existing(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists.

    Raises:
        OSError: no file system could hold such a path.
    """
    path = path.absolute()
    return next(place for place in (path, *path.parents) if place.exists())


_LARGE = ("torch", "transformers", "ray", "deepspeed", "vllm", "openrlhf")
"""Packages on whose import a process of a run spends its start."""


def check_bytecode(_: Subject) -> Finding:
    """Check whether what every process imports is compiled once, or by each of them."""
    specs = {name: spec for name in _LARGE if (spec := find_spec(name)) and spec.origin}
    compiled = {
        name: cache_from_source(str(spec.origin)) for name, spec in specs.items()
    }
    plain = [name for name, file in compiled.items() if not Path(file).exists()]
    if not plain or not sys.dont_write_bytecode:
        return check.passed(
            "what the processes import is compiled once for all of them"
        )
    return check.warning(
        "PYTHONDONTWRITEBYTECODE is set and these packages are not compiled: "
        f"{', '.join(plain)}; every process of a run compiles what it imports, at every "
        "start",
        where="PYTHONDONTWRITEBYTECODE",
        remedy="unset it, or compile once: python -m compileall, or "
        "UV_COMPILE_BYTECODE=1 with uv",
    )


def _shape(subject: Subject) -> ModelShape:
    """The model's sizes.

    Raises:
        EndedError: there are none to go by, or its config.json is wrong; the check of the model
            says how.
    """
    folder = subject.model_folder
    try:
        shape = model_shape(folder) if folder else None
    except PolicyLoadError:
        raise EndedError(check.needs("model")) from None
    if shape is None:
        raise EndedError(
            check.unchecked(
                f"the sizes of {subject.model_name!r} are not known",
                where="model.path",
                remedy="copy its config.json there",
            )
        )
    return shape


def _gpus(subject: Subject) -> tuple[sizing.Gpu, ...]:
    """Return the GPU of this machine if it is one of the cluster's, or else the usual ones."""
    if subject.request.on_cluster and torch.cuda.is_available():
        properties = cast("Any", torch.cuda.get_device_properties(0))
        return (
            GPUS[0]._replace(
                name=properties.name, memory=float(properties.total_memory)
            ),
        )
    return GPUS


def check_memory(subject: Subject) -> Iterator[Finding]:
    """Work out whether each phase of a step fits on a GPU."""
    config = subject.known
    shape = _shape(subject)
    gpus = _gpus(subject)
    for gpu in gpus:
        phases = sizing.memory(config, shape, gpu)
        phase, parts = max(
            phases.items(), key=lambda phase_and_parts: sum(phase_and_parts[1].values())
        )
        largest = max(parts, key=parts.__getitem__)
        needed = sum(parts.values())
        cache = sizing.engine_room(config, shape, gpu).cache
        used = (
            f"{gpu.name}: {needed / GB:.0f} of {gpu.memory / GB:.0f} GB "
            f"while {phase}, of which {largest} {parts[largest] / GB:.0f}"
        )
        if cache > 0 and needed <= gpu.memory:
            room = f"{cache / GB:.0f} GB for an engine's cache"
            yield check.passed(f"{used}; {room}")
            continue
        if cache <= 0:
            used = f"{gpu.name}: the engine's weights leave no room for its cache"
        # A larger GPU may do.
        problem = check.failed if gpu is gpus[-1] else check.warning
        yield problem(
            used,
            remedy="lower optim.micro_batch or cluster.engines.memory_frac, or use more "
            "GPUs",
        )


_FIRST_AND_BEST = 2
_BEING_WRITTEN = 1


def check_disk(subject: Subject) -> Finding:
    """Compare what checkpoints take at most, one being written, with what the disk of `out` has."""
    config = subject.known
    shape = _shape(subject)
    models = config.checkpoint.keep + _FIRST_AND_BEST + _BEING_WRITTEN
    states = config.checkpoint.keep + _BEING_WRITTEN
    needed = models * sizing.checkpoint_bytes(config, shape)
    needed += states * sizing.trainer_state_bytes(shape)
    try:
        free = shutil.disk_usage(_existing(config.out)).free
    except OSError as error:
        return check.unchecked(f"there is no disk to look at: {error.strerror}")
    room = f"{needed / _GIB:.1f} GiB"
    detail = (
        f"{models} models and {states} states of the optimiser take up to {room}; "
        f"{free / _GIB:.1f} GiB are free here"
    )
    if needed <= free:
        return check.passed(detail)
    if subject.request.on_cluster:
        return check.failed(
            detail, remedy="choose a larger disk, or lower checkpoint.keep"
        )
    return check.unchecked(detail, remedy=f"have {room} where `out` is there")


_LARGEST_SHARE = 0.5
"""Share of a step's time from which on more judge servers are the cheapest way to speed it up."""


def check_capacity(subject: Subject) -> Finding:
    """Compare the time of judging with the time of sampling that it hides behind."""
    gpu = _gpus(subject)[0]
    times = sizing.step_time(subject.known, _shape(subject), gpu)
    if times.judging is None:
        return check.unchecked(
            "the judge is no server of yours, whose speed could be worked out"
        )
    is_slow = isfinite(times.total) and times.judging > _LARGEST_SHARE * times.total
    detail = (
        f"judging takes about {times.judging:.0f} s beside sampling of "
        f"{times.sampling:.0f} s, in a step of {times.total:.0f} s ({gpu.name}, a judge "
        "of 20 B)"
    )
    if is_slow:
        return check.warning(detail, remedy="add servers, or shorten what they read")
    return check.passed(detail)


def check_only_on_gpus(subject: Subject) -> Iterator[Finding]:
    """Name what the production run does and this rehearsal could not do."""
    cluster = subject.known.cluster
    if cluster.device == "cpu":
        return
    engines = cluster.engines
    deepspeed = cluster.deepspeed
    yield check.unchecked(
        f"weights sent by {cluster.sync_backend} to {cluster.engine_count} engines of "
        f"{engines.tensor_parallel} GPUs, and ZeRO {deepspeed.zero_stage} over "
        f"{cluster.policy_gpus} GPUs: one process of each ran here, over gloo"
    )
    if "flash" in cluster.attention:
        yield check.unchecked(
            f"{cluster.attention}: eager attention ran here",
            where="cluster.deepspeed.attention",
        )
    if deepspeed.packing:
        yield check.unchecked(
            "packed responses: padded ones ran", where="cluster.deepspeed.packing"
        )
    if cluster.engines_sleep or cluster.policy_sleeps:
        yield check.unchecked(
            "engines and policy that make room for each other: a CPU has nothing to "
            "give back",
            where="cluster.colocation",
        )
    if not engines.enforce_eager:
        yield check.unchecked(
            "CUDA graphs of the engines", where="cluster.engines.enforce_eager"
        )
