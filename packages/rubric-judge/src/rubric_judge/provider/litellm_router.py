"""litellm's Router made of a file, or the key of the file that it will not have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic import ValidationError

from rubric_core import ConfigError
from rubric_core.configuration import nearest_key, shown_name
from rubric_judge import events
from rubric_judge.provider.router_checks import wrong
from rubric_judge.provider.router_file import RouterFile
from rubric_judge.provider.router_groups import Groups
from rubric_judge.provider.settings import deployments_with_keys

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
    file, known = groups.file, inspect.signature(router).parameters
    for name in file.settings:
        if name not in known:
            close = nearest_key(name, known)
            remedy = f": did you mean {close!r}?" if close else ""
            raise wrong(
                file.path, shown_name(name), "litellm's router has no such setting" + remedy
            )
    deployments: list[dict[str, object]] = [
        {**entry, "model_info": {**cast("_Options", entry.get("model_info") or {}), "id": one.id}}
        for entry, one in zip(deployments_with_keys(file), groups.deployments, strict=True)
    ]
    try:
        made = router(model_list=deployments, num_retries=0, timeout=timeout_s, **file.settings)
    except Exception as error:  # noqa: BLE001  # its classes for a wrong file have no common base
        raise _refusal(router, file, deployments, error) from None
    if file.ignored:
        events.litellm_settings_ignored(path=str(file.path), keys=file.ignored)
    return made


def _refusal(
    router: _Make, file: RouterFile, deployments: list[dict[str, object]], error: Exception
) -> ConfigError:
    # What the Router says quotes the value, and no key: each part is tried alone to find the key.
    for number, entry in enumerate(deployments):
        if (alone := _raised(router, model_list=[entry])) is not None:
            return wrong(file.path, *_deployment(f"model_list.{number}", alone))
    for name, value in file.settings.items():
        if (alone := _raised(router, model_list=deployments, **{name: value})) is not None:
            part = _part(alone)
            what = f"litellm's router refuses it ({type(alone).__name__})"
            return wrong(file.path, f"{name}.{part}" if part else name, what)
    what = f"litellm's router refuses these together ({type(error).__name__})"
    return wrong(file.path, ", ".join(file.settings), what)


def _raised(router: _Make, **given: object) -> Exception | None:
    try:
        router(num_retries=0, **given)
    except Exception as error:  # noqa: BLE001  # as above
        return error
    return None


def _deployment(key: str, error: Exception) -> tuple[str, str]:
    # litellm's word for a model whose name says of no provider that it knows.
    if type(error).__name__ == "BadRequestError":
        what = "litellm knows no such provider: write PROVIDER/MODEL, such as openai/gpt-4.1-mini"
        return f"{key}.litellm_params.model", what
    part = _part(error)
    return f"{key}.{part}" if part else key, f"litellm refuses it ({type(error).__name__})"


def _part(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return ""
    location = error.errors(include_input=False, include_context=False, include_url=False)[0]["loc"]
    section = {"LiteLLM_Params": "litellm_params", "ModelInfo": "model_info"}.get(error.title)
    return ".".join(shown_name(part) for part in (*([section] if section else []), *location))
