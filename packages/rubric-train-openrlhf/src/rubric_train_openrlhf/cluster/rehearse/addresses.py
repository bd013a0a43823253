"""Whether a judge's server can be expected to answer on a machine that is not the cluster's."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from rubric_train_openrlhf.config import ClusterConfig

_PRIVATE: Final = tuple(
    ipaddress.ip_network(network)
    for network in (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "fc00::/7",
        "fe80::/10",
    )
)
_INSIDE: Final = (".cluster", ".corp", ".internal", ".intranet", ".lan", ".local", ".svc")
"""Ends of names that only the name servers of a network of one's own know."""


def why_only_there(address: str | None, cluster: ClusterConfig) -> str:
    """Say why a server need not answer on this machine.

    Args:
        address: of a judge's server; None for a provider's own.
        cluster: the run's.

    Returns:
        What of the cluster it belongs to; nothing where it should answer from everywhere, or where
        nothing in the configuration serves it.
    """
    host = (urlsplit(address).hostname or "") if address is not None else ""
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        is_here = host == "localhost" or host.endswith(".localhost")
        is_inside = "." not in host or host.endswith(_INSIDE)
    else:
        is_here = ip.is_loopback or ip.is_unspecified
        is_inside = any(ip in network for network in _PRIVATE)
    if not host or cluster.device == "cpu":
        return ""
    if is_here:
        return "on the GPUs that the run leaves to it" if cluster.judge_gpus_per_node else ""
    return "in the cluster's own network" if is_inside else ""
