"""First steps of every worker of Ray, before anything else of a run; imports nothing heavy."""

import contextlib
import os

import psutil
from ray.util import get_node_ip_address

from rubric_train_openrlhf.cluster import cpu, settings

SETUP_HOOK = f"{__name__}.set_up"
"""Name under which Ray's workers find `set_up`."""
CPU_SETUP_HOOK = f"{__name__}.set_up_on_cpu"
"""As `SETUP_HOOK`, where there is no GPU."""
_GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"


def set_up() -> None:
    """Go to the driver's working directory: relative paths of a configuration begin there.

    A cluster that was there before the run has workers in the directory that it was started in. On
    a machine without the driver's they stay.
    """
    with contextlib.suppress(OSError):
        os.chdir(settings.directory())
    _meet_at(get_node_ip_address())


def set_up_on_cpu() -> None:
    """As `set_up`, and prepare the process for OpenRLHF without a GPU."""
    set_up()
    cpu.install()


def _meet_at(address: str) -> None:
    """Have gloo listen where Ray finds this node, unless the node was started with another choice.

    By itself it takes the address that the node's name has on the node, which many a system makes
    127.0.0.1: processes of other nodes then find nobody there.
    """
    for name, ends in psutil.net_if_addrs().items():
        if any(end.address == address for end in ends):
            settings.set_default(_GLOO_INTERFACE, name)
            return
