"""The groups of a `litellm_config`: their deployments, their models, and what they fall back on."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast
from uuid import uuid4

from rubric_judge.provider.chat import server_of
from rubric_judge.provider.router_checks import wrong
from rubric_judge.provider.router_file import RouterFile

FallbackKind = Literal["fallbacks", "context_window_fallbacks", "content_policy_fallbacks"]
_Options = Mapping[str, object]


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
        self.deployments = tuple(_deployment(n, entry) for n, entry in enumerate(deployments))
        self.file = file

    def members(self, group: str) -> list[Deployment]:
        """Return the deployments of a group, which may be named by an alias, in their order."""
        aliases = cast("_Options", self.file.settings.get("model_group_alias") or {})
        target = aliases.get(group, group)
        name = cast("_Options", target).get("model") if isinstance(target, dict) else target
        found = (one for one in self.deployments if one.group == name)
        return sorted(found, key=lambda one: one.order)

    def models(self, group: str) -> frozenset[str]:
        """Return the models of a group."""
        return frozenset(one.model for one in self.members(group))

    def require_one_model(self, group: str) -> None:
        """Refuse a group whose deployments are of different models.

        Raises:
            ConfigError: they are; says which.
        """
        if len(models := sorted(self.models(group))) > 1:
            what = (
                f"the group {group!r} mixes the models {', '.join(models)}, whose scores are "
                "different rewards: give each a group of its own (or the same base_model under "
                "model_info), or set allow_fallback_models: true"
            )
            raise wrong(self.file.path, "model_list", what)

    def fallbacks(self, group: str, kind: FallbackKind = "fallbacks") -> tuple[str, ...] | None:
        """Return the groups that stand in for one; None where the file has no list of this kind."""
        rules = self.file.settings.get(kind)
        general = self.file.settings.get("default_fallbacks") if kind == "fallbacks" else None
        if rules is None and general is None:
            return None
        ordered = cast(
            "list[dict[str, list[str]]]", [{"*": general or []}, *cast("list[object]", rules or [])]
        )
        named = {name: to for rule in reversed(ordered) for name, to in rule.items() if to}
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
    parameters = cast("_Options", entry["litellm_params"])
    information = cast("_Options", entry.get("model_info") or {})
    server = server_of(parameters.get("api_base") or parameters.get("base_url"))
    given = information.get("id")
    route, order = str(parameters["model"]), parameters.get("order")
    model = route if parameters.get("custom_llm_provider") else route.partition("/")[2] or route
    return Deployment(
        id=str(given) if given else uuid4().hex,
        name=str(given or server or f"model_list.{number}"),
        group=str(entry["model_name"]),
        route=route,
        model=str(information.get("base_model") or model),
        order=order if isinstance(order, int) else sys.maxsize,
    )
