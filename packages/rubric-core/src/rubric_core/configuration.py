"""From pydantic's account of a wrong configuration to one error that says what to write instead."""

from __future__ import annotations

import re
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
_LONGEST_NUMBER: Final = 12
_LONGEST_NAME: Final = 40
_UNSHOWN_NAME: Final = "…"
_NAME: Final = re.compile(r"[A-Za-z_*][\w./:-]*", re.ASCII)
_KEY_PREFIX: Final = re.compile(
    r"(?:^|[^a-z])(?:sk|pk|rk|hf|gh[opsu]|gsk|xai|xox[abp]|glpat|akia|aiza|bearer)(?:[-_]|\w{12})",
    re.IGNORECASE,
)
_KEY_RUN: Final = re.compile(r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{16,}")
_FEWEST_DIGITS: Final = 8


def nearest_key(key: str, known: Iterable[str]) -> str | None:
    """Return the known key that this one is most likely a misspelling of, if any is close."""
    return next(iter(get_close_matches(key, sorted(known), n=1)), None)


def may_be_key(text: str) -> bool:
    """Whether a text looks like an API key: its prefix, a long mixed run, or many digits."""
    digits = sum(character.isdigit() for character in text)
    return bool(_KEY_PREFIX.search(text) or _KEY_RUN.search(text)) or digits >= _FEWEST_DIGITS


def shown_name(name: object) -> str:
    """Return a name from a configuration for a message; `…` for what may be a key, or no name."""
    text = str(name)
    plain = isinstance(name, str) and len(text) <= _LONGEST_NAME and _NAME.fullmatch(text)
    short = isinstance(name, int) and len(text) <= _LONGEST_NUMBER
    return text if short or (plain and not may_be_key(text)) else _UNSHOWN_NAME


def config_error(error: ValidationError, *, model: type[BaseModel], source: str) -> ConfigError:
    """Turn a validation error of a configuration tree into one that names keys and remedies.

    Args:
        error: what `model` raised.
        model: the root of the tree, to know which keys would have been right.
        source: where the configuration came from, such as the file's path.

    Returns:
        To be raised by the caller. One line a problem: the dotted key, what is wrong, the value;
        for an unknown key the nearest right one. Under a model with `hide_input_in_errors` only
        numbers are repeated, and no name that may be a key.
    """
    problems = error.errors(include_url=False)
    lines = [f"{source}: {_line(model, problem)}" for problem in problems]
    return ConfigError("\n".join(lines), location=_dotted(problems[0]["loc"]))


def _line(model: type[BaseModel], problem: ErrorDetails) -> str:
    location = problem["loc"]
    where = f"{_dotted(location)}: " if location else ""
    models = _models_at(model, location[:-1])
    if problem["type"] == "extra_forbidden":
        known = {name for m in models for name in m.model_fields}
        close = nearest_key(str(location[-1]), known)
        remedy = f"did you mean {close!r}?" if close else f"known keys: {', '.join(sorted(known))}"
        unshown = "" if shown_name(location[-1]) != _UNSHOWN_NAME else " (unshown: maybe a secret)"
        return f"unknown key {_dotted(location)!r}{unshown}: {remedy}"
    if problem["type"] == "union_tag_invalid":
        context = problem.get("ctx", {})
        return f"{where}{str(context['discriminator'])[1:-1]}: use {context['expected_tags']}"
    wrong = problem["msg"].removeprefix("Value error, ")
    return where + wrong + _not(problem, hidden=_hides(model, location))


def _not(problem: ErrorDetails, *, hidden: bool) -> str:
    value = problem["input"]
    if problem["type"] in {"missing", UNSHOWN} or isinstance(value, dict):
        return ""
    shown = repr(value)
    if hidden:
        harmless = isinstance(value, int | float) and len(shown) <= _LONGEST_NUMBER
    else:
        harmless = len(shown) <= _LONGEST_VALUE
    return f", not {shown}" if harmless else ""


def _hides(model: type[BaseModel], location: tuple[int | str, ...]) -> bool:
    return any(
        level.model_config.get("hide_input_in_errors")
        for depth in range(len(location) + 1)
        for level in _models_at(model, location[:depth])
    )


def _dotted(location: tuple[int | str, ...]) -> str:
    # `[key]` and `tuple[str, ...]` are pydantic's, not the file's.
    return ".".join(shown_name(part) for part in location if "[" not in str(part))


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
