"""Errors of wrong configurations: pydantic's problems in one error that names the remedies."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rubric_core.errors import ConfigError, NotJsonError
from rubric_core.files import read_file, toml_beside
from rubric_core.model_tree import (
    Location,
    default_of,
    example_of,
    hides_input,
    keys_at,
    models_at,
    tags_of,
)
from rubric_core.needs import NEEDS
from rubric_core.strict_json import decode

_Model = TypeVar("_Model", bound=BaseModel)
Keys: TypeAlias = "tuple[int | str, ...]"
Source: TypeAlias = "str | Callable[[Keys], str]"
"""The origin of a configuration, such as its path; or a function from one of its keys to that."""

WRITTEN = "is_written"
"""Key in pydantic's context: whether somebody wrote the values to be used here and now; those of an
older run may name things that this machine does not have."""
UNSHOWN = "unshown_value"
"""Type of a `PydanticCustomError` about a value that may be a key, and is never repeated."""
UNKNOWN_KEY = "unknown_key"
"""Type of a `PydanticCustomError` about an unknown key; its `said` lists the known ones."""
_NAMES = toml_beside(__file__, "configuration.toml")
_LONGEST_VALUE = 80
_LONGEST_NUMBER = 12
_LONG_NUMBER = 10**_LONGEST_NUMBER
_LONGEST_NAME = 40
_UNSHOWN_NAME = "…"
_WITHHELD = " (unshown: maybe a secret)"
_QUOTED = re.compile(r"""(['"`])(.*?)\1""")
_WORD = re.compile(r"[A-Za-z]{1,12}", re.ASCII)
"""Values that are shown even where values may be keys: no key is as short and without a digit."""
_NAME = re.compile(r"[A-Za-z_*][\w./:-]*", re.ASCII)
_KEY_PREFIX = re.compile(
    r"(?:^|[^a-z])(?:sk|pk|rk|hf|gh[opsu]|gsk|xai|xox[abp]|glpat|akia|aiza|bearer)(?:[-_]|\w{12})",
    re.IGNORECASE,
)
_RUN = re.compile(r"[A-Za-z0-9]{16,}")
_DIGIT = re.compile(r"[0-9]")
_FEWEST_DIGITS = 8
_LEAST_ALIKE = 0.65
"""Least similarity by difflib, of 1: that of `rpn` and `rpm`; `retries` and `prices` have less."""
_KEY_IN_TEXT = re.compile(
    r"""^['"`]?([a-z]\w*)(?=[=:'"`]| ')|((?<!\w)[a-z]\w*(?:\.[a-z]\w*)+)"""
)
"""The word that a text begins with, as `out=…` or 'out', or else its first dotted one."""


def nearest_key(key: str, known: Iterable[str]) -> str | None:
    """Return the known key that is most likely meant by this one, if any is close."""
    choices = sorted(known)
    usual = _NAMES["meant"].get(key.lower())
    if usual in choices:
        return usual
    close = get_close_matches(key, choices, n=1, cutoff=_LEAST_ALIKE)
    if not close:
        return None
    return close[0]


def meant_by(missing: str, keys: Iterable[object]) -> str:
    """Return the question whether one of the given keys is the missing one, or ""."""
    for key in keys:
        if isinstance(key, str) and nearest_key(key, [missing]):
            return f"did you mean {missing!r} by {shown_name(key)!r}? "
    return ""


def kind_remedy(
    kind: str,
    known: Iterable[str],
    *,
    has_part: bool = False,
) -> str:
    """Return which kind may be meant by an unknown one, or that a provider is no kind.

    Args:
        kind: the wrong kind.
        known: the right ones.
        has_part: whether the model's name stands in a part of its own, `model: {model: NAME}`.
    """
    kinds = tuple(known)
    provider = _NAMES["providers"].get(kind.lower())
    if provider and "llm" in kinds:
        model = f"model: {provider}/NAME"
        if has_part:
            model = f"model: {{{model}}}"
        return f"a provider's model is of `type: llm`, with `{model}` below it"
    remedy = f"use one of {', '.join(kinds)}"
    close = nearest_key(kind, kinds)
    if close:
        remedy = f"did you mean {close!r}? {remedy}"
    return remedy


def may_be_key(text: str) -> bool:
    """Return whether a text looks like an API key: its prefix, a long mixed run, or many digits."""
    if _KEY_PREFIX.search(text):
        return True
    digits = sum(map(str.isdigit, text))
    if digits >= _FEWEST_DIGITS:
        return True
    return any(_DIGIT.search(run) for run in _RUN.findall(text))


def shown_name(name: object) -> str:
    """Return a name from a configuration for a message; `…` if it may be a key, or is no name."""
    is_shown = False
    text = str(name)
    if isinstance(name, int):
        is_shown = len(text) <= _LONGEST_NUMBER
    elif isinstance(name, str) and len(text) <= _LONGEST_NAME:
        is_shown = bool(_NAME.fullmatch(text)) and not may_be_key(text)
    if not is_shown:
        return _UNSHOWN_NAME
    return text


def validated(
    model: type[_Model],
    values: object,
    *,
    source: Source,
    folder: Path | None = None,
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
    context = {"folder": folder, WRITTEN: callable(source)}
    try:
        return model.model_validate(values, context=context)
    except ValidationError as error:
        raise config_error(error, model=model, source=source) from None


def read_written(
    path: Path,
    model: type[_Model],
    *,
    what: str,
    others: Mapping[str, str] | None = None,
) -> _Model:
    """Read a JSON file as a command of ours wrote it: no type is converted, no key stands twice.

    Args:
        path: the file.
        model: the model of its content.
        what: the problem and the remedy, such as "this is no calibration: calibrate".
        others: messages for the files of other commands, by a key that only such a file has.

    Raises:
        ConfigError: it holds anything else; names file, field and value as `config_error`.
        OSError: the file cannot be read.
    """
    source = f"{path}: {what}"
    try:
        text = read_file(path)
        content = decode(text, finite=True)
        if others is not None and isinstance(content, dict):
            for key, message in others.items():
                if key in content:
                    raise ConfigError(f"{path}: {message}", location=str(path))
        return model.model_validate_json(text, strict=True)
    except ValidationError as error:
        problems = config_error(error, model=model, source=source)
        message = str(problems).replace(f"\n{source}: ", "\n  ")
        raise ConfigError(message, location=problems.location) from None
    except NotJsonError as error:
        raise ConfigError(f"{source}: {error}", location=str(path)) from None


def config_error(
    error: ValidationError,
    *,
    model: type[BaseModel],
    source: Source,
) -> ConfigError:
    """Turn a validation error of a configuration tree into one that names keys and remedies.

    Args:
        error: the error that `model` raised.
        model: the root of the tree, to know which keys would have been right.
        source: where the configuration came from.

    Returns:
        The error, for the caller to raise. It has a line for each problem: the dotted key, what is
        wrong, the value; for an unknown key the nearest right one. No name and no value that may be
        a key is repeated, and under a model with `hide_input_in_errors` no value but a number.
    """
    problems = _causes(error.errors(include_url=False))
    lines: list[str] = []
    for problem in problems:
        place = source if isinstance(source, str) else source(_place(model, problem))
        lines.append(f"{place}: {_line(model, problem)}")
    location = _dotted(model, problems[0]["loc"])
    return ConfigError("\n".join(lines), location=location)


def needed(problem: ErrorDetails) -> str:
    """Return what a value that pydantic refused needs to be, never the value."""
    text = NEEDS.get(problem["type"])
    if text is None:
        return problem["msg"].removeprefix("Value error, ")
    context = problem.get("ctx", {})
    bounds = {name: _whole(bound) for name, bound in context.items()}
    return text.format_map(bounds)


def _place(model: type[BaseModel], problem: ErrorDetails) -> Keys:
    """Return the key to look at; a check of a whole section names the key in its text."""
    keys = keys_at(model, problem["loc"])
    kind = problem["type"]
    if kind == "union_tag_invalid":
        return (*keys, problem.get("ctx", {})["discriminator"].strip("'"))
    if kind not in {"value_error", UNSHOWN}:
        return keys
    match = _KEY_IN_TEXT.search(needed(problem))
    if match is None:
        return keys
    named = match[1] or match[2]
    return (*keys, *named.split("."))


def _causes(problems: list[ErrorDetails]) -> list[ErrorDetails]:
    """Return the problems that do not follow from others, one for each line of their messages.

    A list with a wrong item also counts as too short, as pydantic counts only the right ones. If
    the version is another one, the rest of the file is not checked.
    """
    version_problems = [
        problem
        for problem in problems
        if problem["loc"] == ("version",) and problem["type"] == "literal_error"
    ]
    problems = version_problems or problems
    causes: list[ErrorDetails] = []
    for problem in problems:
        kind = problem["type"]
        if kind == "default_factory_not_called":
            continue
        if kind in {"too_short", "too_long"} and _has_inner(problem, problems):
            continue
        for message in problem["msg"].split("\n"):
            cause = problem.copy()
            cause["msg"] = message
            causes.append(cause)
    return causes


def _has_inner(problem: ErrorDetails, problems: Iterable[ErrorDetails]) -> bool:
    """Return whether one of the problems lies within the value of another."""
    outer = problem["loc"]
    depth = len(outer)
    places = [inner["loc"] for inner in problems if len(inner["loc"]) > depth]
    return any(place[:depth] == outer for place in places)


def _line(model: type[BaseModel], problem: ErrorDetails) -> str:
    """Return the line of an error for one problem."""
    location = problem["loc"]
    kind = problem["type"]
    context = problem.get("ctx", {})
    models = models_at(model, location[:-1])
    value = problem["input"]
    where = f"{_dotted(model, location)}: " if location else ""
    refused = _not_value(problem, hidden=hides_input(model, location))
    match kind:
        case "extra_forbidden" | "unknown_key":
            return _unknown(models, problem, dotted=where.removesuffix(": "))
        case "union_tag_invalid":
            message = _unknown_tag(model, location, context)
        case "union_tag_not_found":
            name = str(context["discriminator"])[1:-1]
            tags = ", ".join(tags_of(models_at(model, location), name))
            question = meant_by(name, value)
            message = f"{name} is missing: {question}use one of {tags}"
        case "missing":
            remedy = context.get("said") or f"add it{example_of(models, location[-1])}"
            message = f"is missing: {remedy}"
        case "invalid_key":
            where = where.replace("None", "null")
            message = "a key is a text: name it, or put it in quotes"
        case "literal_error" | "enum":
            message = f"{needed(problem)}{refused}"
            close = None
            if isinstance(value, str):
                close = nearest_key(value, _listed(context))
            if close:
                message += f": did you mean {close!r}?"
        case _:
            message = _QUOTED.sub(_shown_quote, needed(problem))
            message += refused
            if kind.endswith("_parsing"):
                message += default_of(models, location[-1])
    return where + message


def _unknown_tag(
    model: type[BaseModel], location: Location, context: Mapping[str, Any]
) -> str:
    name = str(context["discriminator"])[1:-1]
    tag = shown_name(context["tag"])
    inner_models = models_at(model, (*location, "model"))
    has_part = inner_models != models_at(model, location)
    remedy = kind_remedy(tag, _listed(context), has_part=has_part)
    return f"there is no {name} {tag!r}: {remedy}"


def _unknown(
    models: Iterable[type[BaseModel]],
    problem: ErrorDetails,
    *,
    dotted: str,
) -> str:
    key = problem["loc"][-1]
    listed = problem.get("ctx", {}).get("said")
    known: set[str] = set()
    if listed:
        known.update(listed.split(", "))
    else:
        known.update(*(model.model_fields for model in models))
    close = nearest_key(str(key), known)
    remedy = f"known keys: {', '.join(sorted(known))}"
    if close:
        remedy = f"did you mean {close!r}?"
    unshown = ""
    if shown_name(key) == _UNSHOWN_NAME:
        unshown = _WITHHELD
    return f"unknown key {dotted!r}{unshown}: {remedy}"


def _listed(context: Mapping[str, Any]) -> list[str]:
    choices = context.get("expected_tags") or context["expected"]
    return [quote[2] for quote in _QUOTED.finditer(choices)]


def _whole(bound: object) -> object:
    if isinstance(bound, float) and bound.is_integer():
        return int(bound)
    return bound


def _shown_quote(quote: re.Match[str]) -> str:
    # A model's own check may repeat the value that it refuses.
    if may_be_key(quote[2]):
        return f"{quote[1]}{_UNSHOWN_NAME}{quote[1]}"
    return quote[0]


def _not_value(problem: ErrorDetails, *, hidden: bool) -> str:
    """Return ", not " with the refused value, or "" where it is not shown."""
    value = problem["input"]
    if problem["type"] == UNSHOWN:
        return ""
    match value:
        case None | bool():
            text = json.dumps(value)
        case int() if abs(value) >= _LONG_NUMBER:
            return ""
        case int() | float():
            text = repr(value)
        case str():
            text = repr(value)
            if may_be_key(text):
                return _WITHHELD
            is_shown = len(text) <= _LONGEST_VALUE
            if hidden:
                is_shown = _WORD.fullmatch(value) is not None
            if not is_shown:
                return ""
        case _:
            return ""  # the `repr` of a collection may take gigabytes
    return f", not {text}"


def _dotted(model: type[BaseModel], location: Location) -> str:
    return ".".join(map(shown_name, keys_at(model, location)))
