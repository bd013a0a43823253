"""From pydantic's account of a wrong configuration to one error that says what to write instead."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, get_args

from pydantic import BaseModel

from rubric_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

UNSHOWN: Final = "unshown_value"
"""Type of a `PydanticCustomError` about a value that may be a key, and is never repeated."""
_LONGEST_VALUE: Final = 80


def nearest_key(key: str, known: Iterable[str]) -> str | None:
    """Return the known key that this one is most likely a misspelling of, if any is close."""
    return next(iter(get_close_matches(key, sorted(known), n=1)), None)


def config_error(error: ValidationError, *, model: type[BaseModel], source: str) -> ConfigError:
    """Turn a validation error of a configuration tree into one that names keys and remedies.

    Args:
        error: what `model` raised.
        model: the root of the tree, to know which keys would have been right.
        source: where the configuration came from, such as the file's path.

    Returns:
        To be raised by the caller. One line a problem: the dotted key, what is wrong, the value;
        for an unknown key the nearest right one.
    """
    hidden = bool(model.model_config.get("hide_input_in_errors"))
    problems = error.errors(include_url=False, include_context=False)
    lines = [f"{source}: {_line(model, p, hidden=hidden)}" for p in problems]
    return ConfigError("\n".join(lines), location=_dotted(problems[0]["loc"]))


def _line(model: type[BaseModel], problem: ErrorDetails, *, hidden: bool) -> str:
    location = problem["loc"]
    if problem["type"] == "extra_forbidden":
        known = {name for m in _models_at(model, location[:-1]) for name in m.model_fields}
        close = nearest_key(str(location[-1]), known)
        remedy = f"did you mean {close!r}?" if close else f"known keys: {', '.join(sorted(known))}"
        return f"unknown key {_dotted(location)!r}: {remedy}"
    value = repr(problem["input"])
    hidden = hidden or problem["type"] in {"missing", UNSHOWN}
    shown = "" if hidden or len(value) > _LONGEST_VALUE else value
    wrong = problem["msg"].removeprefix("Value error, ")
    where = f"{_dotted(location)}: " if location else ""
    return where + wrong + (shown and f", not {shown}")


def _dotted(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location)


def _models_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[type[BaseModel]]:
    """Follow a location down the tree; indices and union tags are no level of their own."""
    models = [model]
    for part in location:
        # A tag may be a field's name too, but it is always what follows a choice of models.
        if len(models) > 1 and (tagged := [m for m in models if _tagged(m, part)]):
            models = tagged
            continue
        fields = [m.model_fields[part] for m in models if part in m.model_fields]
        models = [m for field in fields for m in _models_in(field.annotation)] or models
    return models


def _tagged(model: type[BaseModel], tag: int | str) -> bool:
    return any(tag in get_args(field.annotation) for field in model.model_fields.values())


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
