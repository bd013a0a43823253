"""SkyRL 0.3.0 on a machine without a GPU: what its code assumes, replaced where it is assumed.

With this folder on PYTHONPATH each process of a run has it: SkyRL's driver, Ray's workers and
vLLM's processes. Devices, process groups, the transfer of weights and flash-attn's import are
replaced; data, generator, environment, advantages, loss and optimizer are SkyRL's own. The trainer
also writes what it trains on to the file that SKYRL_ON_CPU_DUMP names, a line a step.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, cast

Patch = Callable[[Any], AbstractContextManager[None]]
"""A context in which the code of a module runs for the first time."""
_JOIN_TIMEOUT = timedelta(minutes=5)
_DUMP = "SKYRL_ON_CPU_DUMP"
_GPU_BACKEND = "cpu:gloo,cuda:nccl"


class CpuDevice(str):
    """The device "cpu", which reads as the number 0 where a device number is formatted."""

    __slots__ = ()

    def __format__(self, format_spec: str, /) -> str:
        return format("0", format_spec)


class GlooGroup:
    """One sender and its receivers, called as vLLM calls its NCCL communicator."""

    def __init__(self, host: str, port: int, rank: int, world_size: int) -> None:
        import torch.distributed as dist  # only members of a group pay for it

        gloo = cast("Any", dist)
        store = gloo.TCPStore(
            host, port, world_size, is_master=rank == 0, timeout=_JOIN_TIMEOUT
        )
        self._group = gloo.ProcessGroupGloo(store, rank, world_size, _JOIN_TIMEOUT)

    def broadcast(self, tensor: Any, src: int) -> None:
        """Send a tensor from rank `src` to all others, into the memory of theirs."""
        import torch.distributed as dist

        options: Any = dist.BroadcastOptions()
        options.rootRank, options.rootTensor = src, 0
        self._group.broadcast([tensor], options).wait()


def _nothing() -> Callable[..., None]:
    """Make a call about a GPU that is not there; torch's compiler wants one object per name."""

    def nothing(*_args: object, **_options: object) -> None:
        pass

    return nothing


def _itself(tensor: Any) -> Any:
    return tensor


@contextmanager
def _without_cuda(_module: ModuleType) -> Generator[None]:
    """Answer SkyRL's calls to torch about the GPU, and let ranks meet by gloo."""
    import torch
    import torch.distributed as dist
    from torch.distributed import device_mesh

    device = CpuDevice("cpu")
    cuda, accelerator, meeting = (
        cast("Any", part) for part in (torch.cuda, torch.accelerator, dist)
    )
    cuda.current_device = lambda: device
    cuda.is_available = lambda: False
    cuda.device_count = lambda: 1  # a worker divides by it
    for name in ("empty_cache", "set_device", "synchronize"):
        setattr(cuda, name, _nothing())
    cast("Any", torch.Tensor).cuda = _itself
    accelerator.synchronize = _nothing()
    accelerator.current_device_index = lambda: 0
    join, build = meeting.init_process_group, device_mesh.init_device_mesh

    def init_process_group(backend: str | None = None, **options: Any) -> None:
        join(backend="gloo" if backend == _GPU_BACKEND else backend, **options)

    def init_device_mesh(device_type: str, *args: Any, **options: Any) -> Any:
        kind = "cpu" if device_type == "cuda" else device_type
        return build(kind, *args, **options)

    meeting.init_process_group = init_process_group
    meeting.init_device_mesh = init_device_mesh
    cast("Any", device_mesh).init_device_mesh = init_device_mesh
    yield


@contextmanager
def _without_flash_attention(_module: ModuleType) -> Generator[None]:
    """Let a module import names of flash-attn; nobody else finds the package afterwards."""

    def refuse(*_args: object, **_options: object) -> NoReturn:
        raise NotImplementedError("trainer.remove_microbatch_padding needs a GPU")

    padding = ModuleType("flash_attn.bert_padding")
    vars(padding).update(pad_input=refuse, unpad_input=refuse)
    stand_ins = {
        "flash_attn": ModuleType("flash_attn"),
        "flash_attn.bert_padding": padding,
    }
    sys.modules.update(stand_ins)
    yield
    for name in stand_ins:
        del sys.modules[name]


@contextmanager
def _receiving_by_gloo(module: Any) -> Generator[None]:
    """Let vLLM's engine join the trainer by gloo, and take all weights as one set."""
    yield

    def join(host: str, port: int, rank: int, world_size: int, device: object) -> Any:
        del device
        return GlooGroup(host, port, rank, world_size)

    def receive(
        iterator: Iterable[tuple[str, tuple[list[int], Any]]],
        group: GlooGroup,
        src: int,
        post_unpack_func: Callable[[list[tuple[str, Any]]], None],
        **_: object,
    ) -> None:
        import torch

        weights: list[tuple[str, Any]] = []
        for name, (shape, dtype) in iterator:
            weight = torch.empty(shape, dtype=dtype)
            group.broadcast(weight, src)
            weights.append((name, weight))
        post_unpack_func(weights)

    engine = module.NCCLWeightTransferEngine
    engine._stateless_init_process_group = staticmethod(join)
    module.packed_nccl_broadcast_consumer = receive


@contextmanager
def _sending_by_gloo(module: Any) -> Generator[None]:
    """Let the trainer send one weight after the other."""
    yield

    def send(
        iterator: Iterable[tuple[str, Any]],
        group: GlooGroup,
        src: int,
        post_iter_func: Callable[[tuple[str, Any]], Any],
        **_: object,
    ) -> None:
        for item in iterator:
            group.broadcast(post_iter_func(item).detach().contiguous(), src)

    module.packed_nccl_broadcast_producer = send


@contextmanager
def _dumping(module: Any) -> Generator[None]:
    """Let the trainer write down what it trains on."""
    yield
    trainer = module.RayPPOTrainer
    convert = trainer.convert_to_training_input
    train = trainer.train_critic_and_policy

    def convert_to_training_input(self: Any, output: Any, uids: Sequence[str]) -> Any:
        self.dumped = {
            "uids": list(uids),
            "texts": [
                self.tokenizer.decode(ids, skip_special_tokens=True)
                for ids in output["response_ids"]
            ],
            "prompts": [
                self.tokenizer.decode(ids) for ids in output["prompt_token_ids"]
            ],
            "metrics": output.get("env_metrics"),
            "rewards": [sum(rewards) for rewards in output["rewards"]],
        }
        return convert(self, output, uids)

    def train_critic_and_policy(self: Any, data: Any) -> Any:
        rows = len(self.dumped["uids"])
        self.dumped |= {
            "mask": data["response_mask"][:rows].tolist(),
            "advantages": data["advantages"][:rows].tolist(),
        }
        status = train(self, data)
        with Path(os.environ[_DUMP]).open("a", encoding="utf-8") as file:  # noqa: TID251
            file.write(json.dumps(self.dumped | {"status": dict(status)}) + "\n")
        return status

    trainer.convert_to_training_input = convert_to_training_input
    trainer.train_critic_and_policy = train_critic_and_policy


PATCHES: Mapping[str, Patch] = {
    "skyrl.backends": _without_cuda,
    "skyrl.backends.skyrl_train.workers.model_wrapper": _without_flash_attention,
    "skyrl.train.trainer": _dumping,
    "vllm.distributed.weight_transfer.nccl_engine": _receiving_by_gloo,
    "vllm.distributed.weight_transfer.packed_tensor": _sending_by_gloo,
}


class PatchingFinder(MetaPathFinder):
    """Finds modules as Python does, and runs the code of some of them inside a patch."""

    def __init__(self) -> None:
        """Search for nothing yet."""
        self._searching: set[str] = set()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Find a module that has a patch; all others are left to the next finder."""
        del path, target
        patch = PATCHES.get(fullname)
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

            vars(spec.loader)["exec_module"] = exec_module
        return spec


sys.meta_path.insert(0, PatchingFinder())
