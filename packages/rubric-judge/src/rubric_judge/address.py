"""Addresses of servers: what every HTTP client can call, and nothing that holds a key."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII | re.IGNORECASE)
_LONGEST_HOST = 253


def wrong_with(address: str) -> str:
    """Say what keeps a client from calling an address.

    Args:
        address: an `api_base`.

    Returns:
        Words without anything of the address, which may hold a key; none for a good one.
    """
    if any(character <= " " or not character.isprintable() for character in address):
        return "it has white space in it"
    try:
        parts = urlsplit(address)
    except ValueError:
        return "its host is none"
    if parts.scheme not in {"http", "https"}:
        return "it starts with neither http:// nor https://"
    if "@" in parts.netloc or parts.query or parts.fragment:
        return "leave out users, passwords and queries, and name the key's variable in api_key_env"
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        return "its port is no number from 1 to 65535"
    return "" if _is_host(parts.hostname or "") else "its host is none (international ones: xn--…)"


def _is_host(host: str) -> bool:
    labels = host.removesuffix(".").split(".")
    if ":" in host or labels[-1].isdigit():
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True
    try:
        host.encode("ascii").decode("idna")
    except UnicodeError:
        return False
    return len(host) <= _LONGEST_HOST and all(_LABEL.fullmatch(label) for label in labels)
