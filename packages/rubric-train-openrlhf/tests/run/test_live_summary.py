from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from rubric_core.locks import folder_lock, is_locked
from rubric_judge.ui.console.progress import Progress
from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.live_summary import LiveSummary, live_summary, was_killed
from rubric_train_openrlhf.run.records import MetricsRow

if TYPE_CHECKING:
    from pathlib import Path

    from rubric_judge.ui.console.snapshot import PhaseSnapshot


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def step(number: int) -> MetricsRow:
    values: dict[str, Any] = {
        name: 1
        for name in MetricsRow.model_fields
        if name not in {"cluster", "audit", "monitor"}
    }
    values |= {"criteria": {}, "zero_reward_by_reason": {}, "by_fallback": {}}
    return MetricsRow(**values | {"step": number, "degenerate_group_frac": 0.5})


def on_disk(folder: RunFolder) -> dict[str, Any]:
    return json.loads(folder.summary.read_text())


def test_the_summary_is_there_from_the_start_and_says_what_is_done(
    folder: RunFolder,
) -> None:
    with (
        Progress.silent() as progress,
        live_summary(
            folder, total_steps=9, resume=False, progress=progress
        ) as summary_file,
    ):
        assert on_disk(folder)["status"] == "running"
        with progress.phase("warm start", total=300):
            shown = on_disk(folder)
            assert (shown["phase"], shown["phase_done"], shown["phase_total"]) == (
                "warm start", 0, 300,
            )  # fmt: skip
            assert (shown["steps"], shown["total_steps"], shown["pid"]) == (
                0,
                9,
                os.getpid(),
            )
        summary_file.begin(wall_s=4.0)
        with progress.phase("training", total=9, unit="steps") as phase:
            folder.write_metrics(step(1))
            summary_file.step(step(1))
            phase.advance()
            progress.beat()
            assert (on_disk(folder)["steps"], on_disk(folder)["phase_done"]) == (1, 1)
    ended = on_disk(folder)
    assert (ended["status"], ended["steps"], ended["phase"]) == ("finished", 1, None)
    assert ended["wall_s"] == 4.0


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ResumeError("lost"), "failed"),
        (KeyboardInterrupt(), "interrupted"),
        (SystemExit(1), "interrupted"),
    ],
)
def test_how_a_run_was_ended_is_said_with_where_it_was(
    folder: RunFolder, error: BaseException, status: str
) -> None:
    def run() -> None:
        with (
            Progress.silent() as progress,
            live_summary(
                folder, total_steps=9, resume=False, progress=progress
            ) as summary_file,
        ):
            summary_file.begin(wall_s=0.0)
            with progress.phase("training", total=9) as phase:
                phase.advance(3)
                progress.beat()
                raise error

    with pytest.raises(type(error)):
        run()
    ended = on_disk(folder)
    assert ended["status"] == status
    assert ended["phase"] == "training"
    assert ended["error"] == ("ResumeError: lost" if status == "failed" else None)


@pytest.mark.parametrize("before", [None, '{"status": "failed", "steps": 3}'])
def test_a_start_that_finds_its_input_unusable_leaves_the_folder_as_it_was(
    folder: RunFolder, before: str | None
) -> None:
    if before is not None:
        folder.config.touch()
        folder.summary.write_text(before)

    def run() -> None:
        with (
            Progress.silent() as progress,
            live_summary(folder, total_steps=9, resume=True, progress=progress),
        ):
            assert on_disk(folder)["status"] == "running"
            assert on_disk(folder)["steps"] == (0 if before is None else 3)
            raise ResumeError("other tasks")

    with pytest.raises(ResumeError):
        run()
    assert (folder.summary.read_text() if folder.summary.exists() else None) == before


def test_nothing_is_written_into_a_folder_that_will_be_refused(
    folder: RunFolder,
) -> None:
    folder.metrics.touch()
    summary_file = LiveSummary(folder, total_steps=9)
    summary_file.open(resume=True)
    assert not folder.summary.exists()


def test_a_start_that_was_killed_while_it_read_its_input_stops_no_other(
    folder: RunFolder,
) -> None:
    LiveSummary(folder, total_steps=9).open(resume=False)
    assert folder.summary.exists()
    assert folder.names_taken == []
    folder.metrics.touch()
    assert folder.names_taken == ["metrics.jsonl", "summary.json"]


def look_of(progress: Progress, name: str) -> list[PhaseSnapshot]:
    snapshots: list[PhaseSnapshot] = []
    with progress, progress.watched(snapshots.append), progress.phase(name):
        pass
    return snapshots


def test_of_two_processes_the_one_that_began_last_keeps_the_summary(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = LiveSummary(folder, total_steps=9)
    driver.begin(wall_s=0.0)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    LiveSummary(folder, total_steps=9).begin(wall_s=70.0)
    monkeypatch.undo()

    for snapshot in look_of(Progress.silent(), "starting Ray"):
        driver.note_phase(snapshot)

    assert on_disk(folder)["phase"] is None
    ended = driver.end("interrupted")
    assert ended is not None
    assert ended.wall_s >= 70.0
    assert on_disk(folder)["pid"] == os.getpid()


def test_a_run_that_was_killed_can_be_told_from_one_that_goes_on(
    folder: RunFolder,
) -> None:
    assert not was_killed(folder)
    with folder_lock(folder.path):
        LiveSummary(folder, total_steps=9).begin(wall_s=0.0)
        assert is_locked(folder.path)
        assert not was_killed(folder)
    assert was_killed(folder)
    LiveSummary(folder, total_steps=9).end("interrupted")
    assert was_killed(folder), "whoever has not begun says nothing of a run"


def test_a_clock_that_goes_back_changes_nothing(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary_file = LiveSummary(folder, total_steps=9)
    summary_file.begin(wall_s=0.0)
    summary_file.start_clock()
    before = summary_file.wall_s
    monkeypatch.setattr("time.time", lambda: 0.0)
    for snapshot in look_of(Progress.silent(), "training"):
        summary_file.note_phase(snapshot)
    assert summary_file.wall_s >= before
    assert on_disk(folder)["eta_s"] is None or on_disk(folder)["eta_s"] >= 0
