"""Files that a command is to write: looked at before anything is spent on it."""

import os
import re
from contextlib import suppress
from pathlib import Path

from rubric_core.errors import ConfigError
from rubric_core.files import check_writable, remove_unfinished, resolved


def require_writable(
    out: Path,
    *,
    flag: str,
    inputs: tuple[Path | None, ...] = (),
    endings: tuple[str, ...] = (),
    makes_folders: bool = False,
) -> None:
    """Refuse a file that could not be written at the end, before anything is spent on it.

    What killed writers of it have left beside it, which may hold hidden texts, is removed.

    Args:
        out: the file, which may be a pipe.
        flag: how the command line calls it.
        inputs: what the command reads, which it must not write over.
        endings: endings that files beside it add to its name, unless it is a pipe.
        makes_folders: whether the command makes the folders above it.

    Raises:
        ConfigError: one is a folder or an input, or cannot be written where it is.
    """
    for ending in ("", *endings):
        path = Path(f"{out}{ending}")
        if problem := _problem(path, inputs, makes_folders=makes_folders):
            raise ConfigError(f"{flag} {path}: {problem}", location=flag.lstrip("-"))
        if path.exists() and not path.is_file():
            return
        target = resolved(path)
        with suppress(OSError):
            remove_unfinished(target.parent, re.escape(target.name))


def _problem(
    out: Path, inputs: tuple[Path | None, ...], *, makes_folders: bool
) -> str | None:
    try:
        if problem := _wrong_kind(out, inputs):
            return problem
        folder = out.parent if not out.is_symlink() else resolved(out).parent
        if not makes_folders and not folder.is_dir():
            return f"there is no folder {folder}: create it, or write elsewhere"
        check_writable(out, makes_folders=makes_folders)
    except PermissionError:
        return (
            f"the folder {out.parent} cannot be written to: open it, or write elsewhere"
        )
    except OSError as error:
        return f"{error.strerror}: write elsewhere, or by another name"
    return None


def _wrong_kind(out: Path, inputs: tuple[Path | None, ...]) -> str | None:
    file = resolved(out)
    if out.is_dir():
        return "this is a folder: name a file in it"
    # A link that leads nowhere is an error where it is read.
    if any(path and Path(os.path.realpath(path)) == file for path in inputs):
        return "this command reads the same file: write to another one"
    if out.exists() and not out.is_file():  # a pipe is written straight to
        is_open = os.access(out, os.W_OK)
        return None if is_open else "it is not open for writing: name a file"
    return None
