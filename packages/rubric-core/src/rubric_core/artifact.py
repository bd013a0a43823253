"""A folder that one process writes and others read: its manifest, lock and digests.

An evaluation, the run of a trainer and a dataset are artifacts; each names its files, and says in
words of its own what to do where something is not as it was.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from pydantic import BaseModel

from rubric_core.files import file_sha256, is_temporary
from rubric_core.locks import LOCK_FILE, folder_lock
from rubric_core.rows import read_model


class Difference(NamedTuple):
    """Something that is not as it was."""

    name: str
    """Name of a setting, or of a file."""
    before: object
    """Its value before; None where it was not there."""
    now: object
    """Its value; None where it is gone, the error of a file that may not be read."""

    def text(self, verb: str = "is") -> str:
        """Return words such as "max-tokens is 512, not 1024": the value before, then the one now.

        Args:
            verb: stands after the name, which is spelled as on a command line.
        """
        return f"{self.name.replace('_', '-')} {verb} {self.before!r}, not {self.now!r}"


def differences(
    before: Mapping[str, object], now: Mapping[str, object]
) -> list[Difference]:
    """Return what was added, removed or changed, in the order of what is there now."""
    return [
        Difference(name, before.get(name), now.get(name))
        for name in {**now, **before}
        if before.get(name) != now.get(name)
    ]


def verify(
    files: Mapping[str, Path], digests: Mapping[str, str]
) -> Iterator[Difference]:
    """Yield the files that are new, changed or gone since their digests were taken.

    Args:
        files: the files that are there, by name.
        digests: SHA-256 of the files as they were, by name.

    Raises:
        OSError: a file cannot be read, for another reason than its permissions.
    """
    for name, path in files.items():
        before = digests.get(name)
        now: object = ""  # a file without a digest is new, whatever it holds
        if before is not None:
            try:
                now = file_sha256(path)
            except PermissionError as error:
                now = error
        if now != before:
            yield Difference(name, before, now)
    for name, before in digests.items():
        if name not in files:
            yield Difference(name, before, None)


Manifest = TypeVar("Manifest", bound=BaseModel)


class Artifact(Generic[Manifest]):
    """A folder with a manifest; nothing is read or made before a method is called."""

    def __init__(self, path: Path, manifest: str, model: type[Manifest]) -> None:
        """Keep the folder, the name of its manifest, and the model that the manifest is read by."""
        self.path = path
        self._manifest = manifest
        self._model = model

    @property
    def lock(self) -> Path:
        """Lock that the writing process holds."""
        return self.path / LOCK_FILE

    def locked(self) -> AbstractContextManager[None]:
        """Keep other processes from writing here; see `folder_lock`."""
        return folder_lock(self.path)

    def names(self) -> list[str]:
        """Return what the folder holds, without its lock and half-written manifests."""
        if not self.path.is_dir():
            return []
        manifest = re.escape(self._manifest)
        return sorted(
            path.name
            for path in self.path.iterdir()
            if path != self.lock and not is_temporary(path.name, of=manifest)
        )

    def read_manifest(self, *, remedy: str) -> Manifest:
        """Read the manifest; see `read_model`."""
        return read_model(self.path / self._manifest, self._model, remedy=remedy)
