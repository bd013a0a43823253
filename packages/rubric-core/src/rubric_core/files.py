"""Files: opened without a way to hang, read row by row, written whole or not at all."""

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import tomllib
from codecs import BOM_UTF8
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Any, BinaryIO, cast

from rubric_core.errors import NotJsonError, RubricFileError, SchemaError
from rubric_core.locks import abandoned, hold
from rubric_core.nearest import near
from rubric_core.strict_json import decode

_DESCRIPTORS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Paths of files that the process has open already; a shell writes `<(command)` as one of them."""


def open_file(path: Path, *, buffering: int = -1) -> BufferedReader:
    """Open a file that somebody named, for reading; `buffering` is as in `open`.

    The file may be regular, `/dev/null`, or open in the process already, such as `/dev/stdin`. To
    open a named pipe is to wait for its writer, and a device may never end.

    Raises:
        OSError: it cannot be opened, or is anything else.
    """
    return cast("BufferedReader", open(path, "rb", buffering, opener=_open))


def open_to_append(path: Path) -> BufferedWriter:
    """Open a file, made if it is missing, to write at its end.

    Raises:
        OSError: as `open_file`.
    """
    return open(path, "ab", opener=_open)


def _open(path: str, flags: int) -> int:
    # Without a reader, a pipe opens at once only for both reading and writing.
    if flags & os.O_WRONLY:
        flags = flags & ~os.O_WRONLY | os.O_RDWR
    try:
        handle = os.open(path, flags | os.O_NONBLOCK, 0o666)
    except FileNotFoundError as error:
        error.strerror = f"{error.strerror}{near(Path(path))}"
        raise
    try:
        _check_kind(os.fstat(handle).st_mode, path)
        os.set_blocking(handle, True)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _check_kind(mode: int, path: str) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    place = os.path.abspath(path)  # noqa: PTH100  # `resolve` would follow /dev/stdin
    if place != os.devnull and not place.startswith(_DESCRIPTORS):
        kind = "a named pipe" if stat.S_ISFIFO(mode) else "a device"
        raise OSError(
            errno.EINVAL,
            f"this is {kind} and may never end: name a regular file, or /dev/stdin",
            path,
        )


def read_file(path: Path) -> bytes:
    """Return the bytes of a file that somebody named.

    Raises:
        OSError: as `open_file`.
    """
    with open_file(path) as file:
        return file.read()


def append_whole(
    descriptor: int, line: bytes, *, size: int, on_disk: bool = False
) -> None:
    """Append a line to a file, or nothing of it.

    The kernel has the line on return, so that a process that is killed loses nothing that it wrote.

    Args:
        descriptor: a file opened with `O_APPEND`, which nobody else writes to.
        line: the line, with its end.
        size: bytes of the file before; it is cut back to them if the line does not fit.
        on_disk: whether to wait until the line is on the disk too.

    Raises:
        OSError: it could not be written.
    """
    rest = memoryview(line)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if on_disk:
            os.fsync(descriptor)
    except OSError:
        with suppress(OSError):  # half a line helps nobody
            os.ftruncate(descriptor, size)
        raise


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal.

    Raises:
        OSError: as `open_file`.
    """
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text_sha256(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def toml_beside(module: str, name: str) -> dict[str, Any]:
    """Return the TOML file that lies beside a module, given the module's `__file__`."""
    return tomllib.loads(read_file(Path(module).with_name(name)).decode())


def read_lines(
    path: Path, *, exact: bool = False
) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield (1-based line, its object) of a JSON Lines file.

    Blank lines are skipped, and so is the mark that some editors put before UTF-8.

    Args:
        path: the file.
        exact: as in `decode`.

    Raises:
        RubricFileError: a line that is no JSON object, with its place.
        OSError: the file cannot be read.
    """
    for line, row in read_each_line(path, exact=exact):
        if isinstance(row, SchemaError):
            raise RubricFileError(str(row), path=path, line=line) from None
        yield line, row


def read_each_line(
    path: Path, *, exact: bool = False
) -> Iterator[tuple[int, dict[str, object] | SchemaError]]:
    """Yield the same as `read_lines`, but the error in place of a line that is no JSON object.

    Raises:
        OSError: the file cannot be read.
    """
    with open_file(path) as file:
        for line, raw in enumerate(file, start=1):
            text = raw.removeprefix(BOM_UTF8) if line == 1 else raw
            if text.strip():
                yield line, _row(text, exact=exact)


def _row(raw: bytes, *, exact: bool) -> dict[str, object] | SchemaError:
    try:
        row = decode(raw.rstrip(b"\r\n"), exact=exact)
    except NotJsonError as error:
        return error
    if not isinstance(row, dict):
        return SchemaError(
            f"a line must hold one JSON object, not {type(row).__name__}"
        )
    return cast("dict[str, object]", row)


def write_lines(file: BinaryIO, rows: Iterable[dict[str, object]]) -> int:
    """Write one line for each row; return their number."""
    count = 0
    for row in rows:
        file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        count += 1
    return count


@contextmanager
def replacing(path: Path) -> Generator[BinaryIO]:
    """Open a file that takes the place of `path` when the block ends well, and vanishes if not.

    A path that is not a regular file, such as a pipe, is written to directly; a link stays a link.

    Raises:
        OSError: it cannot be written, or is a named pipe that nobody reads.
    """
    is_file = path.is_file() or not path.exists()
    target = resolved(path)
    temporary = None
    try:
        if is_file:
            temporary, opened = _fresh_file(target)
        else:
            opened = _open_to_write(path)
        with opened as file:
            yield file
            file.flush()
            if temporary is not None:
                os.fsync(file.fileno())
                temporary.replace(target)  # while it is locked
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def check_writable(path: Path, *, makes_folders: bool = False) -> None:
    """Do what `replacing` begins with, and leave nothing: for before what takes long.

    A path that is neither a file nor missing, such as a pipe, is left as it is.

    Args:
        path: a file or folder that is to be written.
        makes_folders: whether the folders above it are made where they are missing.

    Raises:
        OSError: it could not be written there.
    """
    if path.exists() and not path.is_file():
        return
    highest = resolved(path)
    while makes_folders and not highest.parent.exists():
        highest = highest.parent
    temporary = _temporary(highest)
    try:
        temporary.open("xb").close()
        temporary.unlink()
    except OSError as error:
        error.filename = str(path)
        raise


def resolved(path: Path) -> Path:
    """Return the place that a path leads to through links, which need not be there.

    Raises:
        OSError: a link leads back to itself.
    """
    try:
        return path.resolve()
    except RuntimeError:  # pathlib's, up to Python 3.12
        text = "a link that leads back to itself"
        raise OSError(errno.ELOOP, text, str(path)) from None


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def write_text(path: Path, text: str) -> None:
    """Write a file whole, in UTF-8, or leave the older one.

    Raises:
        OSError: as `replacing`.
    """
    with replacing(path) as file:
        file.write(text.encode())


def _open_to_write(path: Path) -> BufferedWriter:
    try:
        handle = os.open(os.fspath(path), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            error.strerror = (
                "nobody reads this named pipe: start its reader first, or remove it"
            )
        raise
    os.set_blocking(handle, True)
    return os.fdopen(handle, "wb")


@contextmanager
def replacing_folder(path: Path) -> Generator[Path]:
    """Make an empty folder that takes the place of `path` when the block ends well, or vanishes.

    Raises:
        OSError: it cannot be written; an older folder is still there.
    """
    old = _temporary(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh, descriptor = _fresh_folder(path)
    try:
        yield fresh
        if path.exists():  # a folder cannot be renamed over one with content
            path.rename(old)
        fresh.rename(path)
        with suppress(OSError):
            remove_unfinished(path.parent, re.escape(path.name))
    finally:
        if old.exists() and not path.exists():
            old.rename(path)
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)
        os.close(descriptor)


def _fresh_file(target: Path) -> tuple[Path, BufferedWriter]:
    while True:
        temporary = _temporary(target)
        file = temporary.open("xb")
        if hold(file.fileno(), temporary):
            return temporary, file
        file.close()
        temporary.unlink(missing_ok=True)


def _fresh_folder(target: Path) -> tuple[Path, int]:
    while True:
        temporary = _temporary(target)
        temporary.mkdir()
        with suppress(FileNotFoundError):  # another writer took it for a killed one's
            descriptor = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY)
            if hold(descriptor, temporary):
                return temporary, descriptor
            os.close(descriptor)
            shutil.rmtree(temporary, ignore_errors=True)


def is_temporary(name: str, *, of: str) -> bool:
    """Return whether a name is one that `replacing` or `replacing_folder` writes under.

    Args:
        name: the name of a file or folder.
        of: a regular expression of the names that it may be meant to take.
    """
    return re.fullmatch(rf"\.(?:{of})\.[0-9a-f]{{8}}\.tmp", name) is not None


def remove_unfinished(folder: Path, of: str, *, earlier: str = r"(?!)") -> None:
    """Remove what writers that were killed have left in a folder; that of a live one stays.

    Args:
        folder: where they wrote; it may be missing.
        of: as in `is_temporary`; everything else is somebody's.
        earlier: a regular expression of temporary names that an earlier release gave.

    Raises:
        OSError: something cannot be removed.
    """
    for path in list(folder.glob(".*")):
        if not is_temporary(path.name, of=of) and not re.fullmatch(earlier, path.name):
            continue
        with abandoned(path) as is_abandoned:
            if is_abandoned and path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif is_abandoned:
                path.unlink(missing_ok=True)  # another may remove it too, and faster


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk.

    Raises:
        OSError: it cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_link(link: Path, target: str) -> None:
    """Make `link` a relative symbolic link to its neighbour `target`, in one step."""
    temporary = link.with_name(f".{link.name}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(link)
