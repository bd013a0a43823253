"""What a tracker is shown of a run folder: each row once, also of a run that goes back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rubric_train_openrlhf.config.trackers import WandbTracker
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.tracking.figures import Measuring
from rubric_train_openrlhf.tracking.following import Follower, GrowingRows, Shown
from rubric_train_openrlhf.tracking.tracker import Entry

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rubric_train_openrlhf.run.records import Status


class Recorder:
    """Notes what it is shown."""

    run_id = "r"

    def __init__(self, *, last: int | None = None, dies_at: int | None = None) -> None:
        self.entries = list[Entry]()
        self._last = last
        self._dies_at = dies_at

    def last_step(self, group: str) -> int | None:
        del group
        return self._last

    def log(self, entry: Entry) -> None:
        if entry.step == self._dies_at:
            raise ConnectionError("gone")
        self.entries.append(entry)

    def finish(self, status: Status) -> None:
        raise NotImplementedError

    @property
    def shown(self) -> list[tuple[str, int, float]]:
        return [
            (entry.group, entry.step, next(iter(entry.figures.values())))
            for entry in self.entries
        ]


def write(path: Path, steps: Sequence[int], *, value: float = 0.0) -> None:
    rows = [json.dumps({"step": step, "value": value}) + "\n" for step in steps]
    path.write_text("".join(rows))


def make_follower(folder: RunFolder, tracker: Recorder) -> Follower:
    config = WandbTracker()
    note = folder.trackers / "wandb.json"
    return Follower(
        folder,
        config,
        tracker,
        shown=Shown.read(note, destination="d"),
        measuring=Measuring({}),
    )


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path)
    folder.judgements.mkdir()
    for step in range(1, 7):
        (folder.judgements / f"step_{step:06d}.jsonl").write_text("")
    return folder


def test_rows_come_in_the_order_of_their_steps(
    folder: RunFolder,
) -> None:
    write(folder.metrics, [1, 2])
    write(folder.heldout, [0, 2])
    tracker = Recorder()

    make_follower(folder, tracker).poll()

    assert [(entry.group, entry.step, entry.place) for entry in tracker.entries] == [
        ("heldout", 0, 0),
        ("train", 1, 1),
        ("train", 2, 2),
        ("heldout", 2, 3),
    ]


def test_a_run_that_goes_back_is_not_shown_twice(folder: RunFolder) -> None:
    first = Recorder()
    write(folder.metrics, [1, 2, 3], value=1.0)
    make_follower(folder, first).poll()
    second = Recorder()

    # Killed, resumed from step 2: step 3 is done again.
    write(folder.metrics, [1, 2, 3, 4], value=2.0)
    make_follower(folder, second).poll()

    assert [step for _, step, _ in first.shown] == [1, 2, 3]
    assert second.shown == [("train", 4, 2.0)]
    assert second.entries[0].place == 3


def test_a_tracker_that_can_be_asked_is_believed(folder: RunFolder) -> None:
    write(folder.metrics, [1, 2, 3])
    with pytest.raises(ConnectionError):
        make_follower(folder, Recorder(dies_at=3)).poll()
    tracker = Recorder(last=2)

    make_follower(folder, tracker).poll()

    # It was noted as shown, and never came.
    assert [step for _, step, _ in tracker.shown] == [3]


def test_another_place_is_shown_all(folder: RunFolder) -> None:
    write(folder.metrics, [1, 2])
    make_follower(folder, Recorder()).poll()

    shown = Shown.read(folder.trackers / "wandb.json", destination="elsewhere")

    assert (shown.run_id, shown.steps, shown.entries) == (None, {}, 0)


def test_a_step_whose_rows_are_cut_off_meanwhile_is_shown_when_it_is_done_again(
    folder: RunFolder,
) -> None:
    tracker = Recorder()
    follower = make_follower(folder, tracker)
    write(folder.metrics, [1, 2], value=1.0)
    (folder.judgements / "step_000002.jsonl").unlink()
    follower.poll()
    assert [step for _, step, _ in tracker.shown] == [1]

    write(folder.metrics, [1, 2], value=5.0)
    (folder.judgements / "step_000002.jsonl").write_text("")
    follower.poll()

    assert tracker.shown == [("train", 1, 1.0), ("train", 2, 5.0)]


def steps_of(rows: GrowingRows) -> list[Any]:
    return [line.step for line in rows.new()]


def test_half_a_line_waits_for_the_other_half(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = GrowingRows(path)
    assert steps_of(rows) == []
    path.write_text('{"step": 1}\n{"st')
    assert steps_of(rows) == [1]
    path.write_text('{"step": 1}\n{"step": 2}\n')
    assert steps_of(rows) == [2]
    assert steps_of(rows) == []


def test_a_file_that_was_cut_off_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = GrowingRows(path)
    path.write_text('{"step": 1}\n{"step": 2}\n')
    assert steps_of(rows) == [1, 2]
    path.write_text('{"step": 1}\n')
    assert steps_of(rows) == [1]
    # Cut off and grown beyond, between two looks.
    path.write_text('{"step": 10}\n{"step": 20, "longer": 1}\n')
    assert steps_of(rows) == []
    assert steps_of(rows) == [10, 20]
