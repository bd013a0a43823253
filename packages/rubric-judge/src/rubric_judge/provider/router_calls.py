"""Calls through litellm's Router: every deployment of a group before any group it falls back on.

The Router chooses among the deployments of a group and knows which of them rest. Left to itself it
goes to a fallback at the first failure, and does not say for whom another group answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Self

import anyio

from rubric_core import Reason
from rubric_judge.errors import JudgeTransportError
from rubric_judge.provider.litellm_replies import LibraryErrors
from rubric_judge.provider.router_groups import Deployment, FallbackKind, Groups

_NO_BETTER_ELSEWHERE = frozenset({400, 413, 422})
"""Statuses for the request itself, which another deployment of the same model refuses as well."""

_Complete = Callable[..., Coroutine[Any, Any, Any]]


@dataclass
class Route:
    """Who was asked and who answered, of the call that is made within this context."""

    calls: int = 0
    chosen: str = ""
    """The `id` of the deployment that was called last, which is the one that answered."""
    fallback: str = ""
    """The group that answered, where it is not the one that was asked."""
    refused: list[str] = field(default_factory=list[str])
    """Fallbacks that were not asked, because they are other models."""

    def __enter__(self) -> Self:
        self._token = _route.set(self)
        return self

    def told(self, error: JudgeTransportError) -> JudgeTransportError:
        """Put into an error how many calls it took, and who was not asked."""
        error.attempts = max(1, self.calls)
        if self.refused:
            names = ", ".join(map(repr, self.refused))
            error.detail += f"; not asked, for it is another model: {names} (allow_fallback_models)"
        return error

    def __exit__(self, *_: object) -> None:
        _route.reset(self._token)


_route: ContextVar[Route | None] = ContextVar("_route", default=None)


class GroupCalls:
    """`acompletion` of a Router, with the order of who is asked."""

    def __init__(
        self,
        complete: _Complete,
        groups: Groups,
        errors: LibraryErrors,
        *,
        model: str,
        timeout_s: float,
        other_models: bool,
    ) -> None:
        """Take the Router's function; nothing is sent.

        Args:
            complete: the Router's `acompletion`.
            groups: the file's groups.
            errors: litellm's errors.
            model: the group that is asked.
            timeout_s: longest time for one call.
            other_models: whether a fallback may be another model than that of the group.
        """
        self._complete = complete
        self._groups = groups
        self._errors = errors
        self._timeout_s = timeout_s
        self._models = None if other_models else groups.models(model)
        self._most_calls = most_calls(groups, model, other_models=other_models)

    async def complete(self, **request: Any) -> Any:
        """Ask the group, and then what it falls back on.

        Raises:
            Exception: what the last deployment of the group that was asked raised.
        """
        route = _route.get() or Route()
        asked: str = request["model"]
        seen, waiting = {asked}, deque([asked])
        first: Exception | None = None
        while waiting:
            group = waiting.popleft()
            try:
                answer = await self._ask_group(group, request, route)
            except Exception as error:  # noqa: BLE001  # litellm's errors have no common base
                first = first or error
                for other in self._next(group, error):
                    if other in seen:
                        continue
                    seen.add(other)
                    if self._models is None or self._groups.models(other) <= self._models:
                        waiting.append(other)
                    else:
                        route.refused.append(other)
            else:
                route.fallback = "" if group == asked else group
                return answer
        raise first or RuntimeError("no group was asked")

    def _next(self, group: str, error: Exception) -> tuple[str, ...]:
        kinds: dict[FallbackKind, type[Exception]] = {
            "content_policy_fallbacks": self._errors.content_policy,
            "context_window_fallbacks": self._errors.context_window,
        }
        for kind, of in kinds.items():
            if isinstance(error, of):
                own = self._groups.fallbacks(group, kind)
                # A refusal is an answer; the same is not asked of another without being told to.
                if own is not None or kind == "content_policy_fallbacks":
                    return own or ()
        return self._groups.fallbacks(group) or ()

    async def _ask_group(self, group: str, request: dict[str, Any], route: Route) -> Any:
        members = self._groups.members(group)
        failed: Exception | None = None
        for target in _orders(members):
            left = [one for one in members if target is None or one.order == target]
            while left:
                try:
                    return await self._call(group, request, route, left=left, order=target)
                except self._errors.no_deployment as error:  # those that are left rest
                    failed = failed or error
                    break
                except Exception as error:  # as above
                    failed = error
                    if getattr(error, "status_code", None) in _NO_BETTER_ELSEWHERE:
                        raise
                    kept = [one for one in left if one.id != route.chosen]
                    left = kept if len(kept) < len(left) else []
        raise failed or RuntimeError(f"the group {group!r} has no deployment")

    async def _call(
        self,
        group: str,
        request: dict[str, Any],
        route: Route,
        *,
        left: list[Deployment],
        order: int | None,
    ) -> Any:
        kept = {one.id for one in left}
        metadata: dict[str, Any] = {}  # the Router writes there whom it has chosen
        call = {
            **request,
            "model": group,
            "metadata": metadata,
            "num_retries": 0,
            "disable_fallbacks": True,
            "_excluded_deployment_ids": [
                one.id for one in self._groups.members(group) if one.id not in kept
            ],
        }
        if order is not None:
            call["_target_order"] = order
        limit_s = self._limit_s(route.calls)
        route.calls += 1
        try:
            with anyio.fail_after(limit_s):
                return await self._complete(**call)
        except self._errors.no_deployment:
            route.calls -= 1  # nobody was called
            raise
        except TimeoutError:
            detail = f"no answer within {limit_s:g} s: check that the server is up and not busy"
            raise JudgeTransportError(Reason.TIMEOUT, detail) from None
        finally:
            route.chosen = _id_of(metadata)

    def _limit_s(self, made: int) -> float:
        """Share out the time, so that a server that hangs leaves some for those after it."""
        left_s = anyio.current_effective_deadline() - anyio.current_time()
        return min(self._timeout_s, left_s / max(1, self._most_calls - made))


def most_calls(groups: Groups, model: str, *, other_models: bool) -> int:
    """Return how many deployments one attempt may call.

    Args:
        groups: the file's groups.
        model: the group that is asked.
        other_models: whether a fallback may be another model than that of the group.
    """
    return sum(
        len(groups.members(name))
        for name in groups.reachable(model)
        if other_models or groups.models(name) <= groups.models(model)
    )


def _orders(members: tuple[Deployment, ...]) -> list[int] | list[None]:
    """Return the numbers that deployments are asked by; where there are none, all are alike."""
    return sorted({one.order for one in members if one.order is not None}) or [None]


def _id_of(metadata: dict[str, Any]) -> str:
    information: dict[str, Any] = metadata.get("model_info") or {}
    return str(information.get("id", ""))
