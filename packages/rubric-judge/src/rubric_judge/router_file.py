"""litellm's own configuration files: several deployments of a model, and what to fall back on.

What concerns calls is read; what is the proxy server's own (`general_settings`) is not. Retries and
times are the judge's, so that they count towards its deadline.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import yaml

from rubric_core import ConfigError
from rubric_core.configuration import nearest_key

__all__ = ["KEY_PREFIX", "RouterFile", "read_router_file"]

KEY_PREFIX = "os.environ/"
_SECTIONS = frozenset({"model_list", "router_settings", "litellm_settings", "general_settings"})
_OURS = frozenset(
    {"num_retries", "request_timeout", "retry_after", "retry_policy", "set_verbose", "timeout"}
)
"""Settings that `max_transport_attempts`, `timeout_s` and `backoff_s` stand for."""
_OF_CALLS = frozenset(
    {
        "allowed_fails",
        "content_policy_fallbacks",
        "context_window_fallbacks",
        "cooldown_time",
        "default_fallbacks",
        "fallbacks",
    }
)
"""What may stand under `litellm_settings`; the rest would change litellm for the whole process."""
_DEFAULTS = "default_litellm_params"
_FALLBACKS = ("fallbacks", "context_window_fallbacks", "content_policy_fallbacks")
_UNSCORED_PARAMETERS = frozenset(
    {"api_base", "base_url", "max_parallel_requests", "max_retries", "rpm", "timeout", "tpm"}
)
"""Addresses, limits and times; of a group that mixes models, `weight` says who judges."""
_UNSCORED_SETTINGS = frozenset(
    {
        "allowed_fails",
        "allowed_fails_policy",
        "cooldown_time",
        "debug_level",
        "default_max_parallel_requests",
        "disable_cooldowns",
        "redis_host",
        "redis_password",
        "redis_port",
        "redis_url",
    }
)
"""Where the Router keeps its counts, and when a deployment rests. Every other setting may change a
score; to judge again for one that did not is the lesser harm."""
_SECRET = re.compile(
    r"(?:key|key_id|token|secret|password|credentials|authorization)$", re.IGNORECASE
)
_HEADERS = frozenset({"extra_headers", "headers"})
_Options = dict[str, object]


@dataclass(frozen=True)
class RouterFile:
    """A file that was read and can be used."""

    path: Path
    deployments: tuple[Mapping[str, object], ...] = field(repr=False)
    """Entries of `model_list`, as written: `os.environ/NAME` still stands for a key."""
    settings: Mapping[str, object] = field(repr=False)
    """Arguments of litellm's Router."""
    ignored: tuple[str, ...]
    """Settings that are the judge's, or the proxy's."""

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that the deployments name, and the key that names each."""
        return {
            value.removeprefix(KEY_PREFIX): f"model_list.{number}.litellm_params.{name}"
            for number, entry in enumerate(self.deployments)
            for name, value in cast("_Options", entry["litellm_params"]).items()
            if isinstance(value, str) and value.startswith(KEY_PREFIX)
        }

    def identity(self, variable: Callable[[str], str | None]) -> str:
        """Return all of it that may change a score, without addresses, keys and limits.

        Args:
            variable: returns the value of an environment variable; only those are asked for that
                hold no secret.
        """
        models = [
            {
                "group": entry["model_name"],
                **_scored(cast("_Options", entry["litellm_params"]), variable),
            }
            for entry in self.deployments
        ]
        settings: _Options = {
            name: _scored(cast("_Options", value), variable)
            if name == _DEFAULTS and isinstance(value, dict)
            else value
            for name, value in self.settings.items()
            if name not in _UNSCORED_SETTINGS
        }
        return json.dumps([models, settings], sort_keys=True, default=str)


def _scored(parameters: _Options, variable: Callable[[str], str | None]) -> _Options:
    scored: _Options = {}
    for name, value in parameters.items():
        if name in _UNSCORED_PARAMETERS or _SECRET.search(name):
            continue
        if isinstance(value, str) and value.startswith(KEY_PREFIX):
            scored[name] = variable(value.removeprefix(KEY_PREFIX)) or value
        elif name in _HEADERS and isinstance(value, dict):
            scored[name] = _scored(cast("_Options", value), variable)
        else:
            scored[name] = value
    return scored


def read_router_file(path: Path, *, model: str) -> RouterFile:
    """Read a litellm configuration.

    Args:
        path: the YAML file.
        model: the group that the judge calls.

    Returns:
        The deployments and the Router's settings.

    Raises:
        ConfigError: the file cannot be read or is no such file, a key in it is wrong, or `model` is
            none of its groups; names file and key, and never a value that may be a secret.
    """
    content = _content(path)
    deployments = tuple(_deployments(path, content.get("model_list")))
    groups = {cast("str", entry["model_name"]) for entry in deployments}
    settings, ignored = _settings(path, content)
    aliases = settings.get("model_group_alias")
    known = groups | set(cast("_Options", aliases) if isinstance(aliases, dict) else ())
    for name, key in ((model, "model"), *_named_groups(path, settings)):
        if name not in known:
            close = nearest_key(name, known)
            remedy = (
                f"did you mean {close!r}?" if close else f"there are {', '.join(sorted(known))}"
            )
            raise ConfigError(
                f"{path}: {key}: no model_name in model_list is {name!r}: {remedy}", location=key
            )
    return RouterFile(path, deployments, settings, ignored)


def _content(path: Path) -> _Options:
    try:
        content = cast("object", yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        kind = type(error).__name__
        raise ConfigError(f"{path}: cannot be read ({kind})", location="litellm_config") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        # yaml's message quotes the line, which may hold a key.
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        raise ConfigError(f"{where}: is not usable YAML", location="litellm_config") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: needs a `model_list`", location="model_list")
    sections = cast("_Options", content)
    for name in sections:
        if name not in _SECTIONS:
            close = nearest_key(str(name), _SECTIONS)
            remedy = f"did you mean {close!r}?" if close else f"use {', '.join(sorted(_SECTIONS))}"
            raise ConfigError(f"{path}: unknown key {name!r}: {remedy}", location=str(name))
    return sections


def _deployments(path: Path, value: object) -> Iterator[_Options]:
    if not isinstance(value, list) or not value:
        raise ConfigError(
            f"{path}: model_list: needs at least one deployment", location="model_list"
        )
    for number, entry in enumerate(cast("list[object]", value)):
        key = f"model_list.{number}"
        fields = cast("_Options", entry) if isinstance(entry, dict) else {}
        parameters = fields.get("litellm_params")
        model = cast("_Options", parameters).get("model") if isinstance(parameters, dict) else None
        for name, given in (
            ("model_name", fields.get("model_name")),
            ("litellm_params.model", model),
        ):
            if not isinstance(given, str) or not given:
                raise ConfigError(f"{path}: {key}.{name}: needs a name", location=f"{key}.{name}")
        yield fields


def _settings(path: Path, content: _Options) -> tuple[_Options, tuple[str, ...]]:
    settings: _Options = {}
    ignored: list[str] = ["general_settings"] if "general_settings" in content else []
    for section in ("litellm_settings", "router_settings"):
        given = cast("object", content.get(section) or {})
        if not isinstance(given, dict):
            raise ConfigError(f"{path}: {section}: needs keys and values", location=section)
        for name, value in cast("_Options", given).items():
            key = f"{section}.{name}"
            if name in _OURS:
                ignored.append(key)
            elif section == "litellm_settings" and name not in _OF_CALLS:
                raise ConfigError(
                    f"{path}: {key}: would change litellm for the whole process; "
                    f"here only {', '.join(sorted(_OF_CALLS))} may stand",
                    location=key,
                )
            else:
                settings[name] = value
    return settings, tuple(ignored)


def _named_groups(path: Path, settings: _Options) -> Iterator[tuple[str, str]]:
    """Every group that a fallback names, and the key that names it."""
    for name in _FALLBACKS:
        rules = cast("object", settings.get(name) or [])
        wrong = ConfigError(
            f"{path}: {name}: is a list such as [{{group: [other, another]}}]", location=name
        )
        if not isinstance(rules, list):
            raise wrong
        for rule in cast("list[object]", rules):
            if not isinstance(rule, dict):
                raise wrong
            for group, others in cast("_Options", rule).items():
                if not isinstance(others, list):
                    raise wrong
                if group != "*":
                    yield group, name
                yield from ((str(other), name) for other in cast("list[object]", others))
    defaults = cast("object", settings.get("default_fallbacks") or [])
    if isinstance(defaults, list):
        yield from ((str(other), "default_fallbacks") for other in cast("list[object]", defaults))
