"""Calls through litellm's Router: every deployment of a group before any group it falls back on.

The Router chooses among the deployments of a group and knows which of them rest; those that it has
not chosen are then asked by their ids. Left to itself it goes to a fallback at the first failure,
and does not say which group the fallback stood in for.
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
from rubric_judge.provider.chat import ChatReply, answerer
from rubric_judge.provider.litellm_replies import no_deployment
from rubric_judge.provider.model_config import ModelConfig
from rubric_judge.provider.router_checks import remedy, wrong
from rubric_judge.provider.router_file import Groups, RouterFile
from rubric_judge.provider.settings import deployments_with_keys

_NO_BETTER_ELSEWHERE = frozenset({400, 413, 422})
"""Statuses for the request itself, which another deployment of the same model refuses as well."""


@dataclass
class RoutedCall:
    """One call, with who was asked and who answered."""

    litellm: Any
    router: Any
    groups: Groups
    config: ModelConfig
    calls: int = 0
    chosen: str = ""
    """The `id` of the deployment that was called last, which is the one that answered."""
    fallback: str = ""
    """The group that answered, where it is not the one that was asked."""
    refused: list[str] = field(default_factory=list[str])
    """Fallbacks that were not asked, because they are other models."""

    async def complete(self, **request: Any) -> Any:
        """Ask the group, and then what it falls back on: instead of the Router's `acompletion`.

        Raises:
            Exception: what the last deployment of the group that was asked raised.
        """
        asked = self.config.model
        seen = {asked}
        waiting = deque([asked])
        first: Exception | None = None
        while waiting:
            group = waiting.popleft()
            try:
                answer = await self._ask_group(group, request)
            except Exception as error:  # noqa: BLE001  # litellm's errors have no common base
                first = first or error
                others = [one for one in self._next(group, error) if one not in seen]
                seen.update(others)
                waiting.extend(self._allowed(others))
            else:
                self.fallback = "" if group == asked else group
                return answer
        raise first or RuntimeError("no group was asked")

    def answered(self, answer: ChatReply) -> ChatReply:
        """Return the answer with the deployment that gave it, and all calls that it took."""
        by = next(
            (
                deployment
                for deployment in self.groups.deployments
                if deployment.id == self.chosen
            ),
            None,
        )
        said = answer.answered_by.model if answer.answered_by else ""
        who = answerer(
            said or (by.model if by else ""),
            deployment=by.name if by else "",
            fallback=self.fallback,
        )
        return replace(answer, answered_by=who, attempts=max(1, self.calls))

    def told(self, error: JudgeTransportError) -> JudgeTransportError:
        """Put into an error how many calls it took, and who was not asked."""
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
            # A refusal is an answer; the same is not asked of another without being told to.
            return fallbacks(group, "content_policy_fallbacks") or ()
        own = None
        if isinstance(error, self.litellm.ContextWindowExceededError):
            own = fallbacks(group, "context_window_fallbacks")
        return (fallbacks(group) if own is None else own) or ()

    async def _ask_group(self, group: str, request: dict[str, Any]) -> Any:
        left = [member.id for member in self.groups.members(group)]
        target = group
        while True:
            try:
                return await self._call(target, request)
            except Exception as error:
                if no_deployment(error, self.litellm):
                    self.calls -= 1  # nobody was called
                    raise
                if self.chosen in left:
                    left.remove(self.chosen)
                if (
                    not left
                    or getattr(error, "status_code", None) in _NO_BETTER_ELSEWHERE
                ):
                    raise
            target = left.pop(0)

    async def _call(self, target: str, request: dict[str, Any]) -> Any:
        """Call a group, of which the Router chooses a deployment, or one by its id."""
        # Shared out, so that a server that hangs leaves some time for those after it.
        other_models = self.config.allow_fallback_models
        most_calls = self.groups.most_calls(
            self.config.model, other_models=other_models
        )
        left_s = anyio.current_effective_deadline() - anyio.current_time()
        limit_s = min(self.config.timeout_s, left_s / max(1, most_calls - self.calls))
        metadata: dict[str, Any] = {}  # the Router writes there whom it has chosen
        own = {
            "model": target,
            "metadata": metadata,
            "num_retries": 0,
            "disable_fallbacks": True,
        }
        self.calls += 1
        try:
            with anyio.fail_after(limit_s):
                return await self.router.acompletion(**{**request, **own})
        except TimeoutError:
            detail = f"no answer within {limit_s:g} s: check that the server is up and not busy"
            raise JudgeTransportError(Reason.TIMEOUT, detail) from None
        finally:
            chosen: dict[str, object] = metadata.get("model_info") or {}
            self.chosen = str(chosen.get("id", ""))


_Make = Callable[..., Any]
_Options = Mapping[str, object]


def make_router(router: _Make, groups: Groups, *, timeout_s: float) -> Any:
    """Make a Router that tries nothing again by itself.

    Args:
        router: litellm's class.
        groups: of the file, with what its deployments are known by.
        timeout_s: longest time for one attempt.

    Returns:
        The Router; nothing is sent.

    Raises:
        ConfigError: the Router has no such setting, or refuses a value; names file and key.
        JudgeSetupError: a variable that is named for a key is not set.
    """
    file = groups.file
    known = inspect.signature(router).parameters
    for name in file.settings:
        if name not in known:
            what = "litellm's router has no such setting"
            meant = remedy(name, known, otherwise="")
            raise wrong(
                file.path, file.keys[name], f"{what}: {meant}" if meant else what
            )
    deployments: list[dict[str, object]] = [
        {
            **entry,
            "model_info": {
                **cast("_Options", entry.get("model_info") or {}),
                "id": deployment.id,
            },
        }
        for entry, deployment in zip(
            deployments_with_keys(file), groups.deployments, strict=True
        )
    ]
    try:
        made = router(
            model_list=deployments, num_retries=0, timeout=timeout_s, **file.settings
        )
    except Exception as error:  # noqa: BLE001  # its classes for a wrong file have no common base
        raise _refusal(router, file, deployments, error) from None
    if file.ignored:
        events.litellm_settings_ignored(path=str(file.path), keys=file.ignored)
    return made


def _refusal(
    router: _Make,
    file: RouterFile,
    deployments: list[dict[str, object]],
    error: Exception,
) -> ConfigError:
    # What the Router says quotes the value, and no key: each part is tried alone to find the key.
    for number, entry in enumerate(deployments):
        if (alone := _raised(router, model_list=[entry])) is not None:
            key = f"model_list.{number}"
            part = _part(alone)
            what = f"litellm refuses it ({type(alone).__name__})"
            # litellm's word for a model whose name says of no provider that it knows.
            if type(alone).__name__ == "BadRequestError":
                part = ".litellm_params.model"
                what = (
                    "litellm knows no such provider: write PROVIDER/MODEL, such as "
                    "openai/gpt-4.1-mini"
                )
            return wrong(file.path, key + part, what)
    for name, value in file.settings.items():
        if (
            alone := _raised(router, model_list=deployments, **{name: value})
        ) is not None:
            what = f"litellm's router refuses it ({type(alone).__name__})"
            return wrong(file.path, file.keys[name] + _part(alone), what)
    what = f"litellm's router refuses these together ({type(error).__name__})"
    return wrong(file.path, ", ".join(file.settings), what)


def _raised(router: _Make, **given: object) -> Exception | None:
    try:
        router(num_retries=0, **given)
    except Exception as error:  # noqa: BLE001  # its classes have no common base
        return error
    return None


def _part(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return ""
    location = error.errors(
        include_input=False, include_context=False, include_url=False
    )[0]["loc"]
    section = {"LiteLLM_Params": "litellm_params", "ModelInfo": "model_info"}.get(
        error.title
    )
    return "".join(
        f".{shown_name(part)}" for part in (section, *location) if part is not None
    )
