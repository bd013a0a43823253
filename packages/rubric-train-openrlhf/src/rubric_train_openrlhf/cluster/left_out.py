"""What the stack loads for others than a run on a CPU, left out of its half a dozen processes.

Each of them loads transformers, and most DeepSpeed or vLLM: what these load for images, for GPUs
and for torch's compiler takes a process longer than all else that it does in a short run.
"""

# ruff: noqa: SLF001
import gc
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial, wraps
from importlib import metadata
from types import ModuleType, SimpleNamespace
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


def _without(*names: str, **stand_ins: object) -> Patch:
    """Load a module without others, whose names it imports and does not use here."""
    return lambda _: replaced({name: _Unused(name) for name in names} | stand_ins)


class _Unused(ModuleType):
    """A module whose names are imported and, without a GPU, not used."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Unused(f"{self.__name__}.{name}")


def _as_it_is(function: Any = None, *_args: object, **_options: object) -> Any:
    """Decorate nothing, whether called with a function or before it."""
    return _as_it_is if function is None else function


class _Tracer(ModuleType):
    """What functions that are not compiled are marked with."""

    allow_in_graph = assume_constant_result = disable = staticmethod(_as_it_is)


_TRACER: Final = {"torch._dynamo": _Tracer("torch._dynamo")}


@contextmanager
def _uncompiled(_module: ModuleType) -> Generator[None]:
    """Leave functions as they are that would be compiled where they are first called, if at all."""
    import torch

    compiler: Any = torch
    decorator, compiler.compile = compiler.compile, _as_it_is
    try:
        yield
    finally:
        compiler.compile = decorator


def _if_traced(run: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Call one function where torch's tracer is loaded, and another where nothing is traced."""

    @wraps(otherwise)
    def either(*args: Any, **options: Any) -> Any:
        return (run if "torch._dynamo" in sys.modules else otherwise)(*args, **options)

    return either


@contextmanager
def _untraced(module: Any) -> Generator[None]:
    """Do not load torch's tracer just to switch it off for a function."""
    yield
    through_tracer = module._disable_dynamo

    def disable(function: Any = None, recursive: bool = True) -> Any:  # noqa: FBT001, FBT002  # torch's
        if function is None:
            return partial(disable, recursive=recursive)
        return _if_traced(through_tracer(function, recursive), function)

    module._disable_dynamo = disable


@contextmanager
def _unbroken(module: Any) -> Generator[None]:
    """Nor just to break what it would trace before and after an optimiser's step."""
    yield
    import torch

    through_tracer = module._use_grad_for_differentiable

    def use_grad(step: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(step)
        def plain(optimizer: Any, *args: Any, **options: Any) -> Any:
            with torch.set_grad_enabled(optimizer.defaults["differentiable"]):
                return step(optimizer, *args, **options)

        return _if_traced(through_tracer(step), plain)

    module._use_grad_for_differentiable = use_grad


@contextmanager
def _eagerly(_module: ModuleType) -> Generator[None]:
    """Load what vLLM gives to torch's compiler without that, in a run that compiles nothing."""
    stand_in = SimpleNamespace(CustomGraphPass=object)
    with replaced({"torch._inductor.custom_graph_pass": stand_in} if settings.is_eager() else {}):
        yield


def _only_with(needed: str, *names: str) -> Patch:
    """Have tests of a type say no, unasked, where the type's module is not loaded."""

    @contextmanager
    def patch(module: ModuleType) -> Generator[None]:
        yield
        for name in names:
            vars(module)[name] = partial(_asked, needed, vars(module)[name])

    return patch


def _asked(needed: str, test: Callable[[object], bool], value: object) -> bool:
    return needed in sys.modules and test(value)


class _Distributions(dict[str, list[str]]):
    """What brings a package: what has its name, or else what the lists of all files say."""

    def __missing__(self, package: str) -> list[str]:
        try:
            self[package] = [metadata.distribution(package).name]
        except metadata.PackageNotFoundError:
            self.update(_of_all_packages())
        # As a dictionary does.
        return self[package] if package in self else self.pop(package)


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
    module.fetch__all__ = lambda text: named(text[text.rfind("\n__all__") + 1 :])
    # For images and scores, and for the data of a trainer that is not used.
    for name in ("sklearn", "scipy", "datasets"):
        setattr(module, f"is_{name}_available", lambda: False)


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


_LARGE: Final = (
    "torch",
    *("openrlhf.datasets", "openrlhf.models", "openrlhf.trainer.ppo_trainer"),
    *("openrlhf.trainer.ray", "openrlhf.utils"),
    "rubric_train_openrlhf.cluster.launching.preparation",
    "vllm.v1.engine.core",
)
"""Modules behind which whole packages are loaded that stay to the end of the process."""

_SHARDS: Final = "torch.distributed.tensor"
_COMPILER: Final = (
    *("backend", "custom_ops", "init_sp", "init_tp", "init_z1_and_2", "init_z3"),
    *("passes", "passes.contract"),
)
"""Parts of DeepSpeed's compiler for CUDA, which load torch's."""

PATCHES: Final[dict[str, Patch]] = {
    **dict.fromkeys(_LARGE, _keeping_all),
    "torch._compile": _untraced,
    "torch.optim.optimizer": _unbroken,
    # Types of a client, which are behind a name in an annotation.
    "vllm.reasoning.abs_reasoning_parsers": _without(
        **{"vllm.entrypoints.mcp.tool_server": SimpleNamespace(ToolServer=object)}
    ),
    # Without SciPy's filters no audio is read; without pandas no kernel is tuned.
    "vllm.multimodal.audio": _without(**{"scipy.signal": None}),
    "vllm._aiter_ops": _without("vllm.v1.attention.ops.rocm_aiter_mla_sparse", pandas=None),
    "accelerate.utils.imports": putting(is_boto3_available=lambda: False),
    "transformers.utils.import_utils": _looking_up,
    # Rewards of another method.
    "openrlhf.utils.math_utils": _without("sympy", "sympy.parsing"),
    # Weights that are spread over processes, which DeepSpeed spreads in its own way.
    "transformers.distributed.fsdp": _without(
        "torch.distributed._composable.fsdp", "torch.distributed.fsdp"
    ),
    "transformers.distributed.sharding_utils": _without(
        _SHARDS, f"{_SHARDS}._utils", f"{_SHARDS}.placement_types"
    ),
    "transformers.distributed.utils": _only_with(_SHARDS, "is_dtensor"),
    # torch's compiler, which vLLM's own process alone has a use for, if any.
    "accelerate.utils.other": _only_with(
        "torch._dynamo", "is_compiled_module", "has_compiled_regions"
    ),
    "deepspeed": _without(
        "torch._dynamo.compiled_autograd",
        *(f"deepspeed.compile.{part}" for part in _COMPILER),
        **_TRACER,
    ),
    "deepspeed.moe.sharded_moe": _uncompiled,
    "openrlhf.models.utils": _uncompiled,
    "transformers.masking_utils": _without(
        "torch._dynamo._trace_wrapped_higher_order_op", **_TRACER
    ),
    "transformers.modeling_utils": _without(**_TRACER),
    "vllm": _without("vllm.env_override"),
    "vllm.compilation.passes.inductor_pass": _eagerly,
    "vllm.utils.deep_gemm": _uncompiled,
}
"""By the full name of the module that each is for."""
