"""What every worker of Ray does before anything else of a run; loads nothing heavy."""

from __future__ import annotations

import contextlib
import os

from rubric_train_openrlhf.cluster import cpu
from rubric_train_openrlhf.cluster.settings import directory

SETUP_HOOK = f"{__name__}.set_up"
"""Name under which Ray's workers find `set_up`."""
CPU_SETUP_HOOK = f"{__name__}.set_up_on_cpu"
"""As `SETUP_HOOK`, where there is no GPU."""


def set_up() -> None:
    """Go to the driver's working directory: relative paths of a configuration begin there.

    A cluster that was there before the run has workers in the directory that it was started in. On
    a machine without the driver's they stay.
    """
    with contextlib.suppress(OSError):
        os.chdir(directory())


def set_up_on_cpu() -> None:
    """As `set_up`, and prepare the process for OpenRLHF without a GPU."""
    set_up()
    cpu.install()
