"""What a derived file was made from, by content, so that a stale one is noticed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel

from rubric_core.files import open_file
from rubric_eval.records.run import FROZEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rubric_eval.records.layout import EvalFolder

_PARTS: Final = ("answers", "items", "scores")


class InputFile(BaseModel):
    """A file that was read."""

    model_config = FROZEN

    path: str
    """From the folder of the file that was made of it, with slashes."""

    sha256: str


def evaluation_files(folder: EvalFolder) -> list[Path]:
    """Find what the values of an evaluation are read from, in a fixed order."""
    files = [path for path in (folder.run, folder.questions) if path.is_file()]
    for part in _PARTS:
        files += sorted((folder.root / part).rglob("*.jsonl"))
    return files


def path_from(file: Path, *, to: Path) -> str:
    """Name a path from the folder of a file, with slashes, so that both can be moved together."""
    return Path(os.path.relpath(to.resolve(), file.resolve().parent)).as_posix()


def hashed_inputs(files: Iterable[Path], *, beside: Path) -> tuple[InputFile, ...]:
    """Hash files.

    Args:
        files: what was read.
        beside: the file that is made of them.

    Raises:
        OSError: a file cannot be read.
    """
    return tuple(InputFile(path=path_from(beside, to=path), sha256=_sha256(path)) for path in files)


def changed_inputs(
    inputs: Sequence[InputFile], *, beside: Path, folders: Sequence[EvalFolder]
) -> list[str]:
    """Find what is new, gone or different since a file was made.

    Args:
        inputs: as they were.
        beside: the file that was made of them.
        folders: whose files should be among them.

    Returns:
        Paths as the inputs name them; none while the file is up to date.
    """
    home = beside.resolve().parent
    then = {one.path: one.sha256 for one in inputs}
    now = {
        one.path: one.sha256
        for folder in folders
        for one in hashed_inputs(evaluation_files(folder), beside=beside)
    }
    for path in then.keys() - now.keys():  # named one by one, such as a file of tasks
        if (home / path).is_file():
            now[path] = _sha256(home / path)
    return sorted(path for path in then.keys() | now.keys() if then.get(path) != now.get(path))


def _sha256(path: Path) -> str:
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
