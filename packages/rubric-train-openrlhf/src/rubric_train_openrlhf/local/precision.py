"""Half-precision compute over float32 weights."""

from __future__ import annotations

import torch


def bfloat16_if(enabled: bool, *, device: torch.device) -> torch.autocast:  # noqa: FBT001  # the name reads with its argument
    """Autocast to bfloat16 for the length of a block, or leave it as it is."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled)
