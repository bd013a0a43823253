"""Modules that the stack loads for other uses than a run on a CPU, left out of its processes.

Each of them loads transformers, and most DeepSpeed or vLLM: what these load for images, servers
and GPUs is not used there. To leave it out saves half of the processor time that a process takes to
load, four seconds, and 120 to 170 MiB, in half a dozen processes of each run on a CPU.

Nothing depends on it: a name that a version of these libraries lacks is not replaced, and with
RUBRIC_TRAIN_LOAD_ALL=1 in the environment all is loaded as it is.
"""

import gc
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import metadata
from types import ModuleType
from typing import Any

from rubric_train_openrlhf.cluster import settings

Patch = Callable[[ModuleType], AbstractContextManager[None]]
"""Entered before the code of a module runs and left after it."""


@contextmanager
def replaced(stand_ins: Mapping[str, object]) -> Generator[None]:
    """Have imports find other modules, or none, unless the right ones are loaded already."""
    missing = [name for name in stand_ins if name not in sys.modules]
    sys.modules.update({name: stand_ins[name] for name in missing})  # pyright: ignore[reportCallIssue, reportArgumentType]
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]


def putting(**values: object) -> Patch:
    """Put values in the place of a module's own, once that is loaded."""

    @contextmanager
    def patch(module: ModuleType) -> Generator[None]:
        yield
        vars(module).update(values)

    return patch


class _Unused(ModuleType):
    """A module whose names are imported and not used here, unless as types of dictionaries."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return dict


def _as_it_is(function: Any = None, *_args: object, **_options: object) -> Any:
    """Decorate nothing, whether called with a function or before it."""
    return _as_it_is if function is None else function


def _without(*names: str, **stand_ins: object) -> Patch:
    """Load a module without others, whose names it imports."""
    unused = {name: _Unused(name) for name in names}
    return lambda _: replaced(unused | stand_ins)


def _no(*_: object) -> bool:
    return False


class _Distributions(dict[str, list[str]]):
    """Distributions by package: the one with its name, or else those that list it."""

    def __missing__(self, package: str) -> list[str]:
        try:
            return [metadata.distribution(package).name]
        except metadata.PackageNotFoundError:
            return _of_all_packages()[package]


_of_all_packages = metadata.packages_distributions


@contextmanager
def _looking_up(module: Any) -> Generator[None]:
    """Read of packages and models what is asked for, and not the lines of all of their files."""
    metadata.packages_distributions = _Distributions
    try:
        yield
    finally:
        metadata.packages_distributions = _of_all_packages
    # Without scikit-learn and SciPy, which are for images and scores.
    vars(module).update(is_sklearn_available=_no, is_scipy_available=_no)
    named = getattr(module, "fetch__all__", None)
    if named is None:  # another version, which is left as it is
        return

    def named_last(text: str) -> list[str]:
        return named(text[text.rfind("\n__all__") + 1 :])

    module.fetch__all__ = named_last


@contextmanager
def _keeping_all(_module: ModuleType) -> Generator[None]:
    """Look for no garbage meanwhile: of the time that a large package takes, a fifth goes there."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            gc.enable()


@contextmanager
def _uncompiling(module: Any) -> Generator[None]:
    """Load torch, and where nothing is compiled let it mark no function for its compiler."""
    with _keeping_all(module):
        yield
    if settings.is_eager():
        module.compile = _as_it_is


_LARGE = (
    "openrlhf.datasets",
    "openrlhf.models",
    "openrlhf.trainer.ppo_trainer",
    "openrlhf.trainer.ray",
    "openrlhf.utils",
    "rubric_train_openrlhf.cluster.launching.preparation",
    "vllm.v1.engine.core",
)
"""Modules behind which whole packages are loaded that stay to the end of the process."""
_COMPILER = (
    "backend",
    "custom_ops",
    "init_sp",
    "init_tp",
    "init_z1_and_2",
    "init_z3",
    "passes",
    "passes.contract",
)
"""Parts of DeepSpeed's compiler for CUDA, which load torch's."""

PATCHES: dict[str, Patch] = {
    **dict.fromkeys(_LARGE, _keeping_all),
    "transformers.utils.import_utils": _looking_up,
    "accelerate.utils.imports": putting(is_boto3_available=_no),
    # Servers and what they are asked by; audio's filters; AMD's kernels and what tunes them.
    "vllm.reasoning.abs_reasoning_parsers": _without(
        "vllm.entrypoints.mcp.tool_server"
    ),
    "vllm.multimodal.audio": _without(**{"scipy.signal": None}),
    "vllm._aiter_ops": _without(
        "vllm.v1.attention.ops.rocm_aiter_mla_sparse", pandas=None
    ),
    # torch's compiler, which DeepSpeed has for GPUs and vLLM adjusts.
    "vllm": _without("vllm.env_override"),
    "deepspeed.runtime.engine": _without(
        *(f"deepspeed.compile.{part}" for part in _COMPILER)
    ),
    # A tracker, where it is installed, and not DeepSpeed's: hundreds of modules, some of a server.
    "deepspeed.autotuning.autotuner": _without(mlflow=None),
    "torch": _uncompiling,
}
"""By the full name of the module that each is for."""
