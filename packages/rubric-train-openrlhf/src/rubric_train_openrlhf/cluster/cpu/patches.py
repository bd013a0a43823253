"""What OpenRLHF assumes of a GPU, by the module that assumes it, and how each is replaced.

A replacement is made around the moment when its module is first imported.
"""

# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

# Modules of other projects are given attributes that their types do not know.
from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from rubric_train_openrlhf.errors import ClusterError

if TYPE_CHECKING:
    from torch import Tensor


Patch: TypeAlias = "Callable[[ModuleType], AbstractContextManager[None]]"
"""Entered before the code of a module runs and left after it."""


class PatchingFinder(MetaPathFinder):
    """Finds modules as Python does, and runs the code of some of them inside a patch."""

    def __init__(self, patches: Mapping[str, Patch]) -> None:
        """Take patches by the full name of their module."""
        self._patches = dict(patches)
        self._searching: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module that has a patch; all others are left to the next finder."""
        del path, target
        patch = self._patches.get(fullname)
        if patch is None or fullname in self._searching:
            return None
        self._searching.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching.discard(fullname)
        if spec is not None and spec.loader is not None:
            run_code = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                with patch(module):
                    run_code(module)

            # On this one loader, which serves this one import; its type stays what tools expect.
            vars(spec.loader)["exec_module"] = exec_module
        return spec


JOIN_TIMEOUT = timedelta(minutes=5)
"""For all members to come, and for one tensor to arrive."""


class GlooGroup:
    """One sender and its receivers, called as OpenRLHF calls vLLM's NCCL communicator."""

    def __init__(self, host: str, port: int, *, rank: int, world_size: int) -> None:
        """Join, and wait for the others."""
        import torch.distributed as dist  # only members of a group pay for it

        store = dist.TCPStore(host, port, world_size, is_master=rank == 0, timeout=JOIN_TIMEOUT)
        self._group: Any = dist.ProcessGroupGloo(store, rank, world_size, JOIN_TIMEOUT)

    def close(self) -> None:
        """Leave: whoever waits for this member stops waiting."""
        self._group = None

    def broadcast(self, tensor: Tensor, src: int, stream: object = None) -> None:
        """Send a tensor from rank `src` to all others, into the memory of theirs."""
        import torch.distributed as dist

        del stream
        options = dist.BroadcastOptions()
        options.rootRank = src
        options.rootTensor = 0
        self._group.broadcast([tensor], options).wait()


def join_gloo_group(
    master_address: str, master_port: int, rank: int, world_size: int, device: object
) -> GlooGroup:
    """Stand in for `openrlhf.utils.distributed_util.stateless_init_process_group`."""
    del device
    return GlooGroup(master_address, master_port, rank=rank, world_size=world_size)


_FUSED_LOSS = "flash_attn.ops.triton.cross_entropy"
_TOOL_SERVER = "vllm.entrypoints.mcp.tool_server"
_FLASH_ATTENTION: Final = {
    "flash_attn": (),
    "flash_attn.bert_padding": ("index_first_axis", "pad_input", "rearrange", "unpad_input"),
    "flash_attn.utils": (),
    "flash_attn.utils.distributed": ("all_gather",),
}
"""What `openrlhf.models.ring_attn_utils` imports; it is called for packed samples alone."""


class _CpuDevice(str):
    """The device "cpu", which reads as the number 0 where a device number is formatted.

    OpenRLHF passes `torch.cuda.current_device()` to `Tensor.to` and builds `cuda:0` from it too.
    """

    __slots__ = ()

    def __format__(self, format_spec: str, /) -> str:
        return format("0", format_spec)


def _without_cuda(module: ModuleType) -> Generator[None]:
    """Answer the calls to torch.cuda that OpenRLHF makes without asking whether there is one."""
    del module
    import torch  # only processes that load OpenRLHF pay for it

    device = _CpuDevice("cpu")
    torch.cuda.current_device = lambda: device
    for name in ("current_stream", "empty_cache", "set_device", "synchronize"):
        setattr(torch.cuda, name, _nothing())
    # Where Triton is installed this loss imports, and then fails for want of a GPU.
    sys.modules.setdefault(_FUSED_LOSS, None)  # pyright: ignore[reportArgumentType]
    yield


def _nothing() -> Callable[..., None]:
    """Make a call about a GPU that is not there; torch's compiler wants one object per name."""

    def nothing(*_args: object, **_options: object) -> None:
        pass

    return nothing


def _without_flash_attention(module: ModuleType) -> Generator[None]:
    """Let the module import names of flash-attn; nobody else finds the package afterwards."""
    del module
    stand_ins: dict[str, ModuleType | None] = {}
    for name, functions in _FLASH_ATTENTION.items():
        stand_ins[name] = stand_in = ModuleType(name)
        for function in functions:
            setattr(stand_in, function, _absent(f"{name}.{function}"))
    with _replaced(stand_ins):
        yield


@contextmanager
def _replaced(stand_ins: Mapping[str, ModuleType | None]) -> Generator[None]:
    """Have imports find other modules, or none, unless the right ones are loaded already."""
    missing = [name for name in stand_ins if name not in sys.modules]
    sys.modules.update({name: stand_ins[name] for name in missing})  # pyright: ignore[reportCallIssue, reportArgumentType]
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]


def _absent(name: str) -> Callable[..., NoReturn]:
    def refuse(*_args: object, **_options: object) -> NoReturn:
        raise ClusterError(
            f"{name} was called, and flash-attn does not run without a GPU; leave packed samples "
            "and ring attention off where cluster.device is 'cpu'"
        )

    return refuse


def _with_gloo_sync(module: ModuleType) -> Generator[None]:
    """Send weights to the engines through gloo; vLLM's communicator is NCCL's alone."""
    yield
    module.stateless_init_process_group = join_gloo_group


def _on_cpus(module: ModuleType) -> Generator[None]:
    """Name the ranks' device as it is, and train with torch's AdamW."""
    yield
    build_mesh: Callable[..., Any] = module.init_device_mesh
    strategy: Any = module.DeepspeedStrategy
    configure: Callable[..., dict[str, Any]] = strategy.get_ds_train_config

    def init_device_mesh(device_type: str, *args: object, **options: object) -> object:
        del device_type
        return build_mesh("cpu", *args, **options)

    def get_ds_train_config(*args: object, **options: object) -> dict[str, Any]:
        config = configure(*args, **options)
        if "optimizer" in config:
            # DeepSpeed's own would be compiled here first, by a C++ compiler and for minutes.
            config["optimizer"]["params"]["torch_adam"] = True
            config["zero_force_ds_cpu_optimizer"] = False
        return config

    module.init_device_mesh = init_device_mesh
    strategy.get_ds_train_config = get_ds_train_config


# A rehearsal is half a dozen processes that load transformers and vLLM, and little more: what they
# load for others than text costs each of them a second.


def _without_sciences(module: ModuleType) -> Generator[None]:
    """Leave out scikit-learn and SciPy, which transformers has for images and scores."""
    yield
    module.is_sklearn_available = module.is_scipy_available = lambda: False


def _without_sound(module: ModuleType) -> Generator[None]:
    """Leave out SciPy's filters, without which vLLM reads no audio."""
    del module
    with _replaced({"scipy.signal": None}):
        yield


def _without_tools(module: ModuleType) -> Generator[None]:
    """Leave out the types of OpenAI's client, which are behind a name in an annotation."""
    del module
    stand_in = ModuleType(_TOOL_SERVER)
    vars(stand_in)["ToolServer"] = object
    with _replaced({_TOOL_SERVER: stand_in}):
        yield


def _without_shared_memory(module: ModuleType) -> Generator[None]:
    """Sum over ranks by gloo; what DeepSpeed has for ranks on one machine is compiled first."""
    yield
    module.build_shm_op = _nothing()


_GENERATORS: Final = {
    "openrlhf": _without_cuda,
    "openrlhf.models.ring_attn_utils": _without_flash_attention,
    "openrlhf.utils.distributed_util": _with_gloo_sync,
    "openrlhf.utils.deepspeed.deepspeed": _on_cpus,
    "deepspeed.comm.torch": _without_shared_memory,
    "transformers.utils.import_utils": _without_sciences,
    "vllm.multimodal.audio": _without_sound,
    "vllm.reasoning.abs_reasoning_parsers": _without_tools,
}
PATCHES: Final[dict[str, Patch]] = {
    module: contextmanager(patch) for module, patch in _GENERATORS.items()
}
"""By the full name of the module that each is for."""
