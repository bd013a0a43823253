"""DeepSpeed's states, of which the last whole one is marked, and the policies beside them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError

from rubric_core.files import read_file
from rubric_train_openrlhf.config.sections import CheckpointConfig
from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.run import checkpoints as folders
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.live_summary import best_step
from rubric_train_openrlhf.run.writing import disk_errors, write_text


class TrainPosition(BaseModel):
    """Position that DeepSpeed keeps beside its own state; all else follows from seed and weights.

    Without a state, a run is at its start.
    """

    model_config = ConfigDict(frozen=True)

    step: NonNegativeInt = 0
    """Steps done."""
    prompts_drawn: NonNegativeInt = 0
    """Position in the endless order of prompts."""
    wall_s: float = 0.0
    """Seconds spent so far, restarts included."""


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
        return folders.checkpoint_path(self._folder, step=step)

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
            files |= {
                name: max(size, files.get(name, 0)) for name, size in rank.items()
            }
        write_text(
            self._mark,
            StateMark(step=step, files=files).model_dump_json(indent=2) + "\n",
        )
        write_text(self._latest, self.path(step).name)
        folders.prune(self._folder, keep=keep, best=())

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
                f"{str(self._mark)!r} marks the state of step {mark.step} as the last whole "
                f"one, but {wrong}; bring it back from a copy, or start again in another `out`",
                path=state,
            )
        return mark.step

    def go_back(self) -> None:
        """Delete what came after the last whole state, and have DeepSpeed load that one.

        Raises:
            ResumeError: the mark is damaged; nothing was deleted.
            DiskWriteError: a folder could not be deleted, or a file not be written.
        """
        last = self._last_step
        folders.drop_after(self._folder, step=last)
        if last:
            write_text(self._latest, self.path(last).name)
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
        if step != (last := self._last_step):
            raise ResumeError(
                f"DeepSpeed has loaded the state of step {step} from {str(self._folder)!r}, "
                f"where the last whole one is that of step {last}; start with --resume again",
                path=self._folder,
            )

    @property
    def _last_step(self) -> int:
        mark = self._read_mark()
        return mark.step if mark else 0

    def _read_mark(self) -> StateMark | None:
        try:
            return StateMark.model_validate_json(read_file(self._mark))
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise ResumeError(
                f"{str(self._mark)!r} does not tell the last whole state of the run "
                f"({type(error).__name__}); bring it back from a copy, or start again in "
                "another `out`",
                path=self._mark,
            ) from error


def _first_wrong(state: Path, files: Mapping[str, int]) -> str | None:
    if not state.is_dir():
        return f"{str(state)!r} is missing"
    for name, size in files.items():
        file = state / name
        if not file.is_file():
            return f"{str(file)!r} is missing"
        written_size = file.stat().st_size
        if written_size != size:
            return f"{str(file)!r} has {written_size} bytes instead of {size}"
    return None


def check_policies(checkpoints: Path, *, state: int, every: int) -> None:
    """See that a run has not lost the state that a policy of it was saved after.

    Args:
        checkpoints: folder of the run's policies.
        state: step of the last whole state, 0 for none.
        every: steps between two states.

    Raises:
        ResumeError: it has; nothing was deleted.
    """
    later = folders.latest_checkpoint(checkpoints)
    if later is None:
        return
    step = folders.step_of(later)
    # States come before the policies of their steps.
    if step // every * every > state:
        trainer = checkpoints / "trainer"
        raise ResumeError(
            f"{str(checkpoints)!r} holds the policy of step {step}, but the last state that "
            f"DeepSpeed can go on from is that of step {state}; bring {str(trainer)!r} back "
            "from a copy, or start again in another `out`",
            path=checkpoints,
        )


@dataclass
class PolicyCheckpoints:
    """The folders `step_*` of a run, and its link `best`.

    Without held-out passes in the folder the last policy is the best.
    """

    folder: RunFolder
    config: CheckpointConfig
    """How many are kept."""
    state_step: int = 0
    """The step that training can go on from."""
    keeps_before_drift: bool = False
    """Whether an alarm goes back to the last checkpoint before the drift."""
    onset: int | None = None
    """Steps done by the first policy that seems to drift."""

    def go_back(self, step: int) -> None:
        """Drop what comes after the state of this step; the rows are cut back already."""
        folders.drop_after(self.folder.checkpoints, step=step)
        self.state_step = step
        best = best_step(self.folder, up_to=step)
        if self.path(best).exists():
            folders.mark_best(self.folder.checkpoints, step=best)

    def save(self, step: int, write: Callable[[Path], None]) -> None:
        """Save the policy, point `best` at the best, and drop old checkpoints.

        Args:
            step: of the policy.
            write: writes it to the folder it is given.
        """
        write(self.path(step))
        best = best_step(self.folder, up_to=step)
        folders.mark_best(self.folder.checkpoints, step=best)
        resumed_best = best_step(self.folder, up_to=self.state_step)
        kept = {best, resumed_best}
        if self.keeps_before_drift:
            # The next look is the first that may see a drift of this very policy.
            onset = step if self.onset is None else self.onset
            kept.add(folders.last_before(self.folder.checkpoints, onset=onset))
        folders.prune(self.folder.checkpoints, keep=self.config.keep, best=kept)

    def roll_back(self) -> int:
        """Make the last checkpoint before the drift the best; return its step."""
        step = folders.last_before(self.folder.checkpoints, onset=self.onset or 0)
        folders.mark_best(self.folder.checkpoints, step=step)
        return step

    def path(self, step: int) -> Path:
        """Folder of a step's policy."""
        return folders.checkpoint_path(self.folder.checkpoints, step=step)
