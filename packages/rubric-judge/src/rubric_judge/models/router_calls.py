"""Calls of a litellm file's deployments: all of a group before any group it falls back on.

One of two chooses among the deployments of a group and leaves those alone that fail: `Replicas`, as
among servers everywhere else; or litellm's Router, where the file says how it is to choose. Neither
goes to a fallback: the Router would at the first failure, and while another deployment of the group
is up (`docs/decisions/0022-one-answer-to-several-servers.md` has the counts). The Router carries
every call out, for it knows the deployments' providers, keys and prices.
"""

import inspect
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import anyio
from pydantic import ValidationError

from rubric_core import ConfigError, Reason
from rubric_core.configuration import shown_name
from rubric_judge import events
from rubric_judge.errors import JudgeTransportError
from rubric_judge.models.chat import ChatReply, answerer
from rubric_judge.models.litellm_replies import no_deployment
from rubric_judge.models.model_config import ModelConfig
from rubric_judge.models.replicas import Replica, Replicas, Rests
from rubric_judge.models.router_checks import remedy, wrong
from rubric_judge.models.router_file import Deployment, Groups, RouterFile
from rubric_judge.models.settings import deployments_with_keys

_NO_BETTER_ELSEWHERE = frozenset({400, 413, 422})
"""Statuses about the request itself; another deployment of the same model would refuse it too."""


_Deployments = Replicas[Deployment]


class NobodyUpError(Exception):
    """All deployments of a group are at rest."""


class Deployments:
    """The deployments of a file as replicas, with their health over all calls."""

    def __init__(self, groups: Groups) -> None:
        """Start with all deployments up; where litellm chooses, there are none here."""
        self.are_ours = groups.file.is_ours
        self._rests = groups.file.rests
        self._groups = groups
        self._by_group: dict[str, list[_Deployments]] = {}

    def of(self, group: str) -> list[_Deployments]:
        """Return the deployments of a group, in their order; those of one rank are replicas."""
        members = self._groups.members(group)
        name = members[0].group
        if name not in self._by_group:
            ranks: dict[int, list[Deployment]] = {}
            for member in members:
                ranks.setdefault(member.order, []).append(member)
            # A lone deployment never rests: its group would be the fallback's.
            rests = self._rests if len(members) > 1 else Rests(first_s=0.0)
            self._by_group[name] = [
                Replicas(
                    rank,
                    names=[f"{member.name} {member.route}" for member in rank],
                    rests=rests,
                )
                for rank in ranks.values()
            ]
        return self._by_group[name]


@dataclass
class RoutedCall:
    """One call through the Router, with a record of who was asked and who answered."""

    litellm: Any
    router: Any
    groups: Groups
    config: ModelConfig
    deployments: Deployments
    affinity: str = ""
    """As in `ChatRequest`."""
    calls: int = 0
    chosen: str = ""
    """`id` of the deployment that was called last; it is the one that answered."""
    fallback: str = ""
    """The group that answered, if it is not the requested one."""
    refused: list[str] = field(default_factory=list[str])
    """Fallbacks that were not asked because they are other models."""
    at_rest: list[tuple[str, _Deployments, Replica[Deployment]]] = field(
        default_factory=list[tuple[str, _Deployments, Replica[Deployment]]]
    )
    """Deployments that were left alone because they failed lately, and their groups."""

    async def complete(self, **request: Any) -> Any:
        """Ask the group, then its fallbacks; replaces the Router's `acompletion`.

        Raises:
            Exception: the error of the last deployment of the requested group.
        """
        requested_group = self.config.model
        seen = {requested_group}
        waiting = deque([requested_group])
        first: Exception | None = None
        while waiting:
            group = waiting.popleft()
            try:
                answer = await self._ask_group(group, request)
            except Exception as error:  # noqa: BLE001  # litellm's errors have no common base
                if not isinstance(error, NobodyUpError):
                    first = first or error
                fallbacks = self._next(group, error)
                others = [name for name in fallbacks if name not in seen]
                seen.update(others)
                waiting.extend(self._allowed(others))
            else:
                self.fallback = "" if group == requested_group else group
                return answer
        return await self._ask_those_at_rest(request, first)

    def answered(self, answer: ChatReply) -> ChatReply:
        """Return the answer with the deployment that gave it, and all calls that it took."""
        deployment = None
        for candidate in self.groups.deployments:
            if candidate.id == self.chosen:
                deployment = candidate
                break
        model = answer.answered_by.model if answer.answered_by else ""
        if not model and deployment is not None:
            model = deployment.model
        who = answerer(
            model,
            deployment="" if deployment is None else deployment.name,
            fallback=self.fallback,
        )
        return replace(
            answer,
            answered_by=who,
            attempts=max(1, self.calls),
        )

    def with_calls(self, error: JudgeTransportError) -> JudgeTransportError:
        """Add to an error how many calls were made, and which groups were not asked."""
        error.attempts = max(1, self.calls)
        if self.refused:
            names = ", ".join(map(repr, self.refused))
            error.detail += (
                f"; not asked, for it is another model: {names} (allow_fallback_models)"
            )
        return error

    def _allowed(self, groups: list[str]) -> Iterator[str]:
        allowed = self.groups.models(self.config.model)
        for group in groups:
            if (
                self.config.allow_fallback_models
                or self.groups.models(group) <= allowed
            ):
                yield group
            else:
                self.refused.append(group)

    def _next(self, group: str, error: Exception) -> tuple[str, ...]:
        fallbacks = self.groups.fallbacks
        if isinstance(error, self.litellm.ContentPolicyViolationError):
            # A refusal is an answer; another group is asked the same only where the file says so.
            return fallbacks(group, "content_policy_fallbacks") or ()
        groups = None
        if isinstance(error, self.litellm.ContextWindowExceededError):
            groups = fallbacks(group, "context_window_fallbacks")
        if groups is None:
            groups = fallbacks(group)
        return groups or ()

    async def _ask_group(self, group: str, request: dict[str, Any]) -> Any:
        """Ask the deployments of a group, each once, until one answers.

        Raises:
            NobodyUpError: all of them are at rest.
            Exception: the error of the last one that was asked.
        """
        if not self.deployments.are_ours:
            return await self._ask_as_litellm_chooses(group, request)
        last: Exception = NobodyUpError()
        for replicas in self.deployments.of(group):
            tried: list[Replica[Deployment]] = []
            replica = replicas.pick(self.affinity) if replicas.is_open else None
            while replica is not None and replica not in tried:
                tried.append(replica)
                try:
                    return await self._ask_replica(replicas, replica, request)
                except Exception as error:
                    if _is_about_the_request(error, self.litellm):
                        raise
                    last = error
                replica = replicas.pick(self.affinity, avoid=tried)
            self.at_rest += [
                (group, replicas, other) for other in replicas.all if other not in tried
            ]
        raise last

    async def _ask_those_at_rest(
        self, request: dict[str, Any], first: Exception | None
    ) -> Any:
        """Ask what was left alone, now that nobody else has answered.

        Raises:
            Exception: the first error of the call.
        """
        for group, replicas, replica in self.at_rest:
            try:
                answer = await self._ask_replica(replicas, replica, request)
            except Exception as error:  # noqa: BLE001  # litellm's errors have no common base
                first = first or error
            else:
                self.fallback = "" if group == self.config.model else group
                return answer
        raise first or RuntimeError("no group was asked")

    async def _ask_replica(
        self,
        replicas: _Deployments,
        replica: Replica[Deployment],
        request: dict[str, Any],
    ) -> Any:
        mark = object()
        ok: bool | None = None
        started_s = anyio.current_time()
        replica.begin(mark)
        try:
            answer = await self._call(replica.target.id, request)
            ok = True
        except Exception as error:
            # A caller's deadline may have left less time than a good server needs.
            taken_s = anyio.current_time() - started_s
            was_hurried = (
                isinstance(error, JudgeTransportError)
                and taken_s < self.config.timeout_s
            )
            if not was_hurried and not _is_about_the_request(error, self.litellm):
                ok = False
            raise
        else:
            return answer
        finally:
            replica.in_flight.discard(mark)
            replicas.report(replica, ok, anyio.current_time() - started_s)

    async def _ask_as_litellm_chooses(self, group: str, request: dict[str, Any]) -> Any:
        left = [member.id for member in self.groups.members(group)]
        target = group
        while True:
            try:
                return await self._call(target, request)
            except Exception as error:
                if no_deployment(error, self.litellm):
                    self.calls -= 1  # no deployment was called
                    raise
                if self.chosen in left:
                    left.remove(self.chosen)
                status = getattr(error, "status_code", None)
                if not left or status in _NO_BETTER_ELSEWHERE:
                    raise
            target = left.pop(0)

    async def _call(self, target: str, request: dict[str, Any]) -> Any:
        """Call one deployment by its id, or a group, of which the Router chooses a deployment."""
        # The time is shared out, so that a server that hangs leaves some for those after it.
        other_models = self.config.allow_fallback_models
        most_calls = self.groups.most_calls(
            self.config.model, other_models=other_models
        )
        left_s = anyio.current_effective_deadline() - anyio.current_time()
        limit_s = min(self.config.timeout_s, left_s / max(1, most_calls - self.calls))
        # The Router writes into it which deployment it chose.
        metadata: dict[str, Any] = {}
        self.calls += 1
        try:
            with anyio.fail_after(limit_s):
                return await self.router.acompletion(
                    **{
                        **request,
                        "model": target,
                        "metadata": metadata,
                        "num_retries": 0,
                        "disable_fallbacks": True,
                    }
                )
        except TimeoutError:
            raise JudgeTransportError(
                Reason.TIMEOUT,
                f"no answer within {limit_s:g} s: check that the server is up and not busy",
            ) from None
        finally:
            model_info: dict[str, object] = metadata.get("model_info") or {}
            self.chosen = str(model_info.get("id", ""))


def _is_about_the_request(error: Exception, litellm: Any) -> bool:
    """Return whether any other deployment of the same model would end in the same error."""
    answered = (
        litellm.ContentPolicyViolationError,
        litellm.ContextWindowExceededError,
    )
    status = getattr(error, "status_code", None)
    return isinstance(error, answered) or status in _NO_BETTER_ELSEWHERE


_Make = Callable[..., Any]
_Options = Mapping[str, object]


def make_router(router: _Make, groups: Groups, *, timeout_s: float) -> Any:
    """Make a Router that repeats no call by itself.

    Args:
        router: litellm's `Router` class.
        groups: groups of the file, with the ids of their deployments.
        timeout_s: longest time for one attempt.

    Returns:
        The Router; no request is sent.

    Raises:
        ConfigError: the Router has no such setting, or refuses a value; names file and key.
        JudgeSetupError: the environment variable named for a key is not set.
    """
    file = groups.file
    known = inspect.signature(router).parameters
    for name in file.settings:
        if name not in known:
            what = "litellm's router has no such setting"
            suggestion = remedy(name, known, otherwise="")
            message = f"{what}: {suggestion}" if suggestion else what
            raise wrong(file.path, file.keys[name], message)
    deployments: list[dict[str, object]] = []
    entries = deployments_with_keys(file)
    for entry, deployment in zip(entries, groups.deployments, strict=True):
        model_info = cast("_Options", entry.get("model_info") or {})
        deployments.append({**entry, "model_info": {**model_info, "id": deployment.id}})
    settings = dict(file.settings)
    if file.is_ours:  # and so is the rest of a deployment that fails
        settings["disable_cooldowns"] = True
    try:
        instance = router(
            model_list=deployments, num_retries=0, timeout=timeout_s, **settings
        )
    except Exception as error:  # noqa: BLE001  # its classes for a wrong file have no common base
        raise _refusal(router, file, deployments, error) from None
    if file.ignored:
        events.litellm_settings_ignored(path=str(file.path), keys=file.ignored)
    return instance


def _refusal(
    router: _Make,
    file: RouterFile,
    deployments: list[dict[str, object]],
    error: Exception,
) -> ConfigError:
    # The Router's error quotes the value but no key: each part is tried alone to find the key.
    for number, entry in enumerate(deployments):
        error_alone = _raised(router, model_list=[entry])
        if error_alone is not None:
            key = f"model_list.{number}"
            part = _part(error_alone)
            what = f"litellm refuses it ({type(error_alone).__name__})"
            # litellm raises this for a model whose name has no provider that it knows.
            if type(error_alone).__name__ == "BadRequestError":
                part = ".litellm_params.model"
                what = (
                    "litellm knows no such provider: write PROVIDER/MODEL, such as "
                    "openai/gpt-4.1-mini"
                )
            return wrong(file.path, key + part, what)
    for name, value in file.settings.items():
        error_alone = _raised(router, model_list=deployments, **{name: value})
        if error_alone is not None:
            what = f"litellm's router refuses it ({type(error_alone).__name__})"
            return wrong(file.path, file.keys[name] + _part(error_alone), what)
    what = f"litellm's router refuses these together ({type(error).__name__})"
    return wrong(file.path, ", ".join(file.settings), what)


def _raised(router: _Make, **options: object) -> Exception | None:
    try:
        router(num_retries=0, **options)
    except Exception as error:  # noqa: BLE001  # its classes have no common base
        return error
    return None


def _part(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return ""
    details = error.errors(
        include_input=False, include_context=False, include_url=False
    )
    sections = {"LiteLLM_Params": "litellm_params", "ModelInfo": "model_info"}
    places = (sections.get(error.title), *details[0]["loc"])
    return "".join(f".{shown_name(place)}" for place in places if place is not None)
