"""YAML files of settings: read safely, no key twice, and never quoted in an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import yaml

from rubric_core import ConfigError
from rubric_core.configuration import shown_name

__all__ = ["read_yaml", "yaml_value"]


class _RepeatedKeyError(yaml.MarkedYAMLError):
    def __init__(self, node: yaml.ScalarNode) -> None:
        super().__init__(problem_mark=node.start_mark)
        self.key = shown_name(node.value)


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice; YAML does, PyYAML keeps the last."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:  # noqa: ANN401  # PyYAML's
        # Before merges (`<<`), whose keys may stand again, are resolved.
        node = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise _RepeatedKeyError(key)
                seen.add((key.tag, key.value))
        return node


def yaml_value(text: str, *, source: str) -> object:
    """Read a YAML text.

    Args:
        text: what is read.
        source: what to call it in an error, such as the file's path.

    Raises:
        ConfigError: the text is no YAML, or says a key twice. Names line and column, and never the
            line itself, which may hold a key.
    """
    try:
        return cast("object", yaml.load(text, Loader=_Loader))  # noqa: S506  # a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = source if mark is None else f"{source}:{mark.line + 1}:{mark.column + 1}"
        wrong = "is not YAML; look at this place for a missing quote, bracket or indentation"
        if isinstance(error, _RepeatedKeyError):
            wrong = f"the key {error.key!r} stands here a second time; leave one"
        raise ConfigError(f"{where}: {wrong}", location=where) from None
    except (RecursionError, ValueError, OverflowError) as error:  # too deep, or a date that is none
        kind = type(error).__name__
        raise ConfigError(f"{source}: is not usable YAML ({kind})", location=source) from None


def read_yaml(path: Path) -> object:
    """Read a YAML file.

    Args:
        path: the file, in UTF-8.

    Raises:
        ConfigError: the file cannot be read, or as `yaml_value`.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a path that is none
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigError(f"{path}: cannot be read: {reason}", location=str(path)) from None
    return yaml_value(text, source=str(path))
