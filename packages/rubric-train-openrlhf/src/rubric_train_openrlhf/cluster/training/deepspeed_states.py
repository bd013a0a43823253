"""DeepSpeed's states of a run, of which the last whole one is marked.

A state is a folder with files of every rank, and takes minutes to write. The mark is put on it in
one step, after all ranks have come back; only then older states are deleted. What a kill leaves
without a mark is deleted when the run goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError

from rubric_core.files import read_file
from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.run.checkpoints import checkpoint_path, drop_after, prune
from rubric_train_openrlhf.run.writing import disk_errors, write_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


class StateMark(BaseModel):
    """The last whole state."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: PositiveInt
    """Steps done."""
    files: dict[str, NonNegativeInt]
    """Bytes of each file, by its name in the folder of the state."""


class DeepSpeedStates:
    """The folders `step_*` that DeepSpeed writes, their mark, and the file `latest` it loads by."""

    def __init__(self, folder: Path) -> None:
        """Name the files; nothing is created.

        Args:
            folder: `ckpt.path` of OpenRLHF's command.
        """
        self._folder = folder / "_actor"
        self._latest = self._folder / "latest"
        self._mark = folder / "complete.json"

    def path(self, step: int) -> Path:
        """Folder of a step's state."""
        return checkpoint_path(self._folder, step=step)

    def mark(self, step: int, seen: Iterable[Mapping[str, int]], *, keep: int) -> None:
        """Mark a state that all ranks have written, then delete the older ones.

        Args:
            step: of the state.
            seen: bytes of its files, as each of the ranks sees them.
            keep: newest states to keep.

        Raises:
            DiskWriteError: the mark could not be written, or a folder not be deleted.
        """
        files: dict[str, int] = {}
        for rank in seen:
            # On a shared file system, another machine's files can appear late.
            files |= {name: max(size, files.get(name, 0)) for name, size in rank.items()}
        write_text(self._mark, StateMark(step=step, files=files).model_dump_json(indent=2) + "\n")
        write_text(self._latest, self.path(step).name)
        prune(self._folder, keep=keep, best=())

    def check(self) -> int:
        """Find the state to go on from, and look whether all of it is there.

        Returns:
            Its step; 0 where none was finished.

        Raises:
            ResumeError: the mark is damaged, or names a state of which something is missing.
        """
        mark = self._read_mark()
        if mark is None:
            return 0
        state = self.path(mark.step)
        if wrong := _first_wrong(state, mark.files):
            raise ResumeError(
                f"{str(self._mark)!r} marks the state of step {mark.step} as the last whole one, "
                f"but {wrong}; bring it back from a copy, or start again in another `out`",
                path=state,
            )
        return mark.step

    def go_back(self) -> None:
        """Delete what came after the last whole state, and have DeepSpeed load that one.

        Raises:
            ResumeError: the mark is damaged; nothing was deleted.
            DiskWriteError: a folder could not be deleted, or a file not be written.
        """
        mark = self._read_mark()
        drop_after(self._folder, step=mark.step if mark else 0)
        if mark:
            write_text(self._latest, self.path(mark.step).name)
        else:
            with disk_errors(self._latest):
                self._latest.unlink(missing_ok=True)

    def check_loaded(self, step: int) -> None:
        """See that DeepSpeed has loaded the last whole state, and no other.

        Args:
            step: of what it has loaded; 0 where it has loaded nothing.

        Raises:
            ResumeError: it has loaded another.
        """
        mark = self._read_mark()
        last = mark.step if mark else 0
        if step != last:
            raise ResumeError(
                f"DeepSpeed has loaded the state of step {step} from {str(self._folder)!r}, where "
                f"the last whole one is that of step {last}; start with --resume again",
                path=self._folder,
            )

    def _read_mark(self) -> StateMark | None:
        try:
            return StateMark.model_validate_json(read_file(self._mark))
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise ResumeError(
                f"{str(self._mark)!r} does not tell the last whole state of the run "
                f"({type(error).__name__}); bring it back from a copy, or start again in another "
                "`out`",
                path=self._mark,
            ) from error


def _first_wrong(state: Path, files: Mapping[str, int]) -> str | None:
    if not state.is_dir():
        return f"{str(state)!r} is missing"
    for name, size in files.items():
        file = state / name
        if not file.is_file():
            return f"{str(file)!r} is missing"
        if (found := file.stat().st_size) != size:
            return f"{str(file)!r} has {found} bytes instead of {size}"
    return None
