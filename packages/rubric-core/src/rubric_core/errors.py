"""The errors of rubric_core.

RubricError
├── SchemaError (ValueError)            a criterion, rubric, task or result that is not well formed
│   ├── RubricFileError                 the same, in a file: path, line and field
│   ├── NotJsonError                    a text that is not one JSON document
│   │   └── RepeatedKeyError            a JSON object that holds a key twice
│   └── ReplyError                      a judge's reply that departs from the contract
├── RewardError (ValueError)            numbers that no reward or advantage can be computed from
│   ├── RewardShapeError                arrays whose axes do not fit
│   └── UnavailableRewardError          a reward asked of a judgement that never happened
├── LeakError (ValueError)              a question that holds its own passage or rubric
├── PluginError (LookupError)           an unknown, ambiguous or unusable judge, trainer or sandbox
├── ResponderError (RuntimeError)       a model that cannot answer at all
├── AtPathError                         something about one file or folder
│   └── FolderLockError (RuntimeError)  a folder that another run is at work in
├── MissingExtraError (ImportError)     an optional dependency that is not installed
└── ConfigError (ValueError)            a configuration that does not fit its model

Every error can be pickled with its attributes. Messages hold ids, numbers, lengths and hashes,
never the text of a passage, a criterion or a response.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from rubric_core.outcome import Reason


def shortened(text: str, most: int) -> str:
    """Return a text for a message; one longer than `most` characters is cut, and ends with `…`."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _rebuild(cls: type[RubricError], args: tuple[object, ...]) -> RubricError:
    return cls.__new__(cls, *args)


class RubricError(Exception):
    """Base of every error that these packages raise on purpose."""

    def __reduce__(
        self,
    ) -> tuple[Callable[..., RubricError], tuple[object, ...], dict[str, object]]:
        """Rebuild without `__init__`, so that its keyword-only arguments need no copy here."""
        return _rebuild, (type(self), self.args), self.__dict__


class SchemaError(RubricError, ValueError):
    """A criterion, rubric, task or result that is not well formed.

    Attributes:
        field: dotted path of the first wrong field, such as `criteria.2.weight`, if one is known.
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class RubricFileError(SchemaError):
    """A file that does not hold well-formed tasks.

    Attributes:
        path: the file.
        line: 1-based line (row, in a Parquet file), or None when the whole file is unusable.
        field: dotted path of the first wrong field in that line, if one is known.
    """

    def __init__(
        self,
        message: str,
        *,
        path: Path,
        line: int | None = None,
        field: str | None = None,
    ) -> None:
        place = str(path) if line is None else f"{path}:{line}"
        super().__init__(f"{place}: {message}", field=field)
        self.path = path
        self.line = line


class NotJsonError(SchemaError):
    """A text that is not one JSON document; the message goes on after "is", and says the place."""


class RepeatedKeyError(NotJsonError):
    """A JSON object that holds the same key twice.

    Attributes:
        key: the key that repeats most; not in the message, for it may be anything.
    """

    def __init__(self, *, key: str) -> None:
        super().__init__("not usable: an object holds the same key twice")
        self.key = key


class ReplyError(SchemaError):
    """A judge's reply that departs from the contract.

    Attributes:
        reason: the machine-readable reason.
    """

    def __init__(self, message: str, *, reason: Reason) -> None:
        super().__init__(message)
        self.reason = reason


class RewardError(RubricError, ValueError):
    """Numbers that no reward or advantage can be computed from."""


class RewardShapeError(RewardError):
    """Arrays whose axes do not fit together."""


class UnavailableRewardError(RewardError):
    """A reward was asked of a judgement that never happened."""


class LeakError(RubricError, ValueError):
    """A question that holds part of its own passage or rubric.

    Attributes:
        task_ids: the tasks that leak, in the order in which they were read.
    """

    def __init__(self, message: str, *, task_ids: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.task_ids = task_ids


class PluginError(RubricError, LookupError):
    """An unknown, ambiguous or unusable judge, trainer or sandbox."""


class ResponderError(RubricError, RuntimeError):
    """A model that cannot answer at all: it does not load, or nobody serves it."""


class AtPathError(RubricError):
    """Something about one file or folder.

    Attributes:
        path: the file or folder.
    """

    def __init__(self, message: str, *, path: Path | str | None = None) -> None:
        super().__init__(message)
        self.path = path


class FolderLockError(AtPathError, RuntimeError):
    """A folder that another run is at work in, or that cannot be made or written into."""


class MissingExtraError(RubricError, ImportError):
    """An optional dependency that is not installed."""


def install_command(package: str, extra: str, *, beside: tuple[str, ...] = ()) -> str:
    """Return how to install an extra of one of these packages, which are on no index.

    Args:
        package: one of these packages.
        extra: the package's extra.
        beside: more of these packages, which the extra consists of.
    """
    folders = "".join(f"./packages/{name} " for name in beside)
    return (
        f"run `uv pip install --no-sources {folders}'./packages/{package}[{extra}]'` in the "
        "checkout"
    )


@contextmanager
def needing_extra(package: str, extra: str, *, by: str) -> Generator[None]:
    """Name the extra to install where an import within fails.

    Args:
        package: one of these packages.
        extra: the package's extra.
        by: the thing that needs it, as the beginning of the message.

    Raises:
        MissingExtraError: a library is missing, or cannot be imported.
    """
    try:
        yield
    except ImportError as error:
        problem = f"{by} needs {error.name or 'a library'}"
        if not isinstance(error, ModuleNotFoundError):
            problem += f", which fails here ({error})"
        remedy = install_command(package, extra)
        raise MissingExtraError(f"{problem}: {remedy}") from error


class ConfigError(RubricError, ValueError):
    """A configuration that does not fit its model.

    Attributes:
        location: dotted path of the first wrong key.
    """

    def __init__(self, message: str, *, location: str = "") -> None:
        super().__init__(message)
        self.location = location
