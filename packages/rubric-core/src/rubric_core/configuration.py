"""From pydantic's account of a wrong configuration to one error that says what to write instead."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rubric_core.errors import ConfigError, RepeatedKeyError, SchemaError
from rubric_core.files import broken, decode, read_file

_Model = TypeVar("_Model", bound=BaseModel)

UNSHOWN: Final = "unshown_value"
"""Type of a `PydanticCustomError` about a value that may be a key, and is never repeated."""
UNKNOWN_KEY: Final = "unknown_key"
"""Type of a `PydanticCustomError` about an unknown key; its `said` lists the known ones."""
_LONGEST_VALUE: Final = 80
_LONGEST_NUMBER: Final = 12
_LONG_NUMBER: Final = 10**_LONGEST_NUMBER
_LONGEST_NAME: Final = 40
_UNSHOWN_NAME: Final = "…"
_WITHHELD: Final = " (unshown: maybe a secret)"
_QUOTED: Final = re.compile(r"""(['"`])(.*?)\1""")
_NAME: Final = re.compile(r"[A-Za-z_*][\w./:-]*", re.ASCII)
_KEY_PREFIX: Final = re.compile(
    r"(?:^|[^a-z])(?:sk|pk|rk|hf|gh[opsu]|gsk|xai|xox[abp]|glpat|akia|aiza|bearer)(?:[-_]|\w{12})",
    re.IGNORECASE,
)
_RUN: Final = re.compile(r"[A-Za-z0-9]{16,}")
_DIGIT: Final = re.compile(r"[0-9]")
_FEWEST_DIGITS: Final = 8


def nearest_key(key: str, known: Iterable[str]) -> str | None:
    """Return the known key that this one is most likely a misspelling of, if any is close."""
    return next(iter(get_close_matches(key, sorted(known), n=1)), None)


def may_be_key(text: str) -> bool:
    """Whether a text looks like an API key: its prefix, a long mixed run, or many digits."""
    digits = sum(map(str.isdigit, text))
    has_run = any(_DIGIT.search(run) for run in _RUN.findall(text))
    return bool(_KEY_PREFIX.search(text)) or has_run or digits >= _FEWEST_DIGITS


def shown_name(name: object) -> str:
    """Return a name from a configuration for a message; `…` for what may be a key, or no name."""
    text = str(name)
    plain = isinstance(name, str) and len(text) <= _LONGEST_NAME and _NAME.fullmatch(text)
    short = isinstance(name, int) and len(text) <= _LONGEST_NUMBER
    return text if short or (plain and not may_be_key(text)) else _UNSHOWN_NAME


def validated(
    model: type[_Model], values: object, *, source: str, folder: Path | None = None
) -> _Model:
    """Return the values of a configuration as its model.

    Args:
        model: the root of the tree.
        values: a mapping.
        source: where they come from, as for `config_error`.
        folder: where relative paths start; left out, the working directory.

    Raises:
        ConfigError: a key or a value is wrong; as `config_error` says it.
    """
    try:
        return model.model_validate(values, context={"folder": folder} if folder else None)
    except ValidationError as error:
        raise config_error(error, model=model, source=source) from None


def read_written(path: Path, model: type[_Model], *, what: str) -> _Model:
    """Read a JSON file as a command of ours wrote it: no type is converted, no key stands twice.

    Args:
        path: the file.
        model: what it holds.
        what: what is wrong and what to do, such as "this is no calibration: calibrate".

    Raises:
        ConfigError: it holds anything else; names file, field and value as `config_error`.
        OSError: the file cannot be read.
    """
    source = f"{path}: {what}"
    try:
        text = read_file(path)
        decode(text.decode(), finite=True)
        return model.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise config_error(error, model=model, source=source) from None
    except (UnicodeDecodeError, json.JSONDecodeError, RepeatedKeyError) as error:
        raise ConfigError(f"{source}: {broken(error)}", location=str(path)) from None
    except (SchemaError, RecursionError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ConfigError(f"{source}: {said}", location=str(path)) from None


def config_error(error: ValidationError, *, model: type[BaseModel], source: str) -> ConfigError:
    """Turn a validation error of a configuration tree into one that names keys and remedies.

    Args:
        error: what `model` raised.
        model: the root of the tree, to know which keys would have been right.
        source: where the configuration came from, such as the file's path.

    Returns:
        To be raised by the caller. One line a problem: the dotted key, what is wrong, the value;
        for an unknown key the nearest right one. No name and no value that may be a key is
        repeated, and under a model with `hide_input_in_errors` no value but a number.
    """
    problems = _causes(error.errors(include_url=False))
    lines = [f"{source}: {_line(model, problem)}" for problem in problems]
    return ConfigError("\n".join(lines), location=_dotted(model, problems[0]["loc"]))


def _causes(problems: list[ErrorDetails]) -> list[ErrorDetails]:
    """Leave out that a list is too short where an item of it is wrong: pydantic counts the rest."""
    places = [problem["loc"] for problem in problems]
    return [
        problem
        for problem in problems
        if problem["type"] not in {"too_short", "too_long"}
        or not any(
            len(place) > len(problem["loc"]) and place[: len(problem["loc"])] == problem["loc"]
            for place in places
        )
    ]


def _line(model: type[BaseModel], problem: ErrorDetails) -> str:
    location = problem["loc"]
    dotted = _dotted(model, location)
    where = f"{dotted}: " if location else ""
    models, context = _models_at(model, location[:-1]), problem.get("ctx", {})
    if problem["type"] in {"extra_forbidden", UNKNOWN_KEY}:
        said = context.get("said")
        known = set(said.split(", ") if said else (n for m in models for n in m.model_fields))
        close = nearest_key(str(location[-1]), known)
        remedy = f"did you mean {close!r}?" if close else f"known keys: {', '.join(sorted(known))}"
        unshown = "" if shown_name(location[-1]) != _UNSHOWN_NAME else _WITHHELD
        return f"unknown key {dotted!r}{unshown}: {remedy}"
    if problem["type"] == "union_tag_invalid":
        choices, given = context["expected_tags"], shown_name(context["tag"])
        return f"{where}{str(context['discriminator'])[1:-1]}: use {choices}, not {given!r}"
    if problem["type"] == "union_tag_not_found":
        name = str(context["discriminator"]).strip("'")
        fields = [kind.model_fields.get(name) for kind in _models_at(model, location)]
        choices = ", ".join(repr(tag) for one in fields if one for tag in get_args(one.annotation))
        return f"{where}{name} is missing: use one of {choices}"
    if problem["type"] in {"model_type", "model_attributes_type"}:  # pydantic would name the class
        return f"{where}needs a mapping of keys to values"
    if problem["type"] == "invalid_key":
        return f"{where.replace('None', 'null')}a key is a text: name it, or put it in quotes"
    wrong = _QUOTED.sub(_shown_quote, problem["msg"].removeprefix("Value error, "))
    return where + wrong + _not(problem, hidden=_hides(model, location))


def _shown_quote(quote: re.Match[str]) -> str:
    # A check of a model's own may repeat the value that it refuses.
    return f"{quote[1]}{_UNSHOWN_NAME}{quote[1]}" if may_be_key(quote[2]) else quote[0]


def _not(problem: ErrorDetails, *, hidden: bool) -> str:
    value = problem["input"]
    if problem["type"] in {"missing", UNSHOWN} or isinstance(value, dict):
        return ""
    if isinstance(value, int | float):
        harmless = abs(value) < _LONG_NUMBER or not isinstance(value, int)
        return f", not {value!r}" if harmless else ""
    if value is not None and not isinstance(value, str):
        return ""  # of a collection, `repr` may take gigabytes
    shown = repr(value)
    if may_be_key(shown):
        return _WITHHELD
    return f", not {shown}" if not hidden and len(shown) <= _LONGEST_VALUE else ""


def _hides(model: type[BaseModel], location: tuple[int | str, ...]) -> bool:
    return any(
        level.model_config.get("hide_input_in_errors")
        for depth in range(len(location) + 1)
        for level in _models_at(model, location[:depth])
    )


def _dotted(model: type[BaseModel], location: tuple[int | str, ...]) -> str:
    # `[key]` and `tuple[str, ...]` are pydantic's, not the file's.
    keys = _followed(model, location)[1]
    return ".".join(shown_name(part) for part in keys if "[" not in str(part))


def _models_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[type[BaseModel]]:
    return _followed(model, location)[0]


def _followed(
    model: type[BaseModel], location: tuple[int | str, ...]
) -> tuple[list[type[BaseModel]], list[int | str]]:
    """Follow a location down the tree: the models that it leads to, and its keys without tags."""
    models, keys = [model], list[int | str]()
    for part in location:
        # A tag may be a field's name too, but it is always what follows a choice of models.
        if len(models) > 1 and (tagged := [m for m in models if _tagged(m, part)]):
            models = tagged
            continue
        keys.append(part)
        fields = [m.model_fields[part] for m in models if part in m.model_fields]
        models = [m for field in fields for m in _models_in(field.annotation)] or models
    return models, keys


def _tagged(model: type[BaseModel], tag: int | str) -> bool:
    return any(tag in get_args(field.annotation) for field in model.model_fields.values())


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def said_where(
    holds: Mapping[str, bool], texts: Mapping[str, str], **values: object
) -> tuple[str, ...]:
    """Return the text of each thing that holds, in the order of the things.

    Args:
        holds: by the name of a text, whether it is to be said.
        texts: each with slots for `values`, such as `{run.steps}`.
        values: what the slots name.
    """
    chosen = [(texts[name], is_so) for name, is_so in holds.items()]
    return tuple(text.format(**values) for text, is_so in chosen if is_so)
