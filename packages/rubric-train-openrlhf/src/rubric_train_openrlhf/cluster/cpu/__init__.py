"""OpenRLHF 0.11.2 on a machine without a GPU: what its code assumes, replaced where it is assumed.

`install` runs in the driver and, from Ray's worker set-up hook, in every worker before anything
else. It imports nothing heavy: each replacement waits until the module that needs it is loaded,
so that a judge's worker does not pay for torch.
"""

from __future__ import annotations

import sys

from rubric_train_openrlhf.cluster.cpu.patches import PATCHES, PatchingFinder


def install() -> None:
    """Prepare this process for OpenRLHF without a GPU; calling it twice changes nothing."""
    if not any(isinstance(finder, PatchingFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, PatchingFinder(PATCHES))
