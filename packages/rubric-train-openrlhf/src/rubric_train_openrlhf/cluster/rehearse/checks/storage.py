"""Is there room for what the run writes, and may it write there?"""

from __future__ import annotations

import os
import secrets
import shutil
from typing import TYPE_CHECKING, Final

from rubric_train_openrlhf.cluster.rehearse.finding import failed, passed, unchecked, warning

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rubric_train_openrlhf.cluster.rehearse.finding import Finding
    from rubric_train_openrlhf.cluster.rehearse.subject import Subject

_GIB: Final = 2**30
_LONGEST_PATH: Final = 120
_OTHER: Final = "choose another `out`"


def check_output_folder(subject: Subject) -> Iterator[Finding]:
    """Make a folder beside the run's and take it away again; a run in it must be meant."""
    out = subject.known.out
    try:
        parent = _existing(out)
        holds_run = (out / "config.resolved.yaml").exists()
    except OSError as error:
        yield failed(
            f"there can be no folder {_short(out)!r}: {error.strerror}", where="out", remedy=_OTHER
        )
        return
    if not parent.is_dir():
        yield failed(
            f"{str(parent)!r} is a file, so that no run folder can be at {str(out)!r}",
            where="out",
            remedy=_OTHER,
        )
        return
    if holds_run:
        yield warning(
            f"{str(out)!r} holds a run already",
            where="out",
            remedy="continue it with --resume, or choose another out",
        )
    if not os.access(parent, os.W_OK | os.X_OK):
        yield subject.absent(
            f"{str(parent)!r} is not writable by this user", where="out", remedy=_OTHER
        )
        return
    try:
        made = parent / f".rehearsal-{secrets.token_hex(4)}"
        made.mkdir()
        (made / "probe").write_text("probe\n", encoding="utf-8")
        shutil.rmtree(made)
    except OSError as error:
        yield failed(
            f"{str(parent)!r} cannot be written to: {error.strerror}", where="out", remedy=_OTHER
        )
        return
    yield passed(f"{str(parent)!r} is writable", where="out")


def _existing(path: Path) -> Path:
    """What is at the path, or the nearest above it that is there.

    Raises:
        OSError: no file system could hold such a path.
    """
    path = path.absolute()
    return next(place for place in (path, *path.parents) if place.exists())


def _short(path: Path) -> str:
    text = str(path)
    return text if len(text) <= _LONGEST_PATH else f"{text[:_LONGEST_PATH]}…"


def room(subject: Subject, *, needed_bytes: int, what: str) -> Finding:
    """Compare what the checkpoints take with what the disk of `out` has."""
    try:
        free_bytes = shutil.disk_usage(_existing(subject.known.out)).free
    except OSError as error:
        return unchecked(f"there is no disk to look at: {error.strerror}", where="out")
    needed, free = needed_bytes / _GIB, free_bytes / _GIB
    said = f"{what} take up to {needed:.1f} GiB; {free:.1f} GiB are free here"
    if needed_bytes <= free_bytes:
        return passed(said, where="out")
    if subject.request.on_cluster:
        return failed(said, where="out", remedy="choose a larger disk, or lower checkpoint.keep")
    return unchecked(said, where="out", remedy=f"have {needed:.1f} GiB where `out` is there")
