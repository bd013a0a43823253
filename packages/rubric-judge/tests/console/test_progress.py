from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from rubric_judge.ui.console.bars import Bars
from rubric_judge.ui.console.display import Lines
from rubric_judge.ui.console.progress import Progress
from rubric_judge.ui.console.snapshot import (
    Pace,
    PhaseSnapshot,
    duration_text,
    phase_line,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def said_lines() -> list[str]:
    return []


@pytest.fixture
def progress(clock: Clock, said_lines: list[str]) -> Progress:
    """Not entered: no thread reads it, and the test calls `beat`."""
    return Progress(
        Lines("rubric-x", clock=clock, write=said_lines.append), clock=clock
    )


def work(
    progress: Progress, clock: Clock, *, seconds: int, each: Callable[[], None]
) -> None:
    for _ in range(seconds):
        clock.now_s += 1
        each()
        progress.beat()


def test_a_line_at_once_one_every_30_seconds_and_one_at_the_end(
    progress: Progress, clock: Clock, said_lines: list[str]
) -> None:
    with progress.phase("training", total=100, unit="steps") as phase:
        assert said_lines == ["rubric-x: training: 0 of 100 steps\n"]
        work(progress, clock, seconds=100, each=phase.advance)

    assert said_lines[1:] == [
        "rubric-x: training: 30 of 100 steps, 1/s, 1 min 10 s left\n",
        "rubric-x: training: 60 of 100 steps, 1/s, 40 s left\n",
        "rubric-x: training: 90 of 100 steps, 1/s, 10 s left\n",
        "rubric-x: training: 100 of 100 steps, 1/s, done in 1 min 40 s\n",
    ]


def test_a_silent_library_call_is_told_by_the_time_it_takes(
    progress: Progress, clock: Clock, said_lines: list[str]
) -> None:
    with progress.phase("starting Ray"):
        work(progress, clock, seconds=65, each=lambda: None)

    assert said_lines == [
        "rubric-x: starting Ray\n",
        "rubric-x: starting Ray: 30 s so far\n",
        "rubric-x: starting Ray: 1 min 0 s so far\n",
        "rubric-x: starting Ray: done in 1 min 5 s\n",
    ]


def test_what_is_done_within_a_phase_is_told_with_it_and_has_no_lines_of_its_own(
    progress: Progress, clock: Clock, said_lines: list[str]
) -> None:
    with progress.phase("training", total=9, unit="steps") as phase:
        phase.start_at(6)
        phase.note = "reward 0.5"
        with progress.phase("sampling", total=64) as sampling:
            work(progress, clock, seconds=30, each=sampling.advance)

    assert said_lines[1] == (
        "rubric-x: training: 6 of 9 steps, 30 s so far; "
        "reward 0.5; sampling: 30 of 64, 1/s, 34 s left\n"
    )
    assert len(said_lines) == 3


def test_what_a_phase_was_left_with_is_not_called_done(
    progress: Progress, clock: Clock, said_lines: list[str]
) -> None:
    def fail() -> None:
        with progress.phase("judging", total=4) as phase:
            clock.now_s += 8
            phase.advance(2)
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert said_lines[-1] == "rubric-x: judging: 2 of 4, 0.25/s, stopped after 8.0 s\n"


def test_phases_side_by_side_share_a_line(
    progress: Progress, clock: Clock, said_lines: list[str]
) -> None:
    with progress:
        progress.count("a answers", total=3)
        progress.count("b answers", total=3)
        clock.now_s += 30
        progress.beat()
        for _ in range(2):
            progress.count("a answers", total=3)

    assert said_lines[-3].count(" of 3, ") == 2
    assert said_lines[-2] == "rubric-x: a answers: 3 of 3, 0.1/s, done in 30 s\n"
    assert said_lines[-1].startswith(
        "rubric-x: b answers: 1 of 3, 30 s each, stopped after"
    )


def test_a_quick_phase_without_a_count_has_one_line(
    progress: Progress, said_lines: list[str]
) -> None:
    with progress.phase("reading tasks"):
        pass
    assert said_lines == ["rubric-x: reading tasks\n"]


def test_a_quick_command_says_nothing_and_a_slow_one_soon(
    clock: Clock, said_lines: list[str]
) -> None:
    lines = Lines("rubric-x", clock=clock, quiet_s=1.0, write=said_lines.append)
    progress = Progress(lines, clock=clock)
    with progress.phase("reading tasks"):
        clock.now_s += 0.9
        progress.beat()
    assert said_lines == []
    with progress.phase("judging", total=8) as phase:
        work(progress, clock, seconds=8, each=phase.advance)
    assert said_lines == [
        "rubric-x: judging: 1 of 8, 1/s, 7.0 s left\n",
        "rubric-x: judging: 8 of 8, 1/s, done in 8.0 s\n",
    ]


def test_many_quick_phases_are_told_of_twice_a_minute(
    clock: Clock, said_lines: list[str]
) -> None:
    lines = Lines("rubric-x", clock=clock, quiet_s=1.0, write=said_lines.append)
    progress = Progress(lines, clock=clock)
    for _ in range(140):
        with progress.phase("reading a file"):
            clock.now_s += 0.5
            progress.beat()
    assert said_lines == ["rubric-x: reading a file\n"] * 2


def test_the_thread_tells_while_the_code_does_not(said_lines: list[str]) -> None:
    is_told = threading.Event()

    class Quick(Lines):
        beat_s = 0.01

    def write(line: str) -> None:
        said_lines.append(line)
        if len(said_lines) == 3:
            is_told.set()

    clock = Clock()
    progress = Progress(
        Quick("rubric-x", clock=clock, every_s=0, write=write), clock=clock
    )
    with progress, progress.phase("loading libraries"):
        assert is_told.wait(timeout=600)
    assert set(said_lines) == {"rubric-x: loading libraries\n"}
    assert not [one for one in threading.enumerate() if one.name == "progress"]


def test_a_watcher_is_called_when_a_phase_begins_and_while_it_goes_on() -> None:
    snapshots: list[PhaseSnapshot] = []
    progress = Progress.silent()
    with (
        progress,
        progress.watched(snapshots.append),
        progress.phase("training", total=2) as phase,
    ):
        phase.advance()
        progress.beat()
    assert [(snapshot.name, snapshot.done) for snapshot in snapshots[:2]] == [
        ("training", 0),
        ("training", 1),
    ]
    before = len(snapshots)
    with progress.phase("report"):
        progress.beat()
    assert len(snapshots) == before


def test_bars_show_the_same_words_on_a_terminal(clock: Clock) -> None:
    drawn = io.StringIO()
    console = Console(
        file=drawn, force_terminal=True, width=100, markup=False, highlight=False
    )
    with Progress(Bars(console), clock=clock) as progress:
        with progress.phase("reading"):
            pass
        with progress.phase("[b]training", total=4, unit="steps") as phase:
            clock.now_s += 3
            phase.advance(3, note="reward 0.5")
            progress.beat()
            phase.advance()
    last = drawn.getvalue().rpartition("[b]training")[2]
    assert "4 of 4 steps, 1.3/s, done in 3.0 s; reward 0.5" in last


def test_progress_outlives_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr("sys.stderr", closed)
    with (
        Progress.of("rubric-x") as progress,
        progress.phase("judging", total=1) as phase,
    ):
        phase.advance()


def test_a_rate_forgets_what_was_long_ago_and_counts_nothing_that_was_done_before() -> (
    None
):
    pace = Pace(500, now_s=0)
    assert pace.rate(500, now_s=10) is None
    done = 500
    for now_s in range(11, 41):
        done += 10
        pace.rate(done, now_s=now_s)
    for now_s in range(41, 80):
        done += 1
        pace.rate(done, now_s=now_s)
    assert pace.rate(done, now_s=80) == pytest.approx(1.0, rel=0.1)
    assert pace.rate(done, now_s=200) < 0.3
    assert pace.rate(3, now_s=201) is None, "begun again"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (59.4, "59 s"),
        (125, "2 min 5 s"),
        (7800, "2 h 10 min"),
    ],
)
def test_a_length_of_time_is_said(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_slow_things_are_given_by_their_length() -> None:
    snapshot = PhaseSnapshot(
        "training", 6, 60, "steps", "", elapsed_s=1800, rate=1 / 300
    )
    assert (
        phase_line(snapshot)
        == "training: 6 of 60 steps, 5 min 0 s each, 4 h 30 min left"
    )
