"""Modules that the stack loads for other uses than a run on a CPU, left out of its processes.

Each of them loads transformers, and most DeepSpeed or vLLM: what these load for images, servers
and GPUs is not used there. To leave it out saves nearly half of the processor time that a process
takes to load, over three seconds, and 120 to 170 MiB, in half a dozen processes of each run on a
CPU.

Nothing depends on it: a name that a version of these libraries lacks is not replaced, and with
RUBRIC_TRAIN_LOAD_ALL=1 in the environment all is loaded as it is.
"""

import gc
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
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

PATCHES: dict[str, Patch] = {
    **dict.fromkeys(_LARGE, _keeping_all),
    # Without scikit-learn and SciPy, which are for images and scores.
    "transformers.utils.import_utils": putting(
        is_sklearn_available=_no, is_scipy_available=_no
    ),
    "accelerate.utils.imports": putting(is_boto3_available=_no),
    # Servers and what they are asked by; audio's filters.
    "vllm.reasoning.abs_reasoning_parsers": _without(
        "vllm.entrypoints.mcp.tool_server"
    ),
    "vllm.multimodal.audio": _without(**{"scipy.signal": None}),
    # torch's compiler, which vLLM adjusts.
    "vllm": _without("vllm.env_override"),
    # A tracker, where it is installed, and not DeepSpeed's: hundreds of modules, some of a server.
    "deepspeed.autotuning.autotuner": _without(mlflow=None),
    "torch": _uncompiling,
}
"""By the full name of the module that each is for."""
