"""What a run goes on from after a kill at any place: folders as DeepSpeed leaves them, no Ray."""

from __future__ import annotations

import resource
import shutil
from typing import TYPE_CHECKING

import pytest

from rubric_train_openrlhf.cluster.training.trainer_states import DeepSpeedStates
from rubric_train_openrlhf.errors import DiskWriteError, ResumeError
from rubric_train_openrlhf.run.writing import remove_unfinished, sync_files

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "mp_rank_00_model_states.pt"
RANKS = tuple(
    f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in range(2)
)


class SmallRun:
    """A run folder and the states in it, with nothing to train."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.folder = out / "checkpoints" / "trainer"
        self.states = DeepSpeedStates(self.folder)

    def write(self, step: int, *names: str) -> Path:
        """Write files of a state as the ranks do, all of them unless some are named."""
        state = self.states.path(step)
        state.mkdir(parents=True)
        for name in names or (MODEL, *RANKS):
            (state / name).write_bytes(b"x" * (step + len(name)))
        return state

    def save(self, step: int, *, keep: int = 1) -> None:
        seen = sync_files(self.write(step))
        self.states.mark(step, [seen, seen], keep=keep)

    def name_latest(self, step: int) -> None:
        """As DeepSpeed does by itself, when rank 0 has written its part."""
        (self.folder / "_actor" / "latest").write_text(f"step_{step:06d}")

    def go_on(self) -> int:
        """Start again: a new process knows what is on disk alone."""
        self.states = DeepSpeedStates(self.folder)
        step = self.states.check()
        self.states.go_back()
        remove_unfinished(self.out)
        return step

    @property
    def there(self) -> dict[str, set[str]]:
        """Files by state."""
        states = (path for path in (self.folder / "_actor").iterdir() if path.is_dir())
        return {state.name: {file.name for file in state.iterdir()} for state in states}

    @property
    def latest(self) -> str | None:
        latest = self.folder / "_actor" / "latest"
        return latest.read_text() if latest.exists() else None


@pytest.fixture
def run(tmp_path: Path) -> SmallRun:
    return SmallRun(tmp_path)


WHOLE = {MODEL, *RANKS}


def test_the_older_state_is_there_until_the_new_one_is_marked(run: SmallRun) -> None:
    run.save(2)
    seen = sync_files(run.write(4))
    assert run.there == {"step_000002": WHOLE, "step_000004": WHOLE}

    run.states.mark(4, [seen], keep=1)

    assert run.there == {"step_000004": WHOLE}
    assert run.latest == "step_000004"
    assert run.go_on() == 4


def test_as_many_states_as_asked_for_are_kept(run: SmallRun) -> None:
    for step in (2, 4, 6, 8):
        run.save(step, keep=3)
    assert run.there == dict.fromkeys(
        ("step_000004", "step_000006", "step_000008"), WHOLE
    )


def test_a_run_without_a_state_begins_at_step_0(run: SmallRun) -> None:
    assert run.go_on() == 0
    assert list(run.out.iterdir()) == []


def test_killed_before_the_first_state_was_whole(run: SmallRun) -> None:
    run.write(2, MODEL, RANKS[0])
    run.name_latest(2)

    assert run.go_on() == 0

    assert run.there == {}
    assert run.latest is None


@pytest.mark.parametrize("written", [(MODEL,), (MODEL, RANKS[0]), (MODEL, *RANKS)])
def test_killed_while_the_second_state_was_written(
    run: SmallRun, written: tuple[str, ...]
) -> None:
    run.save(2)
    run.write(4, *written)
    run.name_latest(4)

    assert run.go_on() == 2

    assert run.there == {"step_000002": WHOLE}
    assert run.latest == "step_000002"


def test_half_states_never_push_out_the_whole_one(run: SmallRun) -> None:
    run.save(2)
    for step in (4, 6, 4):
        run.write(step, MODEL)
        assert run.go_on() == 2
    assert run.there == {"step_000002": WHOLE}


def test_killed_while_older_states_were_deleted(run: SmallRun) -> None:
    run.save(2, keep=2)
    run.save(4, keep=2)
    # Marked, one older state half deleted under its temporary name, one not begun with.
    seen = sync_files(run.write(6))
    run.states.mark(6, [seen], keep=3)
    folder = run.folder / "_actor"
    shutil.move(folder / "step_000002", folder / ".step_000002.tmp")
    (folder / ".step_000002.tmp" / MODEL).unlink()

    assert run.go_on() == 6

    assert run.there == {"step_000004": WHOLE, "step_000006": WHOLE}
    run.save(8)
    assert run.there == {"step_000008": WHOLE}


def test_killed_between_the_mark_and_deepspeed_s_own_file(run: SmallRun) -> None:
    run.save(2, keep=2)
    run.save(4, keep=2)
    run.name_latest(2)

    assert run.go_on() == 4

    assert run.latest == "step_000004"


def test_a_mark_that_cannot_be_written_leaves_all_states(run: SmallRun) -> None:
    run.save(2)
    seen = sync_files(run.write(4))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, before[1]))  # as a full disk

    try:
        with pytest.raises(DiskWriteError, match=r"complete\.json"):
            run.states.mark(4, [seen], keep=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert run.there == {"step_000002": WHOLE, "step_000004": WHOLE}
    assert run.go_on() == 2
    assert run.there == {"step_000002": WHOLE}


def test_the_state_that_the_mark_names_is_missing(run: SmallRun) -> None:
    run.save(2, keep=2)
    run.save(4, keep=2)
    shutil.rmtree(run.states.path(4))

    with pytest.raises(
        ResumeError, match=r"state of step 4 .*step_000004' is missing; bring it"
    ):
        run.go_on()

    assert run.there == {"step_000002": WHOLE}


def test_a_file_of_the_marked_state_is_missing_or_cut_off(run: SmallRun) -> None:
    run.save(2)
    run.write(4, MODEL)
    file = run.states.path(2) / RANKS[1]
    size = file.stat().st_size
    file.write_bytes(b"x")
    with pytest.raises(ResumeError, match=rf"rank_1_.*has 1 bytes instead of {size}"):
        run.go_on()
    file.unlink()
    with pytest.raises(ResumeError, match=r"rank_1_.*is missing"):
        run.go_on()
    # Nothing was deleted: the file can be brought back.
    assert set(run.there) == {"step_000002", "step_000004"}


@pytest.mark.parametrize("text", ["", "{", '{"step": 0, "files": {}}', "\xff"])
def test_a_damaged_mark_names_itself(run: SmallRun, text: str) -> None:
    run.save(2)
    run.write(4, MODEL)
    (run.folder / "complete.json").write_text(text, encoding="latin-1")
    with pytest.raises(
        ResumeError, match=r"complete\.json' does not tell the last whole state"
    ):
        run.go_on()
    assert set(run.there) == {"step_000002", "step_000004"}


def test_files_that_another_machine_sees_late_are_counted(run: SmallRun) -> None:
    seen = sync_files(run.write(2))
    late = {MODEL: seen[MODEL], RANKS[0]: 0}
    run.states.mark(2, [seen, late], keep=1)
    assert run.go_on() == 2


def test_a_state_that_was_not_the_one_to_load(run: SmallRun) -> None:
    run.states.check_loaded(0)
    run.save(2)
    run.states.check_loaded(2)
    with pytest.raises(
        ResumeError, match=r"state of step 0 .*step 2; start with --resume again"
    ):
        run.states.check_loaded(0)
