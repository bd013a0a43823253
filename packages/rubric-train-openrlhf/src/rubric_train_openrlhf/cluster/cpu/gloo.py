"""The group through which a policy on a CPU hands its weights to the engines."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportAttributeAccessIssue=false, reportPrivateImportUsage=false
# torch.distributed is typed in part only.
from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

JOIN_TIMEOUT = timedelta(minutes=5)
"""For all members to come, and for one tensor to arrive."""


class GlooGroup:
    """One sender and its receivers, called as OpenRLHF calls vLLM's NCCL communicator."""

    def __init__(self, host: str, port: int, *, rank: int, world_size: int) -> None:
        """Join, and wait for the others."""
        import torch.distributed as dist  # noqa: PLC0415  # only members of a group pay for it

        store = dist.TCPStore(host, port, world_size, is_master=rank == 0, timeout=JOIN_TIMEOUT)
        self._group: Any = dist.ProcessGroupGloo(store, rank, world_size, JOIN_TIMEOUT)

    def close(self) -> None:
        """Leave: whoever waits for this member stops waiting."""
        self._group = None

    def broadcast(self, tensor: Tensor, src: int, stream: object = None) -> None:
        """Send a tensor from rank `src` to all others, into the memory of theirs."""
        import torch.distributed as dist  # noqa: PLC0415  # as above

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
