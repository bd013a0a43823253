"""The files that a file of judgements was made from: written beside it, and found again."""

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from rubric_core import ConfigError, RubricFileError, Thoughts
from rubric_core.files import file_sha256, read_file, write_text
from rubric_core.rows import row_error

ENDING = ".inputs.json"
"""Ending that the file beside `judged.jsonl` adds to its name."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class InputFile(_Part):
    """A file that was read."""

    path: str
    """From the folder of the file that names it, with slashes."""
    sha256: str


class Inputs(_Part):
    """Tasks and responses of a file of judgements; no text of them."""

    tasks: InputFile
    responses: InputFile
    thoughts: Thoughts = "cut"


def write_inputs(
    judged: Path, *, tasks: Path, responses: Path, thoughts: Thoughts
) -> None:
    """Write beside a file of judgements which files it is of; of pipes nothing is written.

    Raises:
        OSError: a file cannot be read, or this one not be written.
    """
    if not (tasks.is_file() and responses.is_file() and judged.is_file()):
        return
    inputs = Inputs(
        tasks=_named(tasks, judged),
        responses=_named(responses, judged),
        thoughts=thoughts,
    )
    write_text(_beside(judged), f"{inputs.model_dump_json(indent=1)}\n")


def read_inputs(judged: Path) -> Inputs | None:
    """Return which files a file of judgements is of; None where nothing says so.

    Raises:
        RubricFileError: the file beside it is damaged.
    """
    path = _beside(judged)
    if not path.is_file():
        return None
    try:
        return Inputs.model_validate_json(read_file(path))
    except ValidationError as error:
        remedy = "remove it, and name --responses and --tasks"
        raise row_error(error, remedy, path=path) from None


def input_path(judged: Path, file: InputFile, *, flag: str) -> Path:
    """Return the path of an input that is still what was judged.

    Args:
        judged: the file of judgements.
        file: as `read_inputs` gives it.
        flag: the option that names it instead, for the error.

    Raises:
        ConfigError: it is not there any more, or was changed since.
    """
    path = Path(os.path.normpath(judged.parent / file.path))
    if not path.is_file():
        raise ConfigError(
            f"--{flag}: {judged} was made from {path}, which is not there any more: name the "
            "file",
            location=flag,
        )
    try:
        changed = file_sha256(path) != file.sha256
    except OSError as error:
        raise RubricFileError(f"cannot be read: {error.strerror}", path=path) from None
    if changed:
        raise ConfigError(
            f"--{flag}: {path} has changed since {judged} was made from it: name the file as it "
            "was, or this one if its lines are the same",
            location=flag,
        )
    return path


def _beside(judged: Path) -> Path:
    return judged.with_name(judged.name + ENDING)


def _named(file: Path, judged: Path) -> InputFile:
    target = file.resolve()
    try:
        path = Path(os.path.relpath(target, judged.resolve().parent))
    except ValueError:  # another drive of Windows
        path = target
    return InputFile(path=path.as_posix(), sha256=file_sha256(file))
