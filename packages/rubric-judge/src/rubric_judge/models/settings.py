"""The only reader of the environment in this package: keys, and a switch of litellm's."""

import os
from ipaddress import ip_address
from urllib.parse import urlsplit

from pydantic import SecretStr

from rubric_judge.errors import JudgeSetupError
from rubric_judge.models import model_config, router_checks, router_file
from rubric_judge.ui.yaml_files import yaml_place

# OpenAI-style clients always send a key, even to servers that ask for none; a placeholder also
# keeps them from looking for a hosted provider's key.
NO_KEY = "no-key"
_SHORTEST_TOKEN = 16


def api_key(config: model_config.ModelConfig) -> SecretStr | None:
    """Return the key to send with the calls of a model.

    Args:
        config: the configuration; it names the variable, or leaves it to litellm.

    Returns:
        The key; a placeholder for an `api_base` without a variable; None if litellm is to find
        the provider's own variable.

    Raises:
        JudgeSetupError: the named variable is not set or empty, or no HTTP header can hold it.
    """
    if config.api_key_env is None:
        return SecretStr(NO_KEY) if config.api_base else None
    who = f"the model {config.model!r} needs a key in"
    return SecretStr(_value(config.api_key_env, who, or_else="change `api_key_env`"))


def _value(name: str, who: str, *, or_else: str, is_key: bool = True) -> str:
    """Return the value of a required variable; a key must be fit for an HTTP header."""
    value = os.environ.get(name, "").strip()
    problem = "" if value else f"is not set: export it, or {or_else}"
    if is_key and not (value.isascii() and value.isprintable()):
        problem = (
            "has a line break or a character beyond ASCII in it: export the key alone"
        )
    if problem:
        raise JudgeSetupError(
            f"{who} the environment variable {name!r}, which {problem}"
        )
    return value


def deployments_with_keys(file: router_file.RouterFile) -> list[dict[str, object]]:
    """Return a litellm file's deployments with the values of the variables that they name.

    Args:
        file: the file, already read.

    Returns:
        New entries, only for litellm's Router.

    Raises:
        JudgeSetupError: a variable is not set or empty, or no HTTP header can hold it.
    """
    values: dict[str | None, object] = {}
    for name, key in file.variables.items():
        or_else = "take that deployment out"
        is_key = key.endswith(".api_key")
        try:
            values[name] = _value(name, f"{key} names", or_else=or_else, is_key=is_key)
        except JudgeSetupError as error:
            place = yaml_place(file.path, tuple(key.split(".")))
            raise JudgeSetupError(f"{place}: {error}") from None
    deployments: list[dict[str, object]] = []
    for entry in file.deployments:
        parameters: dict[str, object] = {}
        for name, value in router_file.parameters_of(entry).items():
            variable_name = router_checks.named_variable(value)
            parameters[name] = values.get(variable_name, value)
        deployments.append({**entry, "litellm_params": parameters})
    return deployments


def variable(name: str) -> str | None:
    """Return the value of an environment variable that holds no secret; None if it is unset."""
    return os.environ.get(name, "").strip() or None


def keep_litellm_offline() -> None:
    """Make litellm use the price list it ships, instead of fetching one when it is imported."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")


def proxy_for(address: str) -> str | None:
    """Return the proxy that the environment names for a server; none for this machine.

    Args:
        address: the server's address.

    Returns:
        The proxy's address, if there is one.

    Raises:
        JudgeSetupError: the environment names a proxy that is no HTTP proxy.
    """
    from urllib.request import getproxies, proxy_bypass  # takes a while

    parts = urlsplit(address)
    host = parts.hostname or ""
    if is_this_machine(host) or proxy_bypass(host):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy:
        return None
    scheme, separator, _ = proxy.partition("://")
    if separator and scheme not in {"http", "https"}:
        raise JudgeSetupError(
            f"the environment names a {scheme!r} proxy for {host!r}, and only HTTP proxies "
            f"can be used: name one in {parts.scheme}_proxy, or put {host!r} into no_proxy"
        )
    return proxy if separator else f"http://{proxy}"


def is_this_machine(host: str) -> bool:
    """Whether only this machine can reach a host: a loopback address or a local name."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def service_token(variable: str | None) -> SecretStr | None:
    """Return the token that requests to the service must bear.

    Args:
        variable: name of the environment variable; None for a service that asks for none.

    Returns:
        The token.

    Raises:
        JudgeSetupError: the variable is not set, or its value is too short.
    """
    if variable is None:
        return None
    value = os.environ.get(variable, "").strip()
    if len(value) < _SHORTEST_TOKEN:
        raise JudgeSetupError(
            f"the token in the environment variable {variable!r} has {len(value)} characters "
            f"and needs {_SHORTEST_TOKEN}: export one, for example from `openssl rand -hex 32`"
        )
    return SecretStr(value)
