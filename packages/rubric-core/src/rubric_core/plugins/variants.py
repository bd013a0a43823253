"""Settings that installed packages add kinds of: a key names the entry point, the rest is its own.

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
    """One kind of a setting: its own keys, and what it computes with them.

    The docstring of a subclass begins with the formula and ends with a `Source:` line.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True
    )

    group: ClassVar[str]
    """Entry points that name the kinds."""
    key: ClassVar[str] = "type"
    """Field whose default is the name of the entry point."""

    @model_validator(mode="after")
    def _is_the_kind_named(self) -> Self:
        if (given := getattr(self, self.key)) != (
            own := type(self).model_fields[self.key].default
        ):
            raise ValueError(
                f"{self.key}={given!r} is not {own!r}, which {type(self).__name__} is"
            )
        return self


def chosen(kind: type[Variant], *, default: str | None = None) -> BeforeValidator:
    """Validate a mapping as the installed kind that it names.

    Args:
        kind: what every kind is a subclass of.
        default: the kind of a mapping that names none; None refuses it.

    Returns:
        For a field annotated with `SerializeAsAny[kind]`. An unknown name, or one whose package
        does not load, is an error at the key, which lists what is installed.
    """

    def choose(value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        given = cast("Mapping[str, Any]", value)
        settings = dict(given)
        name = settings.setdefault(kind.key, default)
        if not isinstance(name, str):
            known = ", ".join(plugin_names(kind.group)) or "none, as none is installed"
            raise _wrong(kind, kind.key, "missing", f"name one of {known}", given)
        try:
            found = find_variant(kind, name)
        except PluginError as error:
            raise _wrong(kind, kind.key, "unknown_variant", str(error), given) from None
        known = sorted(found.model_fields)
        if found.model_config.get("extra") == "forbid":
            for key in settings.keys() - set(known):
                raise _wrong(
                    found, str(key), UNKNOWN_KEY, ", ".join(known), settings[key]
                )
        return found.model_validate(settings)

    return BeforeValidator(choose)


def find_variant(kind: type[VariantT], name: str) -> type[VariantT]:
    """Return the installed kind of this name.

    Raises:
        PluginError: none or several have it, its module does not load, it is another thing, or
            its own `key` field does not say this name.
    """
    found = find_class(name, group=kind.group, kind=kind)
    if (says := found.model_fields[kind.key].default) != name:
        raise PluginError(
            f"{name!r} in {kind.group!r} is {found.__name__}, whose {kind.key!r} is {says!r}: give "
            f'it `{kind.key}: str = "{name}"`'
        )
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        raise PluginError(
            f"{name!r} in {kind.group!r} does not define {', '.join(missing)}"
        )
    return found


def _wrong(
    kind: type[Variant], key: str, problem: LiteralString, message: str, value: object
) -> ValidationError:
    # The message is data: a brace of it must not be read as a field of the template.
    error: InitErrorDetails = {
        "type": PydanticCustomError(problem, "{said}", {"said": message}),
        "loc": (key,),
        "input": value,
    }
    return ValidationError.from_exception_data(kind.__name__, [error])
