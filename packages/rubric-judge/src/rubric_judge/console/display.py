"""Where progress is shown, and as what: bars on a terminal, lines elsewhere, or nowhere."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import TaskID

PhaseState: TypeAlias = Literal["going on", "done", "stopped"]

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_SLOW: Final = 0.1
"""Rates below this are given as seconds for one."""
_WHOLE: Final = 10
"""Numbers from here on are given without decimals."""


class PhaseSnapshot(NamedTuple):
    """How far one phase is."""

    name: str
    done: int
    """Of `total`; 0 in a phase that counts nothing."""
    total: int | None
    """None while it is not known, or where nothing is counted."""
    unit: str
    """What is counted, such as "steps"; empty if the name says it."""
    note: str
    """Figures of the moment, and what is being done within the phase."""
    elapsed_s: float
    rate: float | None
    """Done in a second; None while it is not known."""

    @property
    def is_counted(self) -> bool:
        """Whether there is a number to show."""
        return self.total is not None or self.done > 0

    @property
    def eta_s(self) -> float | None:
        """Seconds that the rest takes at this rate; None while it is not known."""
        if self.total is None or not self.rate:
            return None
        return max(0, self.total - self.done) / self.rate


def phase_line(snapshot: PhaseSnapshot, state: PhaseState = "going on") -> str:
    """Put a snapshot into one line without a line break.

    Args:
        snapshot: of a phase.
        state: whether the phase goes on, was done, or was left before its end.
    """
    parts = [_count(snapshot)] if snapshot.is_counted else []
    if snapshot.is_counted and snapshot.rate is not None:
        parts.append(_rate(snapshot.rate))
    if (time := _time(snapshot, state)) is not None:
        parts.append(time)
    name = f"{snapshot.name}: {', '.join(parts)}" if parts else snapshot.name
    return f"{name}; {snapshot.note}" if snapshot.note else name


def duration_text(seconds: float) -> str:
    """Say a length of time as in 0.4 s, 12 s, 3 min 5 s or 2 h 10 min."""
    if seconds < _WHOLE:
        return f"{seconds:.1f} s"
    if (whole := round(seconds)) < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"


def _count(snapshot: PhaseSnapshot) -> str:
    of_total = "" if snapshot.total is None else f" of {snapshot.total:,}"
    counted = f"{snapshot.done:,}{of_total}"
    return f"{counted} {snapshot.unit}" if snapshot.unit else counted


def _time(snapshot: PhaseSnapshot, state: PhaseState) -> str | None:
    if state != "going on":
        end = "done in" if state == "done" else "stopped after"
        return f"{end} {duration_text(snapshot.elapsed_s)}"
    if snapshot.eta_s is not None:
        return f"{duration_text(snapshot.eta_s)} left"
    return f"{duration_text(snapshot.elapsed_s)} so far" if snapshot.elapsed_s >= 1 else None


def _rate(rate: float) -> str:
    if rate < _SLOW:
        return f"{duration_text(1 / rate)} each"
    return f"{rate:,.0f}/s" if rate >= _WHOLE else f"{rate:.2g}/s"


_CHANGES_KEPT: Final = 30
_CLOSEST_S: Final = 1.0
"""Changes nearer to each other than this are one: the window is half a minute at least."""


class Pace:
    """A rate over the last 30 changes that were seen, each a second or more after the one before.

    That is half a minute of what is quick, and 30 steps of what is slow.
    """

    def __init__(self, done: float, *, now_s: float) -> None:
        """Begin to look.

        Args:
            done: what was done before.
            now_s: of a clock that never goes back.
        """
        self._seen = deque([(now_s, done)], maxlen=_CHANGES_KEPT + 1)

    def rate(self, done: float, *, now_s: float) -> float | None:
        """Return how much is done in a second, given how much is done now; None if unknown."""
        last_s, last = self._seen[-1]
        if done < last:  # begun again
            self._seen.clear()
        if done != last and (done < last or now_s - last_s >= _CLOSEST_S):
            self._seen.append((now_s, done))
        first_s, first = self._seen[0]
        return (done - first) / (now_s - first_s) if done > first and now_s > first_s else None


EVERY_S: Final = 30.0
QUIET_S: Final = 1.0
WORTH_S: Final = 2.0
"""The end of a phase that took less, and counted nothing, is not told."""


class Display:
    """Is told of phases, and shows nothing of them; no two of its methods are called at a time."""

    beat_s: float | None = None
    """Seconds between two calls of `beat`; None where there need be none."""

    def open(self) -> None:
        """Called before everything else."""

    def began(self, phase: object, snapshot: PhaseSnapshot) -> None:
        """A phase has begun; the same `phase` stands for it later."""

    def beat(self, snapshots: Mapping[object, PhaseSnapshot], *, now_s: float) -> None:
        """So far are the phases that are going on."""

    def ended(self, phase: object, snapshot: PhaseSnapshot, state: PhaseState) -> None:
        """A phase is over, or was left."""

    def close(self) -> None:
        """Called after everything else."""


class Lines(Display):
    """Plain lines: when a phase begins, at its end, and every 30 seconds between."""

    beat_s: float | None = 1.0

    def __init__(
        self,
        program: str,
        *,
        clock: Callable[[], float],
        every_s: float = EVERY_S,
        quiet_s: float = 0.0,
        write: Callable[[str], object] | None = None,
    ) -> None:
        """Write for a program.

        Args:
            program: begins each line.
            clock: seconds that never go back.
            every_s: time between two lines of one phase.
            quiet_s: what is over in less is not told, so that a quick command says nothing.
            write: takes each line; standard error if left out.
        """
        self._program = program
        self._clock = clock
        self._every_s = every_s
        self._quiet_s = quiet_s
        self._write = write or _to_stderr
        self._last_s = clock()
        self._told: set[object] = set()

    def began(self, phase: object, snapshot: PhaseSnapshot) -> None:
        """Say what is being done, if that is to be said at once."""
        if not self._quiet_s:
            self._tell(phase, snapshot)

    def beat(self, snapshots: Mapping[object, PhaseSnapshot], *, now_s: float) -> None:
        """Say what has begun, and how far it is, half a minute after the last line."""
        for phase, snapshot in snapshots.items():
            if phase not in self._told and snapshot.elapsed_s >= self._quiet_s:
                self._tell(phase, snapshot)
        if snapshots and now_s - self._last_s >= self._every_s:
            self._say("; ".join(phase_line(snapshot) for snapshot in snapshots.values()))

    def ended(self, phase: object, snapshot: PhaseSnapshot, state: PhaseState) -> None:
        """Say what was done, if it is worth a line."""
        if phase in self._told and (snapshot.is_counted or snapshot.elapsed_s >= WORTH_S):
            self._say(phase_line(snapshot, state))
        self._told.discard(phase)

    def _tell(self, phase: object, snapshot: PhaseSnapshot) -> None:
        self._told.add(phase)
        self._say(phase_line(snapshot))

    def _say(self, text: str) -> None:
        self._last_s = self._clock()
        self._write(f"{self._program}: {text}\n")


def _to_stderr(text: str) -> None:
    # Nobody reads it any more, or there is no room: the work goes on.
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


class Bars(Display):
    """One bar for each phase, with count, rate, time left and figures beside it."""

    beat_s: float | None = 0.2

    def __init__(self, console: Console) -> None:
        """Draw on a terminal."""
        self._bars = RichProgress(
            TextColumn("{task.fields[snapshot].name}", markup=False),
            BarColumn(),
            _SnapshotColumn(),
            console=console,
            redirect_stdout=False,  # results go where they are sent, not to standard error
        )
        self._tasks: dict[object, TaskID] = {}

    def open(self) -> None:
        """Begin to draw."""
        self._bars.start()

    def began(self, phase: object, snapshot: PhaseSnapshot) -> None:
        """Add a bar."""
        self._tasks[phase] = self._bars.add_task("", total=snapshot.total, snapshot=snapshot)

    def beat(self, snapshots: Mapping[object, PhaseSnapshot], *, now_s: float) -> None:
        """Move the bars."""
        del now_s
        for phase, snapshot in snapshots.items():
            self._show(phase, snapshot)

    def ended(self, phase: object, snapshot: PhaseSnapshot, state: PhaseState) -> None:
        """Leave the bar at its end, if it is worth one."""
        if snapshot.is_counted or snapshot.elapsed_s >= WORTH_S:
            self._show(phase, snapshot, state)
        else:
            self._bars.remove_task(self._tasks[phase])
        del self._tasks[phase]

    def close(self) -> None:
        """Leave the bars as they are."""
        self._bars.stop()

    def _show(self, phase: object, snapshot: PhaseSnapshot, state: PhaseState = "going on") -> None:
        done, total = snapshot.done, snapshot.total
        if state == "done" and total is None:  # a full bar, no longer one that moves
            done = total = 1
        self._bars.update(
            self._tasks[phase], completed=done, total=total, snapshot=snapshot, state=state
        )


class _SnapshotColumn(ProgressColumn):
    """What `phase_line` says, without the name."""

    def render(self, task: Task) -> Text:
        snapshot: PhaseSnapshot = task.fields["snapshot"]
        text = phase_line(snapshot, task.fields.get("state", "going on"))
        return Text(text.removeprefix(snapshot.name).lstrip(":; "))
