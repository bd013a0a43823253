"""From a YAML file and dotted overrides to a checked configuration, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError

from rubric_core import ConfigError
from rubric_core.configuration import config_error
from rubric_judge.yaml_files import read_yaml, yaml_value
from rubric_train_openrlhf.config.cluster import ClusterConfig
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import TrainConfigError


def load_config(path: Path, *, overrides: Sequence[str] = ()) -> TrainConfig:
    """Read a YAML file and put `--section.key value` pairs over it.

    Raises:
        TrainConfigError: the file, an override or a value is wrong; names the nearest right key.
    """
    return parse_config(read_values(path, overrides=overrides), source=str(path))


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
        raise TrainConfigError(
            f"{str(path)!r} holds {type(document).__name__}, not a mapping of keys to values",
            location=str(path),
        )
    return _with_overrides(cast("dict[str, Any]", document), overrides)


def parse_config(values: Mapping[str, object], *, source: str = "configuration") -> TrainConfig:
    """Check a mapping.

    Raises:
        TrainConfigError: a key or a value is wrong; names the nearest right key.
    """
    try:
        return TrainConfig.model_validate(values)
    except ValidationError as exc:
        error = config_error(exc, model=TrainConfig, source=source)
        raise TrainConfigError(str(error), location=error.location) from None


def dump_config(config: TrainConfig) -> str:
    """Write the resolved configuration as YAML that load_config reads back."""
    # Machines that nobody spoke of would be noise in a run of one process.
    unused = config.backend == "local" and config.cluster == ClusterConfig()
    values = config.model_dump(mode="json", exclude={"cluster"} if unused else None)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def _with_overrides(document: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Apply `--a.b value` and `--a.b=value`; values are read as YAML."""
    merged = deepcopy(document)
    tokens = iter(overrides)
    for token in tokens:
        name, equals, text = token.removeprefix("--").partition("=")
        if not token.startswith("--") or not name:
            raise TrainConfigError(
                f"{token!r} is not an override; write --section.key value", location=token
            )
        value = text if equals else next(tokens, None)
        if value is None:
            raise TrainConfigError(f"--{name} needs a value", location=name)
        _put(merged, name.replace("-", "_").split("."), _parsed(name, value))
    return merged


def _parsed(name: str, value: str) -> object:
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
