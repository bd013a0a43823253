"""litellm's own configuration files: groups of deployments, and what each falls back on.

What concerns calls is read; what is the proxy server's own (`general_settings`) is not. Retries and
times are the judge's, so that they count towards its deadline.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, cast
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from rubric_core.configuration import shown_name, validated
from rubric_judge.provider import router_checks
from rubric_judge.provider.chat import listing, mapping, server_of
from rubric_judge.provider.router_checks import SECRET, named_variable, remedy, wrong
from rubric_judge.yaml_files import read_yaml, yaml_place

_FALLBACKS = ("fallbacks", "context_window_fallbacks", "content_policy_fallbacks")
_OF_CALLS = frozenset(
    {*_FALLBACKS, "default_fallbacks", "allowed_fails", "cooldown_time"}
)
"""What may stand under `litellm_settings`; the rest would change litellm for the whole process."""
_OF_REDIS = frozenset({"redis_host", "redis_url"})
_DEFAULTS = "default_litellm_params"
_PRICE = "_cost_per_"
_HEADERS = frozenset({"extra_headers", "headers"})
_Options = dict[str, object]
FallbackKind = Literal[
    "fallbacks", "context_window_fallbacks", "content_policy_fallbacks"
]


def parameters_of(entry: Mapping[str, object]) -> _Options:
    """Return the `litellm_params` of an entry of `model_list`, which was checked."""
    return cast("_Options", entry["litellm_params"])


@dataclass(frozen=True)
class RouterFile:
    """A file that was read and can be used."""

    path: Path
    deployments: tuple[_Options, ...] = field(repr=False)
    """Entries of `model_list`, as written: `os.environ/NAME` still stands for a key."""
    settings: _Options = field(repr=False)
    """Arguments of litellm's Router."""
    keys: Mapping[str, str]
    """Where each of them stands, such as `router_settings.fallbacks`."""
    ignored: tuple[str, ...]
    """Settings that are the judge's, or the proxy's."""

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that the deployments name, and the key that names each."""
        return {
            variable: f"model_list.{number}.litellm_params.{name}"
            for number, entry in enumerate(self.deployments)
            for name, value in parameters_of(entry).items()
            if (variable := named_variable(value)) is not None
        }

    def routes(self, variable: Callable[[str], str | None]) -> tuple[str, ...]:
        """Return litellm's names of the models that may answer, fallbacks included.

        Args:
            variable: as in `identity`.
        """
        scored = (_scored(parameters_of(entry), variable) for entry in self.deployments)
        return tuple(str(one.get("model")) for one in scored)

    def identity(self, variable: Callable[[str], str | None]) -> str:
        """Return all of it that may change a score, without addresses, keys and limits.

        Args:
            variable: returns the value of an environment variable; only those are asked for that
                hold no secret.
        """
        models = [
            {"group": entry["model_name"], **_scored(parameters_of(entry), variable)}
            for entry in self.deployments
        ]
        settings: _Options = {
            name: _scored(cast("_Options", value), variable)
            if name == _DEFAULTS and isinstance(value, dict)
            else value
            for name, value in self.settings.items()
            if name not in router_checks.SETTINGS["unscored"]
        }
        return json.dumps([models, settings], sort_keys=True, default=str)


def _scored(parameters: _Options, variable: Callable[[str], str | None]) -> _Options:
    scored: _Options = {}
    for name, value in parameters.items():
        if (
            name in router_checks.PARAMETERS["unscored"]
            or SECRET.search(name)
            or _PRICE in name
        ):
            continue
        if (named := named_variable(value)) is not None:
            scored[name] = variable(named) or value
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
    content = cast("dict[str, Any]", read_yaml(path) or {})
    validated(router_checks.File, content, source=partial(yaml_place, path))
    deployments = tuple(_deployments(path, content["model_list"]))
    groups = {cast("str", entry["model_name"]) for entry in deployments}
    settings, keys, ignored = _settings(path, content)
    aliases = dict(_aliases(path, settings, keys))
    known = groups | aliases.keys()
    alias_targets = ((group, "model_group_alias") for group in aliases.values())
    for name, key in (
        (model, "model"),
        *_named_groups(path, settings, keys),
        *alias_targets,
    ):
        if name not in (groups if key == "model_group_alias" else known):
            there = f"it has {', '.join(sorted(map(shown_name, known)))}"
            meant = remedy(name, known, otherwise=there)
            raise wrong(
                path,
                key,
                f"no model_name in model_list is {shown_name(name)!r}: {meant}",
            )
    return RouterFile(path, deployments, settings, keys, ignored)


def _deployments(path: Path, entries: list[_Options]) -> Iterator[_Options]:
    identities = set[str]()
    for number, entry in enumerate(entries):
        key = f"model_list.{number}"
        router_checks.check_secrets(path, entry, key=key)
        router_checks.check_secrets(
            path, parameters_of(entry), key=f"{key}.litellm_params"
        )
        identity = mapping(entry.get("model_info")).get("id")
        if identity is not None and str(identity) in identities:
            raise wrong(
                path, f"{key}.model_info.id", "stands at another deployment too"
            )
        identities.add(str(identity))
        yield entry


def _settings(
    path: Path, content: _Options
) -> tuple[_Options, dict[str, str], tuple[str, ...]]:
    settings: _Options = {}
    keys: dict[str, str] = {}
    ignored: list[str] = ["general_settings"] if "general_settings" in content else []
    for section in ("litellm_settings", "router_settings"):
        for name, value in mapping(content.get(section)).items():
            key = f"{section}.{shown_name(name)}"
            if name in router_checks.SETTINGS["ours"]:
                ignored.append(key)
            elif section == "litellm_settings" and name not in _OF_CALLS:
                here = f"here only {', '.join(sorted(_OF_CALLS))} may stand"
                raise wrong(
                    path, key, f"would change litellm for the whole process; {here}"
                )
            else:
                router_checks.check_secrets(path, {name: value}, key=section)
                if (
                    name in _OF_REDIS
                    and value is not None
                    and find_spec("redis") is None
                ):
                    raise wrong(
                        path,
                        key,
                        "needs the package `redis`, which is not installed: install it, or "
                        "leave it out",
                    )
                settings[name] = value
                keys[name] = key
    router_checks.check_secrets(
        path, mapping(settings.get(_DEFAULTS)), key=keys.get(_DEFAULTS, "")
    )
    return settings, keys, tuple(ignored)


def _aliases(
    path: Path, settings: _Options, keys: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Other names of groups, and the groups."""
    for alias, given in mapping(settings.get("model_group_alias")).items():
        group = mapping(given).get("model", given)
        if not isinstance(group, str):
            key = f"{keys['model_group_alias']}.{shown_name(alias)}"
            raise wrong(path, key, "needs the model_name of a group")
        yield alias, group


_RULES: Final = TypeAdapter(list[dict[str, list[str]]])


def _named_groups(
    path: Path, settings: _Options, keys: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Every group that a fallback names, and the key that names it."""
    forms = dict.fromkeys(_FALLBACKS, "[{group: [other, another]}]")
    for name, form in (forms | {"default_fallbacks": "[group, another]"}).items():
        given = cast("object", settings.get(name) or [])
        try:
            rules = _RULES.validate_python(
                given if name in forms else [{"*": given}], strict=True
            )
        except ValidationError:
            raise wrong(path, keys[name], f"is a list such as {form}") from None
        for rule in rules:
            for group, others in rule.items():
                named = others if group == "*" else [group, *others]
                yield from ((one, keys[name]) for one in named)


@dataclass(frozen=True, slots=True)
class Deployment:
    """One entry of `model_list`."""

    id: str
    """What litellm's Router knows it by."""
    name: str
    """What results call it: the `id` of its `model_info`, its host, or its place in the file."""
    group: str
    route: str
    """Its model as litellm names it."""
    model: str
    """`base_model` of its `model_info`, or its model without the provider's prefix."""
    order: int
    """Those with the lowest number are asked first."""


class Groups:
    """The deployments of a file by group."""

    def __init__(self, file: RouterFile, deployments: Sequence[_Options]) -> None:
        """Read them.

        Args:
            file: the file.
            deployments: its entries with the values of their environment variables.
        """
        self.deployments = tuple(
            _deployment(n, entry) for n, entry in enumerate(deployments)
        )
        self.file = file

    def members(self, group: str) -> list[Deployment]:
        """Return the deployments of a group, which may be named by an alias, in their order."""
        target = mapping(self.file.settings.get("model_group_alias")).get(group, group)
        name = mapping(target).get("model", target)
        deployments = (
            deployment for deployment in self.deployments if deployment.group == name
        )
        return sorted(deployments, key=lambda one: one.order)

    def models(self, group: str) -> frozenset[str]:
        """Return the models of a group."""
        return frozenset(member.model for member in self.members(group))

    def require_one_model(self, group: str) -> None:
        """Refuse a group whose deployments are of different models.

        Raises:
            ConfigError: they are; says which.
        """
        if len(models := sorted(self.models(group))) > 1:
            raise wrong(
                self.file.path,
                "model_list",
                f"the group {group!r} mixes the models {', '.join(models)}, whose scores are "
                "different rewards: give each a group of its own (or the same base_model under "
                "model_info), or set allow_fallback_models: true",
            )

    def fallbacks(
        self, group: str, kind: FallbackKind = "fallbacks"
    ) -> tuple[str, ...] | None:
        """Return the groups that stand in for one; None where the file has no list of this kind."""
        rules = self.file.settings.get(kind)
        general = (
            self.file.settings.get("default_fallbacks") if kind == "fallbacks" else None
        )
        if rules is None and general is None:
            return None
        ordered = cast(
            "list[dict[str, list[str]]]", [{"*": general or []}, *listing(rules)]
        )
        named = {
            name: to for rule in reversed(ordered) for name, to in rule.items() if to
        }
        return tuple(named.get(group) or named.get("*") or ())

    def most_calls(self, group: str, *, other_models: bool) -> int:
        """Return how many deployments one attempt may call.

        Args:
            group: who is asked.
            other_models: whether a fallback may be another model than that of the group.
        """
        return sum(
            len(self.members(name))
            for name in self._reachable(group)
            if other_models or self.models(name) <= self.models(group)
        )

    def _reachable(self, group: str) -> Iterator[str]:
        """Yield a group and all that it may fall back on, each once."""
        seen = [group]
        for name in seen:
            yield name
            seen += [other for other in self.fallbacks(name) or () if other not in seen]


def _deployment(number: int, entry: _Options) -> Deployment:
    parameters = parameters_of(entry)
    information = mapping(entry.get("model_info"))
    server = server_of(parameters.get("api_base") or parameters.get("base_url"))
    given = information.get("id")
    route = str(parameters["model"])
    order = parameters.get("order")
    model = (
        route
        if parameters.get("custom_llm_provider")
        else route.partition("/")[2] or route
    )
    return Deployment(
        id=str(given) if given else uuid4().hex,
        name=str(given or server or f"model_list.{number}"),
        group=str(entry["model_name"]),
        route=route,
        model=str(information.get("base_model") or model),
        order=order if isinstance(order, int) else sys.maxsize,
    )
