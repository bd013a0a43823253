"""Modules that a run on a CPU does not need, left out of its processes.

All these processes load transformers, and most of them DeepSpeed or vLLM, which load further
modules for images, servers and GPUs. Without those a process loads in little more than half of the
processor time, over three seconds less, and takes 120 to 170 MiB less; a run has half a dozen.

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
    """Have imports find other modules in place of some, unless these are loaded already.

    None in the place of a module makes its import fail.
    """
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
    """A stand-in, every name of which is `dict`: those who import one use it as a type at most."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return dict


def _as_it_is(function: Any = None, *_args: object, **_options: object) -> Any:
    """Return a function as it is: a decorator that does nothing, with or without arguments."""
    return _as_it_is if function is None else function


def _without(*names: str, **stand_ins: object) -> Patch:
    """Load a module without others that it imports: each is `_Unused`, or its stand-in."""
    unused = {name: _Unused(name) for name in names}
    return lambda _: replaced(unused | stand_ins)


def _no(*_: object) -> bool:
    return False


@contextmanager
def _keeping_all(_module: ModuleType) -> Generator[None]:
    """Collect no garbage while a module loads: a fifth of a large package's time goes there."""
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
    """Load torch; where nothing is compiled, make its decorator for the compiler do nothing."""
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
    # A server of tools; audio's filters.
    "vllm.reasoning.abs_reasoning_parsers": _without(
        "vllm.entrypoints.mcp.tool_server"
    ),
    "vllm.multimodal.audio": _without(**{"scipy.signal": None}),
    # Adjustments of torch's compiler.
    "vllm": _without("vllm.env_override"),
    # A tracker, where it is installed, and not DeepSpeed's: hundreds of modules, some of a server.
    "deepspeed.autotuning.autotuner": _without(mlflow=None),
    "torch": _uncompiling,
}
"""How each of these modules is loaded, by its full name."""
