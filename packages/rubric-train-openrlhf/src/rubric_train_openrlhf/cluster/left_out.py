"""What the stack loads for others than a run on a CPU, left out of its half a dozen processes.

Each of them loads transformers, and most DeepSpeed or vLLM: what these load for images, for GPUs
and for torch's compiler takes a process longer than all else that it does in a short run.
"""

import gc
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from importlib import import_module, metadata
from types import ModuleType
from typing import Any, Final, TypeAlias

from rubric_train_openrlhf.cluster import settings

Patch: TypeAlias = Callable[[ModuleType], AbstractContextManager[None]]
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


class _Tracer(_Unused):
    """What functions are marked with for torch's compiler."""

    allow_in_graph = assume_constant_result = disable = staticmethod(_as_it_is)


def _without(*names: str, **stand_ins: object) -> Patch:
    """Load a module without others, whose names it imports."""
    unused = {name: _Unused(name) for name in names}
    return lambda _: replaced(unused | stand_ins)


def _without_tracer(*parts: str) -> Patch:
    """Load a module that marks functions for torch's compiler without any of that."""
    name = "torch._dynamo"
    return _without(*(f"{name}.{part}" for part in parts), **{name: _Tracer(name)})


def _eagerly(patch: Patch, otherwise: Patch = lambda _: nullcontext()) -> Patch:
    """Enter a patch in a process in which torch compiles nothing."""

    def chosen(module: ModuleType) -> AbstractContextManager[None]:
        return (patch if settings.is_eager() else otherwise)(module)

    return chosen


def _no(*_: object) -> bool:
    return False


def _use_grad(step: Callable[..., Any]) -> Callable[..., Any]:
    """Mark an optimiser's step as torch does, where no tracer needs a break around it."""
    import torch

    @wraps(step)
    def run(optimizer: Any, *args: Any, **options: Any) -> Any:
        with torch.set_grad_enabled(optimizer.defaults["differentiable"]):
            return step(optimizer, *args, **options)

    return run


class _Distributions(dict[str, list[str]]):
    """What brings a package: what has its name, or else what the lists of all files say."""

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
    named = module.fetch__all__

    def named_last(text: str) -> list[str]:
        return named(text[text.rfind("\n__all__") + 1 :])

    # Without scikit-learn and SciPy, for images and scores, and the data of another trainer.
    unused = dict.fromkeys(
        (f"is_{name}_available" for name in ("sklearn", "scipy", "datasets")), _no
    )
    vars(module).update(unused, fetch__all__=named_last)


@contextmanager
def _loading_late(module: Any) -> Generator[None]:
    """Load parts of a package where they are first used, as if something had imported them."""
    yield

    def load(name: str) -> ModuleType:
        if name not in {"fsdp", "tensor"}:
            raise AttributeError(name)
        return import_module(f"{module.__name__}.{name}")

    module.__getattr__ = load


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
    """Load torch, and let it load its compiler for no function that then stays as it is."""
    with _keeping_all(module):
        yield
    module.compile = _as_it_is


_LARGE: Final = (
    *("openrlhf.datasets", "openrlhf.models", "openrlhf.trainer.ppo_trainer"),
    *("openrlhf.trainer.ray", "openrlhf.utils"),
    "rubric_train_openrlhf.cluster.launching.preparation",
    "vllm.v1.engine.core",
)
"""Modules behind which whole packages are loaded that stay to the end of the process."""
_COMPILER: Final = (
    *("backend", "custom_ops", "init_sp", "init_tp", "init_z1_and_2", "init_z3"),
    *("passes", "passes.contract"),
)
"""Parts of DeepSpeed's compiler for CUDA, which load torch's."""
_SHARDS: Final = "torch.distributed.tensor"
_OF_CLIENTS: Final = "openai.types"

PATCHES: Final[dict[str, Patch]] = {
    **dict.fromkeys(_LARGE, _keeping_all),
    "transformers.utils.import_utils": _looking_up,
    "accelerate.utils.imports": putting(is_boto3_available=_no),
    # Rewards of another method.
    "openrlhf.utils.math_utils": _without("sympy", "sympy.parsing"),
    # Weights that are spread over processes: DeepSpeed does it in its own way.
    "torch.distributed": _loading_late,
    "transformers.distributed.fsdp": _without(
        "torch.distributed._composable.fsdp", "torch.distributed.fsdp"
    ),
    "transformers.distributed.sharding_utils": _without(
        _SHARDS, f"{_SHARDS}._utils", f"{_SHARDS}.placement_types"
    ),
    "transformers.distributed.utils": putting(is_dtensor=_no),
    # Servers and what they are asked by; audio's filters; AMD's kernels and what tunes them.
    "vllm.reasoning.abs_reasoning_parsers": _without("vllm.entrypoints.mcp.tool_server"),
    "vllm.entrypoints.chat_utils": _without(
        *(f"{_OF_CLIENTS}.chat", f"{_OF_CLIENTS}.responses"),
        f"{_OF_CLIENTS}.chat.chat_completion_content_part_input_audio_param",
    ),
    "vllm.v1.engine.async_llm": _without("vllm.entrypoints.serve.elastic_ep.middleware"),
    "vllm.multimodal.audio": _without(**{"scipy.signal": None}),
    "vllm._aiter_ops": _without("vllm.v1.attention.ops.rocm_aiter_mla_sparse", pandas=None),
    # torch's compiler, which DeepSpeed has for GPUs and vLLM adjusts.
    "vllm": _without("vllm.env_override"),
    "deepspeed.runtime.engine": _without(*(f"deepspeed.compile.{part}" for part in _COMPILER)),
    "torch": _eagerly(_uncompiling, _keeping_all),
    "torch._compile": _eagerly(putting(_disable_dynamo=_as_it_is)),
    "torch.optim.optimizer": _eagerly(putting(_use_grad_for_differentiable=_use_grad)),
    "accelerate.utils.other": _eagerly(putting(is_compiled_module=_no, has_compiled_regions=_no)),
    "deepspeed.compile.util": _eagerly(_without("deepspeed.compile.custom_ops")),
    "deepspeed": _eagerly(_without_tracer("compiled_autograd")),
    "transformers.masking_utils": _eagerly(_without_tracer("_trace_wrapped_higher_order_op")),
    "transformers.modeling_utils": _eagerly(_without_tracer()),
    "vllm.compilation.decorators": _eagerly(_without_tracer("symbolic_convert")),
    "vllm.compilation.passes.inductor_pass": _eagerly(
        _without("torch._inductor.custom_graph_pass")
    ),
    "vllm.v1.worker.cpu_model_runner": _eagerly(
        putting(_set_global_compilation_settings=nullcontext)
    ),
}
"""By the full name of the module that each is for."""
