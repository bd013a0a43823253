"""From pydantic's account of a wrong configuration to one error that says what to write instead."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rubric_core.errors import ConfigError, NotJsonError
from rubric_core.files import decode, read_file, toml_beside

_Model = TypeVar("_Model", bound=BaseModel)
Keys: TypeAlias = "tuple[int | str, ...]"
Source: TypeAlias = "str | Callable[[Keys], str]"
"""Where a configuration came from, such as its path; or what says so of one of its keys."""

WRITTEN: Final = "is_written"
"""In pydantic's context: whether somebody wrote the values, to be used here and now; those of an
older run may name what this machine does not have."""
UNSHOWN: Final = "unshown_value"
"""Type of a `PydanticCustomError` about a value that may be a key, and is never repeated."""
UNKNOWN_KEY: Final = "unknown_key"
"""Type of a `PydanticCustomError` about an unknown key; its `said` lists the known ones."""
_SAID: Final = toml_beside(__file__, "configuration.toml")
_LONGEST_VALUE: Final = 80
_LONGEST_NUMBER: Final = 12
_LONG_NUMBER: Final = 10**_LONGEST_NUMBER
_LONGEST_NAME: Final = 40
_UNSHOWN_NAME: Final = "…"
_WITHHELD: Final = " (unshown: maybe a secret)"
_QUOTED: Final = re.compile(r"""(['"`])(.*?)\1""")
_WORD: Final = re.compile(r"[A-Za-z]{1,12}", re.ASCII)
"""A value that is shown even where values may be keys: no key is as short and without a digit."""
_NAME: Final = re.compile(r"[A-Za-z_*][\w./:-]*", re.ASCII)
_KEY_PREFIX: Final = re.compile(
    r"(?:^|[^a-z])(?:sk|pk|rk|hf|gh[opsu]|gsk|xai|xox[abp]|glpat|akia|aiza|bearer)(?:[-_]|\w{12})",
    re.IGNORECASE,
)
_RUN: Final = re.compile(r"[A-Za-z0-9]{16,}")
_DIGIT: Final = re.compile(r"[0-9]")
_FEWEST_DIGITS: Final = 8
_LEAST_ALIKE: Final = 0.65
"""Of 1, by difflib: `rpn` is as much like `rpm`, and `retries` less like `prices`."""
_KEY_IN_TEXT: Final = re.compile(
    r"""^['"`]?([a-z]\w*)(?=[=:'"`]| ')|((?<!\w)[a-z]\w*(?:\.[a-z]\w*)+)"""
)
"""The word that a text begins with, as `out=…` or 'out', or else its first dotted one."""


def nearest_key(key: str, known: Iterable[str]) -> str | None:
    """Return the known key that is most likely meant by this one, if any is close."""
    choices = sorted(known)
    usual = _SAID["meant"].get(key.lower())
    close = get_close_matches(key, choices, n=1, cutoff=_LEAST_ALIKE)
    return usual if usual in choices else next(iter(close), None)


def meant_by(missing: str, given: Iterable[object]) -> str:
    """Ask whether a key that is given is the missing one, in the words before a remedy."""
    close = [
        key for key in given if isinstance(key, str) and nearest_key(key, [missing])
    ]
    return f"did you mean {missing!r} by {shown_name(close[0])!r}? " if close else ""


def kind_remedy(given: str, known: Iterable[str], *, has_part: bool = False) -> str:
    """Say which kind may be meant by one that there is not, or that a provider is no kind.

    Args:
        given: the wrong kind.
        known: the right ones.
        has_part: whether the model's name stands in a part of its own, `model: {model: NAME}`.
    """
    kinds = tuple(known)
    provider = _SAID["providers"].get(given.lower())
    if provider and "llm" in kinds:
        name = f"model: {provider}/NAME"
        model = f"model: {{{name}}}" if has_part else name
        return f"a provider's model is of `type: llm`, with `{model}` below it"
    close = nearest_key(given, kinds)
    return (
        f"{f'did you mean {close!r}? ' if close else ''}use one of {', '.join(kinds)}"
    )


def may_be_key(text: str) -> bool:
    """Whether a text looks like an API key: its prefix, a long mixed run, or many digits."""
    digits = sum(map(str.isdigit, text))
    has_run = any(_DIGIT.search(run) for run in _RUN.findall(text))
    return bool(_KEY_PREFIX.search(text)) or has_run or digits >= _FEWEST_DIGITS


def shown_name(name: object) -> str:
    """Return a name from a configuration for a message; `…` for what may be a key, or no name."""
    text = str(name)
    plain = (
        isinstance(name, str) and len(text) <= _LONGEST_NAME and _NAME.fullmatch(text)
    )
    short = isinstance(name, int) and len(text) <= _LONGEST_NUMBER
    return text if short or (plain and not may_be_key(text)) else _UNSHOWN_NAME


def validated(
    model: type[_Model], values: object, *, source: Source, folder: Path | None = None
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
        return model.model_validate(
            values, context={"folder": folder, WRITTEN: callable(source)}
        )
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
        model: what it holds.
        what: what is wrong and what to do, such as "this is no calibration: calibrate".
        others: what to say of a file of another command, by a key that only it has.

    Raises:
        ConfigError: it holds anything else; names file, field and value as `config_error`.
        OSError: the file cannot be read.
    """
    source = f"{path}: {what}"
    try:
        text = read_file(path)
        held = decode(text, finite=True)
        for key, said in (others or {}).items():
            if isinstance(held, dict) and key in held:
                raise ConfigError(f"{path}: {said}", location=str(path))
        return model.model_validate_json(text, strict=True)
    except ValidationError as error:
        wrong = config_error(error, model=model, source=source)
        told = str(wrong).replace(f"\n{source}: ", "\n  ")
        raise ConfigError(told, location=wrong.location) from None
    except NotJsonError as error:
        raise ConfigError(f"{source}: {error}", location=str(path)) from None


def config_error(
    error: ValidationError, *, model: type[BaseModel], source: Source
) -> ConfigError:
    """Turn a validation error of a configuration tree into one that names keys and remedies.

    Args:
        error: what `model` raised.
        model: the root of the tree, to know which keys would have been right.
        source: where the configuration came from.

    Returns:
        To be raised by the caller. One line a problem: the dotted key, what is wrong, the value;
        for an unknown key the nearest right one. No name and no value that may be a key is
        repeated, and under a model with `hide_input_in_errors` no value but a number.
    """
    problems = _causes(error.errors(include_url=False))
    lines: list[str] = []
    for problem in problems:
        place = source if isinstance(source, str) else source(_place(model, problem))
        lines.append(f"{place}: {_line(model, problem)}")
    return ConfigError("\n".join(lines), location=_dotted(model, problems[0]["loc"]))


def needed(problem: ErrorDetails) -> str:
    """Say what a value that pydantic refused needs to be, never what it is."""
    if (words := _SAID["needs"].get(problem["type"])) is None:
        return problem["msg"].removeprefix("Value error, ")
    context = problem.get("ctx", {})
    return words.format(**{name: _whole(bound) for name, bound in context.items()})


def _place(model: type[BaseModel], problem: ErrorDetails) -> Keys:
    """Return the key to look at; a check of a whole section names the one that it is about."""
    keys = _keys(model, problem["loc"])
    kind = problem["type"]
    if kind == "union_tag_invalid":
        return (*keys, problem.get("ctx", {})["discriminator"].strip("'"))
    if kind in {"value_error", UNSHOWN} and (
        match := _KEY_IN_TEXT.search(needed(problem))
    ):
        return (*keys, *(match[1] or match[2]).split("."))
    return keys


def _causes(problems: list[ErrorDetails]) -> list[ErrorDetails]:
    """Leave out what follows from the others, and take what a check says by the line.

    A list is too short where an item of it is wrong: pydantic counts the rest. What another
    version holds is not ours to judge.
    """
    other = [
        problem
        for problem in problems
        if (*problem["loc"], problem["type"]) == ("version", "literal_error")
    ]
    problems = other or problems
    places = [problem["loc"] for problem in problems]
    return [
        {**problem, "msg": said}
        for problem in problems
        if problem["type"] != "default_factory_not_called"
        for said in problem["msg"].split("\n")
        if problem["type"] not in {"too_short", "too_long"}
        or not any(
            len(place) > len(problem["loc"])
            and place[: len(problem["loc"])] == problem["loc"]
            for place in places
        )
    ]


def _line(model: type[BaseModel], problem: ErrorDetails) -> str:
    location = problem["loc"]
    kind = problem["type"]
    context = problem.get("ctx", {})
    models = _models_at(model, location[:-1])
    given = problem["input"]
    where = f"{_dotted(model, location)}: " if location else ""
    shown = _not(problem, hidden=_hides(model, location))
    match kind:
        case "extra_forbidden" | "unknown_key":
            return _unknown(models, problem, dotted=where.removesuffix(": "))
        case "union_tag_invalid":
            name = str(context["discriminator"])[1:-1]
            tag = shown_name(context["tag"])
            has_part = _models_at(model, (*location, "model")) != _models_at(
                model, location
            )
            remedy = kind_remedy(tag, _listed(context), has_part=has_part)
            wrong = f"there is no {name} {tag!r}: {remedy}"
        case "union_tag_not_found":
            name = str(context["discriminator"])[1:-1]
            fields = [one.model_fields.get(name) for one in _models_at(model, location)]
            tags = [
                repr(tag)
                for field in fields
                if field
                for tag in get_args(field.annotation)
            ]
            meant = meant_by(name, problem["input"])
            wrong = f"{name} is missing: {meant}use one of {', '.join(tags)}"
        case "missing":
            todo = context.get("said") or f"add it{_example(models, location[-1])}"
            wrong = f"is missing: {todo}"
        case "invalid_key":
            where = where.replace("None", "null")
            wrong = "a key is a text: name it, or put it in quotes"
        case "literal_error" | "enum":
            close = (
                nearest_key(given, _listed(context)) if isinstance(given, str) else None
            )
            meant = f": did you mean {close!r}?" if close else ""
            wrong = f"{needed(problem)}{shown}{meant}"
        case _:
            default = (
                _default(models, location[-1]) if kind.endswith("_parsing") else ""
            )
            wrong = f"{_QUOTED.sub(_shown_quote, needed(problem))}{shown}{default}"
    return where + wrong


def _unknown(
    models: Iterable[type[BaseModel]], problem: ErrorDetails, *, dotted: str
) -> str:
    key = problem["loc"][-1]
    said = problem.get("ctx", {}).get("said")
    known = set(
        said.split(", ") if said else (n for m in models for n in m.model_fields)
    )
    close = nearest_key(str(key), known)
    remedy = (
        f"did you mean {close!r}?"
        if close
        else f"known keys: {', '.join(sorted(known))}"
    )
    unshown = "" if shown_name(key) != _UNSHOWN_NAME else _WITHHELD
    return f"unknown key {dotted!r}{unshown}: {remedy}"


def _listed(context: Mapping[str, Any]) -> list[str]:
    choices = context.get("expected_tags") or context["expected"]
    return [quote[2] for quote in _QUOTED.finditer(choices)]


def _whole(bound: object) -> object:
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def _example(models: Iterable[type[BaseModel]], key: int | str) -> str:
    """Show the line of a missing key, where its field has an example."""
    fields = [model.model_fields[key] for model in models if key in model.model_fields]
    examples = [example for field in fields for example in field.examples or ()]
    if not examples:
        return ""
    # That of a Python function's keyword is written out, as `judge="judge.yaml"`.
    line = (
        examples[0]
        if f"{examples[0]}".startswith(f"{key}=")
        else f"{key}: {examples[0]}"
    )
    return f", such as `{line}`"


def _default(models: Iterable[type[BaseModel]], key: int | str) -> str:
    defaults = [
        model.model_fields[key].default for model in models if key in model.model_fields
    ]
    shown = [default for default in defaults if isinstance(default, int | float)]
    return f" (its default is {json.dumps(shown[0])})" if shown else ""


def _shown_quote(quote: re.Match[str]) -> str:
    # A check of a model's own may repeat the value that it refuses.
    return f"{quote[1]}{_UNSHOWN_NAME}{quote[1]}" if may_be_key(quote[2]) else quote[0]


def _not(problem: ErrorDetails, *, hidden: bool) -> str:
    value = problem["input"]
    if problem["type"] == UNSHOWN or isinstance(value, dict):
        return ""
    if value is None or isinstance(value, bool):
        return f", not {json.dumps(value)}"
    if isinstance(value, int | float):
        harmless = abs(value) < _LONG_NUMBER or not isinstance(value, int)
        return f", not {value!r}" if harmless else ""
    if not isinstance(value, str):
        return ""  # of a collection, `repr` may take gigabytes
    shown = repr(value)
    if may_be_key(shown):
        return _WITHHELD
    is_shown = _WORD.fullmatch(value) if hidden else len(shown) <= _LONGEST_VALUE
    return f", not {shown}" if is_shown else ""


def _hides(model: type[BaseModel], location: Keys) -> bool:
    return any(
        level.model_config.get("hide_input_in_errors")
        for depth in range(len(location) + 1)
        for level in _models_at(model, location[:depth])
    )


def _dotted(model: type[BaseModel], location: Keys) -> str:
    return ".".join(map(shown_name, _keys(model, location)))


def _keys(model: type[BaseModel], location: Keys) -> Keys:
    # `[key]` and `tuple[str, ...]` are pydantic's, not the file's.
    return tuple(part for part in _followed(model, location)[1] if "[" not in str(part))


def _models_at(model: type[BaseModel], location: Keys) -> list[type[BaseModel]]:
    return _followed(model, location)[0]


def _followed(
    model: type[BaseModel], location: Keys
) -> tuple[list[type[BaseModel]], list[int | str]]:
    """Follow a location down the tree: the models that it leads to, and its keys without tags."""
    models = [model]
    keys = list[int | str]()
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
    return any(
        tag in get_args(field.annotation) for field in model.model_fields.values()
    )


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
