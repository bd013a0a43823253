"""Where progress is shown: bars on a terminal, a line now and then elsewhere, or nowhere."""

import contextlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field

from rubric_judge.ui.console.snapshot import PhaseSnapshot, PhaseState, phase_line

EVERY_S = 30.0
WORTH_S = 2.0
"""The end of a phase that took less, and counted nothing, is not told."""


class Display:
    """Receives the events of phases and shows nothing; no two of its methods run at once."""

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


def _to_stderr(text: str) -> None:
    # Nobody reads it any more, or there is no room: the work goes on.
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


@dataclass(eq=False)
class Lines(Display):
    """Plain lines: when a phase begins, at its end, and every 30 seconds between."""

    program: str
    """Begins each line."""
    _: KW_ONLY
    clock: Callable[[], float]
    """Seconds that never go back."""
    every_s: float = EVERY_S
    """Time between two lines of one phase."""
    quiet_s: float = 0.0
    """Phases that take less are not shown, so that a quick command prints nothing."""
    write: Callable[[str], object] = _to_stderr
    """Takes each line."""
    beat_s: float | None = field(default=1.0, init=False)

    def __post_init__(self) -> None:
        self._last_s = self.clock()
        self._told: set[object] = set()

    def began(self, phase: object, snapshot: PhaseSnapshot) -> None:
        """Say what is being done, if that is to be said at once."""
        if not self.quiet_s:
            self._tell(phase, snapshot)

    def beat(self, snapshots: Mapping[object, PhaseSnapshot], *, now_s: float) -> None:
        """Say what has begun, and how far it is, half a minute after the last line."""
        for phase, snapshot in snapshots.items():
            if phase not in self._told and snapshot.elapsed_s >= self.quiet_s:
                self._tell(phase, snapshot)
        if snapshots and now_s - self._last_s >= self.every_s:
            self._say(
                "; ".join(phase_line(snapshot) for snapshot in snapshots.values())
            )

    def ended(self, phase: object, snapshot: PhaseSnapshot, state: PhaseState) -> None:
        """Say what was done, if it is worth a line."""
        if phase in self._told and (
            snapshot.is_counted or snapshot.elapsed_s >= WORTH_S
        ):
            self._say(phase_line(snapshot, state))
        self._told.discard(phase)

    def _tell(self, phase: object, snapshot: PhaseSnapshot) -> None:
        self._told.add(phase)
        self._say(phase_line(snapshot))

    def _say(self, text: str) -> None:
        self._last_s = self.clock()
        self.write(f"{self.program}: {text}\n")
