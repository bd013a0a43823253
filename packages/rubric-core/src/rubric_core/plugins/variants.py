"""Settings whose kinds installed packages can add: one key names the entry point of the kind.

A package adds, say, an advantage estimator with `[project.entry-points."rubric.advantages"]
NAME = "module:Class"`, where `Class` is an `AdvantageEstimator`. Ours are registered in the same
way.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, LiteralString, Self, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from rubric_core.configuration import UNKNOWN_KEY
from rubric_core.errors import PluginError
from rubric_core.plugins.entry_points import find_class, plugin_names

VariantT = TypeVar("VariantT", bound="Variant")


class Variant(BaseModel):
    """One kind of a setting: its own keys, and its computation.

    The docstring of a subclass begins with the formula and ends with a `Source:` line.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True
    )

    group: ClassVar[str]
    """Group of the entry points that name the kinds."""
    key: ClassVar[str] = "type"
    """Field whose default is the name of the entry point."""

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        name = getattr(self, self.key)
        own_name = type(self).model_fields[self.key].default
        if name != own_name:
            raise ValueError(
                f"{self.key}={name!r} is not {own_name!r}, which {type(self).__name__} is"
            )
        return self


def chosen(kind: type[Variant], *, default: str | None = None) -> BeforeValidator:
    """Validate a mapping as the installed kind that it names.

    Args:
        kind: the base class of every kind.
        default: the kind of a mapping that names none; None refuses such a mapping.

    Returns:
        For a field annotated with `SerializeAsAny[kind]`. An unknown name, or one whose package
        does not load, is an error at the key, which lists what is installed.
    """

    def choose(value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        mapping = cast("Mapping[str, Any]", value)
        settings = dict(mapping)
        name = settings.setdefault(kind.key, default)
        if not isinstance(name, str):
            known = ", ".join(plugin_names(kind.group)) or "none, as none is installed"
            raise _wrong(kind, kind.key, "missing", f"name one of {known}", mapping)
        try:
            variant = find_variant(kind, name)
        except PluginError as error:
            message = str(error)
            raise _wrong(kind, kind.key, "unknown_variant", message, mapping) from None
        if variant.model_config.get("extra") == "forbid":
            known = ", ".join(sorted(variant.model_fields))
            for key in settings.keys() - variant.model_fields.keys():
                raise _wrong(variant, str(key), UNKNOWN_KEY, known, settings[key])
        return variant.model_validate(settings)

    return BeforeValidator(choose)


def find_variant(kind: type[VariantT], name: str) -> type[VariantT]:
    """Return the installed kind of this name.

    Raises:
        PluginError: none or several have it, its module does not load, it is no such kind, or its
            own `key` field has another name.
    """
    variant = find_class(name, group=kind.group, kind=kind)
    own_name = variant.model_fields[kind.key].default
    if own_name != name:
        raise PluginError(
            f"{name!r} in {kind.group!r} is {variant.__name__}, whose {kind.key!r} is "
            f'{own_name!r}: give it `{kind.key}: str = "{name}"`'
        )
    missing = sorted(getattr(variant, "__abstractmethods__", ()))
    if missing:
        raise PluginError(
            f"{name!r} in {kind.group!r} does not define {', '.join(missing)}"
        )
    return variant


def _wrong(
    kind: type[Variant], key: str, problem: LiteralString, message: str, value: object
) -> ValidationError:
    # The message is data: a brace in it must not be read as a field of the template.
    error: InitErrorDetails = {
        "type": PydanticCustomError(problem, "{said}", {"said": message}),
        "loc": (key,),
        "input": value,
    }
    return ValidationError.from_exception_data(kind.__name__, [error])
