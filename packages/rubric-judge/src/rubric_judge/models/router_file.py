"""Reader of litellm's configuration files: groups of deployments, and their fallbacks.

The settings of calls are read, those of the proxy server (`general_settings`) are not. The judge
does retries and sets times itself, so that they count towards its deadline.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, cast
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from rubric_core.configuration import shown_name, validated
from rubric_judge.models import router_checks
from rubric_judge.models.chat import listing, mapping, server_of
from rubric_judge.models.replicas import Rests
from rubric_judge.models.router_checks import SECRET, named_variable, remedy, wrong
from rubric_judge.ui.yaml_files import read_yaml, yaml_place

_FALLBACKS = ("fallbacks", "context_window_fallbacks", "content_policy_fallbacks")
_OF_CALLS = frozenset(
    {*_FALLBACKS, "default_fallbacks", "allowed_fails", "cooldown_time"}
)
"""Keys allowed in `litellm_settings`; the others would change litellm for the whole process."""
_OF_REDIS = frozenset({"redis_host", "redis_url"})
_DEFAULTS = "default_litellm_params"
_ALLOWED_FAILS = 3
"""litellm's own number of failures that are allowed before a deployment rests."""
_PRICE = "_cost_per_"
_HEADERS = frozenset({"extra_headers", "headers"})
_Options = dict[str, object]
FallbackKind = Literal[
    "fallbacks", "context_window_fallbacks", "content_policy_fallbacks"
]


def parameters_of(entry: Mapping[str, object]) -> _Options:
    """Return the `litellm_params` of an entry of `model_list` that was checked."""
    return cast("_Options", entry["litellm_params"])


@dataclass(frozen=True)
class RouterFile:
    """A litellm file that was read and checked."""

    path: Path
    deployments: tuple[_Options, ...] = field(repr=False)
    """Entries of `model_list`, as written: `os.environ/NAME` still stands for a key."""
    settings: _Options = field(repr=False)
    """Arguments for litellm's Router."""
    keys: Mapping[str, str]
    """Dotted path of each setting, such as `router_settings.fallbacks`."""
    ignored: tuple[str, ...]
    """Settings that the judge sets itself, or that only the proxy has."""

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that the deployments name, and the key that names each."""
        variables: dict[str, str] = {}
        for number, entry in enumerate(self.deployments):
            for name, value in parameters_of(entry).items():
                variable = named_variable(value)
                if variable is not None:
                    variables[variable] = f"model_list.{number}.litellm_params.{name}"
        return variables

    @property
    def is_ours(self) -> bool:
        """Whether `Replicas` chooses among deployments; else litellm's Router does.

        The Router does where the file says how to choose: by a strategy that is not one of
        `settings.replicas`, by weights and limits of deployments, or by a setting that is not known
        to leave the choice open.
        """
        open_settings = router_checks.SETTINGS["open"]
        strategy = self.settings.get("routing_strategy")
        parameters = [parameters_of(entry) for entry in self.deployments]
        parameters.append(mapping(self.settings.get(_DEFAULTS)))
        return (
            all(name in open_settings for name in self.settings)
            and strategy in {None, *router_checks.SETTINGS["replicas"]}
            and not any(
                options.get(name) is not None
                for options in parameters
                for name in router_checks.PARAMETERS["choosing"]
            )
        )

    @property
    def rests(self) -> Rests:
        """When a deployment that fails is left alone: as the file says, else as litellm does."""
        if self.settings.get("disable_cooldowns"):
            return Rests(first_s=0.0)
        fails = self.settings.get("allowed_fails")
        rest_s = self.settings.get("cooldown_time")
        fails = fails if isinstance(fails, int | float) else _ALLOWED_FAILS
        if not isinstance(rest_s, int | float):
            return Rests(after_failures=1 + int(fails))
        rest_s = float(rest_s)
        return Rests(
            after_failures=1 + int(fails),
            first_s=rest_s,
            longest_s=rest_s,
        )

    def routes(self, variable: Callable[[str], str | None]) -> tuple[str, ...]:
        """Return litellm's names of the models that may answer, fallbacks included.

        Args:
            variable: as in `identity`.
        """
        scored = (_scored(parameters_of(entry), variable) for entry in self.deployments)
        return tuple(str(parameters.get("model")) for parameters in scored)

    def identity(self, variable: Callable[[str], str | None]) -> str:
        """Return everything in it that may change a score: no addresses, keys or limits.

        Args:
            variable: returns the value of an environment variable; it is called only for variables
                that hold no secret.
        """
        models = [
            {"group": entry["model_name"], **_scored(parameters_of(entry), variable)}
            for entry in self.deployments
        ]
        settings: _Options = {}
        for name, value in self.settings.items():
            if name in router_checks.SETTINGS["unscored"]:
                continue
            if name == _DEFAULTS and isinstance(value, dict):
                settings[name] = _scored(cast("_Options", value), variable)
            else:
                settings[name] = value
        return json.dumps([models, settings], sort_keys=True, default=str)


def _scored(parameters: _Options, variable: Callable[[str], str | None]) -> _Options:
    scored: _Options = {}
    for name, value in parameters.items():
        is_unscored = name in router_checks.PARAMETERS["unscored"]
        if is_unscored or SECRET.search(name) or _PRICE in name:
            continue
        variable_name = named_variable(value)
        if variable_name is not None:
            scored[name] = variable(variable_name) or value
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
    references = [
        (model, "model"),
        *_named_groups(path, settings, keys),
        *((group, "model_group_alias") for group in aliases.values()),
    ]
    for name, key in references:
        if name not in (groups if key == "model_group_alias" else known):
            known_names = ", ".join(sorted(map(shown_name, known)))
            hint = remedy(name, known, otherwise=f"it has {known_names}")
            raise wrong(
                path,
                key,
                f"no model_name in model_list is {shown_name(name)!r}: {hint}",
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
                allowed = ", ".join(sorted(_OF_CALLS))
                raise wrong(
                    path,
                    key,
                    "would change litellm for the whole process; here only "
                    f"{allowed} may stand",
                )
            else:
                router_checks.check_secrets(path, {name: value}, key=section)
                needs_redis = name in _OF_REDIS and value is not None
                if needs_redis and find_spec("redis") is None:
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
    """Yield the aliases of groups, and the groups."""
    for alias, target in mapping(settings.get("model_group_alias")).items():
        group = mapping(target).get("model", target)
        if not isinstance(group, str):
            raise wrong(
                path,
                f"{keys['model_group_alias']}.{shown_name(alias)}",
                "needs the model_name of a group",
            )
        yield alias, group


_RULES = TypeAdapter(list[dict[str, list[str]]])


def _named_groups(
    path: Path, settings: _Options, keys: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield every group that a fallback names, and the key that names it."""
    forms = dict.fromkeys(_FALLBACKS, "[{group: [other, another]}]")
    for name, form in (forms | {"default_fallbacks": "[group, another]"}).items():
        value = cast("object", settings.get(name) or [])
        try:
            rules = _RULES.validate_python(
                value if name in forms else [{"*": value}], strict=True
            )
        except ValidationError:
            raise wrong(path, keys[name], f"is a list such as {form}") from None
        for rule in rules:
            for group, others in rule.items():
                if group != "*":
                    yield group, keys[name]
                for other in others:
                    yield other, keys[name]


@dataclass(frozen=True)
class Deployment:
    """One entry of `model_list`."""

    id: str
    """Its id in litellm's Router."""
    name: str
    """Its name in results: the `id` of its `model_info`, its host, or its place in the file."""
    group: str
    route: str
    """litellm's name of its model."""
    model: str
    """`base_model` of its `model_info`, or its model without the provider's prefix."""
    order: int
    """Its rank; deployments with the lowest number are asked first."""


class Groups:
    """The deployments of a file by group."""

    def __init__(self, file: RouterFile, deployments: Sequence[_Options]) -> None:
        """Read the deployments.

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
        return sorted(deployments, key=lambda deployment: deployment.order)

    def models(self, group: str) -> frozenset[str]:
        """Return the models of a group."""
        return frozenset(member.model for member in self.members(group))

    def require_one_model(self, group: str) -> None:
        """Refuse a group whose deployments have different models.

        Raises:
            ConfigError: the models differ; names them.
        """
        models = sorted(self.models(group))
        if len(models) > 1:
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
        """Return the fallbacks of a group; None if the file has no list of this kind."""
        rules = self.file.settings.get(kind)
        general = None
        if kind == "fallbacks":
            general = self.file.settings.get("default_fallbacks")
        if rules is None and general is None:
            return None
        ordered = cast(
            "list[dict[str, list[str]]]", [{"*": general or []}, *listing(rules)]
        )
        targets: dict[str, list[str]] = {}
        for rule in reversed(ordered):
            targets.update({name: groups for name, groups in rule.items() if groups})
        return tuple(targets.get(group) or targets.get("*") or ())

    def most_calls(self, group: str, *, other_models: bool) -> int:
        """Return how many deployments one attempt may call.

        Args:
            group: the requested group.
            other_models: whether a fallback may be of another model than the group.
        """
        return sum(
            len(self.members(name))
            for name in self._reachable(group)
            if other_models or self.models(name) <= self.models(group)
        )

    def _reachable(self, group: str) -> Iterator[str]:
        """Yield a group and every group that it may fall back on, each once."""
        seen = [group]
        for name in seen:
            yield name
            seen += [other for other in self.fallbacks(name) or () if other not in seen]


def _deployment(number: int, entry: _Options) -> Deployment:
    parameters = parameters_of(entry)
    information = mapping(entry.get("model_info"))
    server = server_of(parameters.get("api_base") or parameters.get("base_url"))
    id_in_file = information.get("id")
    route = str(parameters["model"])
    order = parameters.get("order")
    model = route
    if not parameters.get("custom_llm_provider"):
        model = route.partition("/")[2] or route
    return Deployment(
        id=str(id_in_file) if id_in_file else uuid4().hex,
        name=str(id_in_file or server or f"model_list.{number}"),
        group=str(entry["model_name"]),
        route=route,
        model=str(information.get("base_model") or model),
        order=order if isinstance(order, int) else sys.maxsize,
    )
