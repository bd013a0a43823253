"""What the parts of a litellm file must be, so that litellm is not the first to find out.

litellm's own errors quote the value, which may be a key; these name the key of the file only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, cast

from rubric_core import ConfigError
from rubric_core.configuration import nearest_key, shown_name
from rubric_core.files import toml_beside
from rubric_judge.yaml_files import yaml_place

_KEY_PREFIX = "os.environ/"
SECRET = re.compile(
    r"(?:key|key_id|(?<!_per_)token|secret|password|credentials|authorization)$", re.IGNORECASE
)
"""Names of parameters that hold a secret; `input_cost_per_token` is a price."""
_DEEPEST = 32
_TABLE: Final = toml_beside(__file__, "router.toml")
PARAMETERS: Final[dict[str, list[str]]] = _TABLE["parameters"]
SETTINGS: Final[dict[str, list[str]]] = _TABLE["settings"]
_Options = Mapping[str, object]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return False
    return math.isfinite(number) and number >= 0


_KINDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "text": (_is_text, "needs a text"),
    "number": (_is_number, "needs a number, 0 or more"),
    "mapping": (lambda value: isinstance(value, dict), "needs keys and values"),
    "list": (lambda value: isinstance(value, list), "needs a list"),
    "switch": (lambda value: isinstance(value, bool), "needs true or false"),
}
"""Whether a value is of a kind, and what to say where it is not."""


def named_variable(value: object) -> str | None:
    """Return the environment variable that a value names, as `os.environ/NAME` does."""
    if not isinstance(value, str) or not value.startswith(_KEY_PREFIX):
        return None
    return value.removeprefix(_KEY_PREFIX)


def wrong(path: Path, key: str, what: str) -> ConfigError:
    """Return the error about one key of a file.

    Args:
        path: the file.
        key: the key, with dots.
        what: what it needs to be; never what it is.
    """
    return ConfigError(f"{yaml_place(path, tuple(key.split('.')))}: {key}: {what}", location=key)


def remedy(name: object, known: Iterable[str], *, otherwise: str) -> str:
    """Return the name that was probably meant, or what to say where none is near."""
    close = nearest_key(name, known) if isinstance(name, str) else None
    return f"did you mean {shown_name(close)!r}?" if close else otherwise


def check_names(path: Path, value: object, *, key: str, depth: int = 0) -> None:
    """Refuse a key that is no text, wherever under one key.

    Args:
        path: the file.
        value: what stands under the key.
        key: the key, with dots.
        depth: how deep it stands; a YAML file can hold itself.

    Raises:
        ConfigError: there is one, or the file is nested too deep.
    """
    if depth > _DEEPEST:
        raise wrong(path, key.split(".", maxsplit=1)[0], "is nested too deep, or holds itself")
    if isinstance(value, dict):
        for name, part in cast("dict[object, object]", value).items():
            if not isinstance(name, str):
                raise wrong(path, key, "a key under it is no text; write that key in quotes")
            check_names(path, part, key=f"{key}.{shown_name(name)}", depth=depth + 1)
    elif isinstance(value, list):
        for number, part in enumerate(cast("list[object]", value)):
            check_names(path, part, key=f"{key}.{number}", depth=depth + 1)


def check_deployment(path: Path, entry: _Options, *, key: str) -> None:
    """Check one entry of `model_list`, which has a name and parameters.

    Args:
        path: the file.
        entry: the entry.
        key: its place, such as `model_list.0`.

    Raises:
        ConfigError: a value is of a wrong type, or names a variable that is none.
    """
    information = entry.get("model_info")
    if information is not None and not isinstance(information, dict):
        raise wrong(path, f"{key}.model_info", "needs keys and values")
    _check_parameters(path, entry, key=key)
    parameters = cast("_Options", entry["litellm_params"])
    _check_parameters(path, parameters, key=f"{key}.litellm_params")


def check_settings(path: Path, settings: _Options, *, keys: Mapping[str, str]) -> None:
    """Check the Router's settings.

    Args:
        path: the file.
        settings: by name.
        keys: where each stands, such as `router_settings.fallbacks`.

    Raises:
        ConfigError: a value is of a wrong type or none of those that there are, or needs a package
            that is not installed.
    """
    for kind, (fits, what) in _KINDS.items():
        for name in SETTINGS[kind]:
            if settings.get(name) is not None and not fits(settings[name]):
                raise wrong(path, keys[name], what)
    for name in ("redis_host", "redis_url"):
        if settings.get(name) is not None and find_spec("redis") is None:
            what = "needs the package `redis`, which is not installed: install it, or leave it out"
            raise wrong(path, keys[name], what)
    strategy = settings.get("routing_strategy")
    known = SETTINGS["strategies"]
    if strategy is not None and strategy not in known:
        there = remedy(strategy, known, otherwise=f"use one of {', '.join(known)}")
        raise wrong(path, keys["routing_strategy"], f"is no way of routing: {there}")
    defaults = settings.get("default_litellm_params")
    if isinstance(defaults, dict):
        _check_parameters(path, cast("_Options", defaults), key=keys["default_litellm_params"])


def _check_parameters(path: Path, parameters: _Options, *, key: str) -> None:
    for name, value in parameters.items():
        place = f"{key}.{shown_name(name)}"
        if value is None:
            continue
        if (variable := named_variable(value)) is not None:
            if not variable.isidentifier() or shown_name(variable) != variable:
                what = "needs the name of an environment variable after os.environ/, and no key"
                raise wrong(path, place, what)
        elif name in PARAMETERS["number"] and not _is_number(value):
            raise wrong(path, place, _KINDS["number"][1])
        elif (name in PARAMETERS["text"] or SECRET.search(name)) and not _is_text(value):
            if name.endswith("credentials") and isinstance(value, dict):
                continue  # of a cloud, written out
            raise wrong(path, place, "needs a text, such as os.environ/NAME")
