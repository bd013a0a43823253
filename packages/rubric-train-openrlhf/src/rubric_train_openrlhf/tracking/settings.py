"""Settings as a tracker may see them: without secrets, those of the environment included.

The only reader of the environment in this folder.
"""

import os
import re
from typing import Any, cast

from rubric_train_openrlhf.config.sections import leaves

_HIDDEN = "(hidden)"
_SECRET = re.compile(
    r"(?i)(^|_|-)(key|token|secret|password|passwd|credentials?|authorization|cookie)s?$"
)
"""Ending of the names of keys and variables that hold a secret. A number is shown all the same,
such as that of `max_tokens`."""
_ADDRESS = re.compile(r"(?<=://)[^/@\s]+(?=@)|(?<=\?)[^\s'\"]*=[^\s'\"]*")
"""The user, password and query of an address."""
_SHORTEST = 8
"""Fewest characters of a variable's value that is hidden: a shorter one may be a common word."""


def without_secrets(text: str) -> str:
    """Return a text without the values of secret variables and the secrets of addresses."""
    for name, value in os.environ.items():
        if _SECRET.search(name) and len(value) >= _SHORTEST:
            text = text.replace(value, _HIDDEN)
    return _ADDRESS.sub(_HIDDEN, text)


def shown_settings(values: dict[str, Any]) -> dict[str, str | float | bool | None]:
    """Return a configuration by dotted keys, without secrets.

    Args:
        values: the configuration, as JSON.
    """
    shown: dict[str, str | float | bool | None] = {}
    for key, value in leaves(values):
        if value is None or isinstance(value, bool | int | float):
            shown[key] = value
        elif _SECRET.search(key.rpartition(".")[2]):
            shown[key] = _HIDDEN
        else:
            shown[key] = without_secrets(str(_shown(value)))
    return shown


def _shown(value: object) -> object:
    """Return a value with the secrets of tables within lists hidden."""
    if isinstance(value, list):
        return [_shown(part) for part in cast("list[object]", value)]
    if isinstance(value, dict):
        return shown_settings(cast("dict[str, Any]", value))
    return value
