"""Checks of a litellm file's parts, so that litellm is not the first to find a mistake.

litellm's own errors quote the value, which may be a key; these errors name only the file's key.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    create_model,
    field_validator,
)
from pydantic_core import PydanticKnownError

from rubric_core import ConfigError
from rubric_core.configuration import nearest_key, shown_name
from rubric_core.files import toml_beside
from rubric_judge.ui.yaml_files import yaml_place

_KEY_PREFIX = "os.environ/"
SECRET = re.compile(
    r"^(?!.*_cost_per_).*"
    r"(?:(?<!cache_)key|key_id|token|secret|password|credentials|authorization)$",
    re.IGNORECASE,
)
"""Names of parameters that hold a secret; `input_cost_per_token` is a price, `prompt_cache_key` a
name of a group of requests."""
_TABLE = toml_beside(__file__, "router.toml")
PARAMETERS: dict[str, list[str]] = _TABLE["parameters"]
SETTINGS: dict[str, list[str]] = _TABLE["settings"]
_Options = Mapping[str, object]


def named_variable(value: object) -> str | None:
    """Return the environment variable that a value names in the form `os.environ/NAME`."""
    if not isinstance(value, str) or not value.startswith(_KEY_PREFIX):
        return None
    return value.removeprefix(_KEY_PREFIX)


def wrong(path: Path, key: str, what: str) -> ConfigError:
    """Return the error about one key of a file.

    Args:
        path: the file.
        key: the key's dotted path.
        what: what the value needs to be; never the value itself.
    """
    return ConfigError(
        f"{yaml_place(path, tuple(key.split('.')))}: {key}: {what}", location=key
    )


def remedy(name: object, known: Iterable[str], *, otherwise: str) -> str:
    """Return a suggestion of the name that was probably meant, or `otherwise` if none is near."""
    close = nearest_key(name, known) if isinstance(name, str) else None
    return f"did you mean {shown_name(close)!r}?" if close else otherwise


def _no_switch(value: object) -> object:
    if isinstance(value, bool):  # pydantic would read a number from it
        raise PydanticKnownError("float_type")
    return value


class _Part(BaseModel):
    """A part of the file; fields that it does not name are left to litellm."""

    model_config = ConfigDict(
        extra="allow", allow_inf_nan=False, hide_input_in_errors=True
    )


_Name = Annotated[str, Field(strict=True, min_length=1)]
_KINDS: dict[str, Any] = {
    "text": _Name,
    "number": Annotated[float, BeforeValidator(_no_switch), Field(ge=0)],
    "mapping": dict[str, Any],
    "list": list[Any],
    "switch": Annotated[bool, Field(strict=True)],
    "strategy": cast("Any", Literal)[tuple(SETTINGS["strategies"])],
}


def _checked(base: type[_Part], table: Mapping[str, list[str]]) -> type[_Part]:
    """Return a model with a field for each name of a table, of that name's kind."""
    fields: dict[str, Any] = {
        name: (kind | None, None)
        for key, kind in _KINDS.items()
        for name in table.get(key, ())
    }
    return create_model("_Checked", __base__=base, **fields)


class _Unread(_Part):
    """A part in which a value may be the name of a variable whose value is not known yet."""

    @field_validator("*", mode="wrap")
    @classmethod
    def _unless_named(cls, value: object, check: Callable[[object], object]) -> object:
        return value if named_variable(value) is not None else check(value)


class _Parameters(_checked(_Unread, PARAMETERS)):
    """Parameters of a deployment."""


class _Call(_Parameters):
    model: _Name = Field(examples=["openai/gpt-4.1-mini"])


class _Deployment(_Parameters):
    model_name: _Name = Field(examples=["judge"])
    litellm_params: _Call = Field(examples=["{model: openai/gpt-4.1-mini}"])
    model_info: dict[str, Any] | None = None


class _Settings(_checked(_Part, SETTINGS)):
    default_litellm_params: _Parameters | None = None


class File(_Part, extra="forbid"):
    """The whole file, for the checks only: litellm gets the values as they were written."""

    model_list: list[_Deployment] = Field(
        min_length=1,
        examples=["[{model_name: judge, litellm_params: {model: openai/m}}]"],
    )
    router_settings: _Settings | None = None
    litellm_settings: _Settings | None = None
    general_settings: object = None


def check_secrets(path: Path, parameters: _Options, *, key: str) -> None:
    """Check the values that may be secrets or name environment variables.

    Args:
        path: the file.
        parameters: values by name.
        key: dotted path of the parameters, such as `model_list.0.litellm_params`.

    Raises:
        ConfigError: a secret is not text, or a value names an invalid variable.
    """
    for name, value in parameters.items():
        place = f"{key}.{shown_name(name)}"
        variable = named_variable(value)
        if variable is not None:
            if not variable.isidentifier() or shown_name(variable) != variable:
                raise wrong(
                    path,
                    place,
                    "needs the name of an environment variable after os.environ/, and no key",
                )
        elif value is not None and SECRET.search(name):
            # Credentials of a cloud may be written out as a mapping.
            is_cloud = name.endswith("credentials") and isinstance(value, dict)
            if not (is_cloud or (isinstance(value, str) and value)):
                raise wrong(path, place, "needs a text, such as os.environ/NAME")
