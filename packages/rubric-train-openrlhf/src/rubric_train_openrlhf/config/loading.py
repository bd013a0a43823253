"""From a YAML file and dotted overrides to a checked configuration, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

import yaml
from pydantic import BaseModel

from rubric_core import ConfigError
from rubric_core.configuration import Keys, Source, validated
from rubric_judge.yaml_files import read_yaml, yaml_place, yaml_value
from rubric_train_openrlhf.config.cluster import ClusterConfig
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import TrainConfigError

_TEXTS = frozenset[object]({str, Path, NoneType})
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


def load_config(path: Path, *, overrides: Sequence[str] = ()) -> TrainConfig:
    """Read a YAML file and put `--section.key value` pairs over it.

    Raises:
        TrainConfigError: the file, an override or a value is wrong; names the nearest right key.
    """
    values = read_values(path, overrides=overrides)
    return parse_config(values, source=written_at(path, overrides=overrides))


def written_at(path: Path, *, overrides: Sequence[str] = ()) -> Callable[[Keys], str]:
    """Return what says where a key stands: at a line of the file, or on the command line."""
    given = [keys for keys, _, _ in _given(overrides)]

    def place(keys: Keys) -> str:
        is_given = any([str(key) for key in keys[: len(one)]] == one for one in given)
        return "the command line" if is_given else yaml_place(path, keys)

    return place


def read_values(path: Path, *, overrides: Sequence[str] = ()) -> dict[str, object]:
    """Read a YAML file and put overrides over it, unchecked: what a backend of any kind takes.

    Raises:
        TrainConfigError: the file is no mapping or says a key twice, or an override is no
            `--key value` pair.
    """
    try:
        document = read_yaml(path)
    except ConfigError as error:
        raise TrainConfigError(str(error), location=error.location) from None
    if not isinstance(document, dict):
        problem = f"{str(path)!r} holds no mapping of keys to values"
        raise TrainConfigError(problem, location=str(path))
    return _with_overrides(cast("dict[str, Any]", document), overrides)


def parse_config(values: Mapping[str, object], *, source: Source = "configuration") -> TrainConfig:
    """Check a mapping.

    Raises:
        TrainConfigError: a key or a value is wrong; names the nearest right key.
    """
    try:
        return validated(TrainConfig, values, source=source)
    except ConfigError as error:
        raise TrainConfigError(str(error), location=error.location) from None


def dump_config(config: TrainConfig) -> str:
    """Write the resolved configuration as YAML that load_config reads back."""
    # Machines that nobody spoke of would be noise in a run of one process.
    unused = config.backend == "local" and config.cluster == ClusterConfig()
    values = config.model_dump(mode="json", exclude={"cluster"} if unused else None)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def _with_overrides(document: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Apply `--a.b value` and `--a.b=value`; values are read as YAML, where no text is wanted."""
    merged = deepcopy(document)
    for keys, name, value in _given(overrides):
        _put(merged, keys, _parsed(name, value, is_text=_takes_text(keys)))
    return merged


def _given(overrides: Sequence[str]) -> Iterator[tuple[list[str], str, str]]:
    """Yield the keys of each override, its name and its text."""
    tokens = iter(overrides)
    for token in tokens:
        name, equals, text = token.removeprefix("--").partition("=")
        if not token.startswith("--") or not name:
            raise TrainConfigError.told("no_override", token=token, location=token)
        value = text if equals else next(tokens, None)
        if value is None:
            raise TrainConfigError(f"--{name} needs a value", location=name)
        yield name.replace("-", "_").split("."), name, value


def _takes_text(keys: Sequence[str]) -> bool:
    """Whether a key takes a path or a text and nothing else, which YAML would cut or convert."""
    models, kinds = [TrainConfig], list[object]()
    for key in keys:
        fields = [model.model_fields[key] for model in models if key in model.model_fields]
        kinds = [kind for field in fields for kind in _kinds(field.annotation)]
        models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
    return bool(kinds) and all(kind in _TEXTS for kind in kinds)


def _kinds(annotation: object) -> Iterator[object]:
    """What a choice is made of."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif origin in {Union, UnionType}:
        for choice in get_args(annotation):
            yield from _kinds(choice)
    else:
        yield annotation


def _parsed(name: str, value: str, *, is_text: bool) -> object:
    if not value.isprintable() and any("\udc80" <= one <= "\udcff" for one in value):
        raise TrainConfigError(f"--{name} is not UTF-8; give a text that is", location=name)
    # Who quotes a text has YAML in mind, as who means no value has.
    if is_text and value not in _NULLS and value[0] not in "\"'":
        return value
    try:
        return yaml_value(value, source=f"--{name}")
    except ConfigError as error:
        raise TrainConfigError(str(error), location=name) from None


def _put(document: dict[str, Any], keys: Sequence[str], value: object) -> None:
    *parents, last = keys
    for key in parents:
        if not isinstance(document.get(key), dict):
            document[key] = {}
        document = document[key]
    document[last] = value
