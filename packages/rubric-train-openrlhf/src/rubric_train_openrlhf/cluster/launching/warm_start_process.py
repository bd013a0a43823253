"""One process of the warm start: `python -m … DEVICE MODULE FLAGS…` runs a module of OpenRLHF.

On a CPU with what OpenRLHF assumes of a GPU replaced; the module itself is the one installed.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys

from rubric_train_openrlhf.cluster import cpu, orphans


def main() -> None:
    """Run the module with the flags behind it; end with torch's launcher, which a stop kills."""
    orphans.end_with(os.getppid(), by=signal.SIGKILL)
    device, module, *_ = sys.argv[1:]
    if device == "cpu":
        cpu.install()
    sys.argv[:3] = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
