"""Writes that a kill or a full disk cannot leave half done; TensorBoard's event files too."""

import contextlib
import os
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel
from safetensors import SafetensorError

from rubric_core import files
from rubric_core.files import (
    append_whole,
    open_to_append,
    replace_link,
    replacing,
    replacing_folder,
    sync,
)
from rubric_train_openrlhf.errors import DiskWriteError

_WHOLE = {
    "": r"config\.resolved\.yaml|(environment|admission)\.json|summary\.json",
    "rollouts": r"step_\d{6,}\.jsonl",
    "judgements": r"step_\d{6,}\.jsonl",
    "checkpoints": r"best|step_\d{6,}",
    "checkpoints/trainer": r"complete\.json",
    "checkpoints/trainer/_actor": r"latest|step_\d{6,}",
}
"""The names that are written whole or not at all, by folder."""
_EARLIER = r"\.\.step_\d{6,}\.tmp\.[0-9a-f]{32}"
"""Temporary folders of policies in earlier releases."""


@contextlib.contextmanager
def disk_errors(path: Path) -> Generator[None]:
    """Turn what the system and safetensors raise on a failed write into one error.

    Raises:
        DiskWriteError: with the path and the system's reason.
    """
    try:
        yield
    except DiskWriteError:
        raise
    except (OSError, SafetensorError) as exc:
        reason = getattr(exc, "strerror", None) or str(exc).partition("\n")[0]
        raise _disk_error(path, reason) from exc


def _disk_error(path: Path, reason: str) -> DiskWriteError:
    return DiskWriteError(
        f"cannot write {str(path)!r}: {reason}; make room or choose another `out`, then "
        "continue the run with --resume",
        path=path,
    )


def write_text(path: Path, text: str) -> None:
    """Replace the file in one step; a failure leaves the old one as it was."""
    write_lines(path, (text,), end="")


def write_lines(path: Path, lines: Iterable[str], *, end: str = "\n") -> None:
    """Replace the file by these lines in one step; the processes of a run may do so at once."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.writelines(f"{line}{end}".encode() for line in lines)
        sync(path.parent)


def save_tensors(path: Path, tensors: object) -> None:
    """Write a nest of tensors and plain values in torch's format."""
    # Rows and folders are written by processes that have no other use for torch.
    import torch

    try:
        torch.save(tensors, path)
    except (OSError, RuntimeError) as exc:
        # torch's archive writer has only RuntimeErrors, which do not name the cause.
        raise _disk_error(path, "not all of it could be written") from exc


def append_line(path: Path, line: str) -> None:
    """Add one line and wait until it is on disk; a failure leaves the file as it was."""
    with disk_errors(path), open_to_append(path) as file:
        descriptor = file.fileno()
        size = os.fstat(descriptor).st_size
        append_whole(descriptor, f"{line}\n".encode(), size=size, on_disk=True)


@contextlib.contextmanager
def whole_folder(path: Path) -> Generator[Path]:
    """Give a temporary folder to fill; it takes the name `path` only when all is written."""
    with disk_errors(path):
        with replacing_folder(path) as temporary:
            yield temporary
            sync_files(temporary)
        sync(path.parent)


def sync_files(folder: Path) -> dict[str, int]:
    """Wait until a folder and all files below it are on disk, whoever has written them.

    Returns:
        Bytes of each file, by its path below the folder.
    """
    sizes = {
        file.relative_to(folder).as_posix(): file.stat().st_size
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
    for name in sizes:
        sync(folder / name)
    sync(folder)
    return sizes


def point_link(link: Path, target: str) -> None:
    """Make `link` a relative symbolic link to its neighbour `target`, in one step."""
    with disk_errors(link):
        replace_link(link, target)


def remove_unfinished(folder: Path) -> None:
    """Delete what a kill left half written: temporary names of ours in their places alone."""
    for place, names in _WHOLE.items():
        # A link, and what goes, has a name of no random part.
        earlier = rf"\.({names})\.tmp|{_EARLIER}"
        files.remove_unfinished(folder / place, names, earlier=earlier)


class EventWriter(contextlib.AbstractContextManager["EventWriter"]):
    """Writes every number of a row as one scalar per step."""

    def __init__(self, folder: Path, *, first_step: int) -> None:
        """Open the folder; events of `first_step` and later, from before a kill, are hidden."""
        # Half a second of import that only a run needs.
        from torch.utils.tensorboard.writer import SummaryWriter

        with disk_errors(folder):
            self._writer = SummaryWriter(str(folder), purge_step=first_step)

    def __exit__(self, *_: object) -> None:
        """Flush and close."""
        self._writer.close()

    def write(self, group: str, row: BaseModel, *, step: int) -> None:
        """Write the numbers of a row, and of the tables in it, under `group`; None is left out."""
        for tag, number in numbers(group, row.model_dump(exclude={"step", "best"})):
            self._writer.add_scalar(tag, number, step)


def numbers(prefix: str, table: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the values of a table, and of tables in it, by their tags; None is left out."""
    for name, value in table.items():
        tag = f"{prefix}/{name}"
        if isinstance(value, dict):
            yield from numbers(tag, cast("dict[str, Any]", value))
        elif value is not None:
            yield tag, value
