"""The cause of a run's end: found under the errors that Ray wraps it in, carried to the command."""

import pickle
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rubric_core import RubricError
from rubric_core.errors import shortened
from rubric_core.files import read_file
from rubric_train_openrlhf.errors import ClusterError

_STACKS = {
    "deepspeed",
    "openrlhf",
    "ray",
    "safetensors",
    "torch",
    "transformers",
    "vllm",
}
_OF_MACHINES = (AssertionError, ImportError, MemoryError, OSError, RuntimeError)
"""Errors that the stacks raise beside their own classes: about settings and machines, not texts."""
_SHOWN_CHARACTERS = 400
_COLOUR = re.compile(r"\x1b\[\d*m")
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def first_cause(error: BaseException) -> BaseException:
    """Follow an error to the one that came first; the nearest of ours on the way wins."""
    chain = list(_chain(error))
    return next((exception for exception in chain if _is_ours(exception)), chain[-1])


def shown(error: BaseException) -> str:
    """Say what ended a run: the first cause, and where it was raised.

    An error that may quote a text of a task or an answer is named and not quoted.
    """
    cause = first_cause(error)
    name = type(cause).__name__
    if isinstance(cause, RubricError):
        return f"{name}: {cause}"
    places = [
        place for exception in _chain(error) if (place := _place(exception)) is not None
    ]
    where = f" at {places[-1]}" if places else ""
    stack = type(cause).__module__.partition(".")[0]
    if stack not in _STACKS and not isinstance(cause, _OF_MACHINES):
        return f"{name}{where}"
    begins = shortened(" ".join(_COLOUR.sub("", str(cause)).split()), _SHOWN_CHARACTERS)
    text = last_line(cause) if getattr(cause, "actor_init_failed", False) else begins
    return f"{name}{where}: {text}" if text else f"{name}{where}"


def last_line(error: BaseException) -> str:
    """The last line of what an error says: that of Ray's about an actor ends with its cause."""
    lines = _COLOUR.sub("", str(error)).strip().splitlines()
    return shortened(lines[-1].strip(), _SHOWN_CHARACTERS) if lines else ""


def _is_ours(error: BaseException) -> bool:
    """Whether an error is of this project, and not the class that Ray makes of it and its own."""
    return isinstance(error, RubricError) and type(error).__module__ != "ray.exceptions"


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        yield at
        seen.append(at)
        # The error of a remote task carries its cause as an attribute of Ray's.
        remote: Any = getattr(at, "cause", None)
        at = remote if isinstance(remote, BaseException) else at.__cause__


def _place(error: BaseException) -> str | None:
    """Return file and line where an error was raised, as its process reported them."""
    remote_traceback: Any = getattr(error, "traceback_str", None)
    frames: list[Any] = []
    if isinstance(remote_traceback, str):
        frames = _FRAME.findall(remote_traceback)
    if frames:
        path, line = frames[-1]
        return f"{Path(path).name}:{line}"
    local_frames = traceback.extract_tb(error.__traceback__)
    if not local_frames:
        return None
    return f"{Path(local_frames[-1].filename).name}:{local_frames[-1].lineno}"


def known(error: BaseException) -> RubricError:
    """Give the cause of a failure as one of our errors."""
    cause = first_cause(error)
    return cause if isinstance(cause, RubricError) else ClusterError(shown(error))


def write_failure(path: Path, error: BaseException) -> None:
    """Write the cause of a failure for the process that started this one."""
    path.write_bytes(pickle.dumps(known(error)))


def read_failure(path: Path) -> RubricError | None:
    """Read what `write_failure` wrote; None if the process ended without writing."""
    try:
        error = pickle.loads(read_file(path))  # noqa: S301  # written by our own driver
    # A full disk may have cut the file off, and pickle may then raise anything.
    except Exception:  # noqa: BLE001
        return None
    return error if isinstance(error, RubricError) else None
