"""YAML files of settings: read safely, every key a text, none twice, and never quoted in an error.

The only place that reads YAML. An alias (`*name`) stands for all that its anchor holds: some lines
of aliases to aliases are gigabytes once they are written out, so what they add is bounded.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import yaml

from rubric_core import ConfigError
from rubric_core.configuration import Keys, shown_name
from rubric_core.files import open_file, read_file

_MOST_BYTES = 2**18
"""A file of settings has a few thousand, and PyYAML takes seconds for as many as this."""
_MOST_ALIASED = 100_000
"""Characters, and values, that the aliases of a text add to it."""
_NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})
_KEYS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "merge", "value"))
_LONGEST_NUMBER = 256
"""Characters; to read a number takes time that grows with the square of its length."""


class _RefusedError(yaml.MarkedYAMLError):
    """Refused here: its problem is said as it is; PyYAML's own errors may quote the file."""

    def __init__(self, problem: str, at: Any) -> None:
        super().__init__(problem=problem, problem_mark=at.start_mark)


_NOT_FOR_SETTINGS = {
    "but found another document": "a second document begins here; keep one in a file",
    "expected '<document start>', but found '{'": (
        "a line of JSON begins here: give a YAML file of settings"
    ),
    "could not determine a constructor": "this tag is not one of YAML's own; leave it out",
    "found unhashable key": "a list or a mapping is no key here; use a text",
    "for merging": "`<<` takes in mappings alone; name one",
    "found character '\\t'": (
        "a tab stands here, and YAML takes spaces alone: put two spaces for each level"
    ),
}
"""Messages for valid YAML that has no place in settings, by PyYAML's words for it."""


class _Loader(yaml.SafeLoader):
    """Counts what aliases add, and refuses a key that stands twice; PyYAML keeps the last."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = 0
        """Their number and characters so far, with all that aliases stand for."""
        self._aliased = 0
        self._sizes: dict[str, int] = {}
        """The same of what stands under an anchor, by its name."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = cast("Any", self).peek_event()
        if isinstance(event, yaml.AliasEvent):
            self._add_alias(event)
            return super().compose_node(parent, index)
        before = self._values
        self._values += 1 + len(getattr(event, "value", ""))
        node = super().compose_node(parent, index)
        if (anchor := getattr(event, "anchor", None)) is not None:
            self._sizes[anchor] = self._values - before
        return node

    def _add_alias(self, event: Any) -> None:
        name: str = event.anchor
        if name in self.anchors and name not in self._sizes:
            raise _RefusedError(
                "this alias stands within what it stands for; write out what it stands for",
                event,
            )
        size = self._sizes.get(name, 0)  # 0: there is no such anchor, which PyYAML says
        self._values += size
        self._aliased += size
        if self._aliased > _MOST_ALIASED:
            raise _RefusedError(
                "this alias and those before it repeat too much; write out what it stands for",
                event,
            )

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # Before merges (`<<`), whose keys may stand again, are resolved.
        node = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise _RefusedError(
                        f"the key {shown_name(key.value)!r} stands here a second time; leave one",
                        key,
                    )
                seen.add((key.tag, key.value))
                if key.tag not in _KEYS:
                    raise _RefusedError(
                        "a key is a text: name it, or put it in quotes", key
                    )
        return node

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        node = super().compose_scalar_node(anchor)
        if node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
            raise _RefusedError(
                f"this number has more than {_LONGEST_NUMBER} characters; put a text in quotes",
                node,
            )
        return node

    def construct_object(self, node: Any, deep: Any = False) -> Any:  # noqa: FBT002  # PyYAML's
        try:
            return cast("Any", super()).construct_object(node, deep=deep)
        # A value that its tag has no form for (`!!bool perhaps`), or a date that does not exist.
        except (ValueError, LookupError, AttributeError, OverflowError):
            raise _RefusedError(
                "this is no date, or no value of its tag; put a text in quotes", node
            ) from None


def yaml_value(text: str, *, source: str) -> object:
    """Read a YAML text.

    Args:
        text: what is read.
        source: what to call it in an error, such as the file's path.

    Raises:
        ConfigError: the text is no YAML, is too long, says a key twice, or repeats too much by
            aliases. Names line and column, and never the line itself, which may hold a key.
    """
    _check_length(len(text), source=source)
    try:
        return cast("object", yaml.load(text, Loader=_Loader))  # noqa: S506  # a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(
            error, "context_mark", None
        )
        where = (
            source if mark is None else f"{source}:{mark.line + 1}:{mark.column + 1}"
        )
        problem = str(getattr(error, "problem", ""))
        wrong = "is not YAML; look at this place for a missing quote, bracket or indentation"
        if isinstance(error, _RefusedError):
            wrong = problem
        wrong = next(
            (what for said, what in _NOT_FOR_SETTINGS.items() if said in problem), wrong
        )
        raise ConfigError(f"{where}: {wrong}", location=where) from None
    except RecursionError:
        raise ConfigError(
            f"{source}: is not YAML; it nests too deep", location=source
        ) from None


def read_yaml(path: Path) -> object:
    """Read a YAML file.

    Args:
        path: the file, in UTF-8.

    Raises:
        ConfigError: the file cannot be read, or as `yaml_value`.
    """
    try:
        with open_file(path) as file:
            content = file.read(_MOST_BYTES + 1)
        _check_length(len(content), source=str(path))
        text = content.decode("utf-8-sig")
    except (
        OSError,
        ValueError,
    ) as error:  # ValueError: no UTF-8, or a path that is not valid
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigError(
            f"{path}: cannot be read: {reason}", location=str(path)
        ) from None
    return yaml_value(text, source=str(path))


def yaml_place(path: Path, keys: Keys) -> str:
    """Return `FILE:LINE` of a key of a YAML file that was read, or of the last above it there is.

    For the `source` of `rubric_core.configuration.validated`.
    """
    line = None
    text = ""
    with suppress(
        OSError, ValueError, yaml.YAMLError
    ):  # the file was changed meanwhile
        if path.is_file():  # a pipe is read once
            text = read_file(path).decode("utf-8-sig")
        node: object = yaml.compose(text, Loader=_Loader)
        for key in map(str, keys):
            below: dict[str, tuple[yaml.Node, yaml.Node]] = {}
            if isinstance(node, yaml.MappingNode):
                below = {
                    key_node.value: (key_node, value_node)
                    for key_node, value_node in node.value
                    if _is_text(key_node)
                }
            elif isinstance(node, yaml.SequenceNode):
                below = {str(place): (of, of) for place, of in enumerate(node.value)}
            if key not in below:
                break
            name, node = below[key]
            line = name.start_mark.line + 1
    return str(path) if line is None else f"{path}:{line}"


def _is_text(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode)


def _check_length(length: int, *, source: str) -> None:
    if length > _MOST_BYTES:
        what = f"is larger than {_MOST_BYTES} bytes, which no file of settings needs"
        raise ConfigError(f"{source}: {what}", location=source)
