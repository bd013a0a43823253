"""Where progress is shown: bars on a terminal, a line now and then elsewhere, or nowhere."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Final

from rubric_judge.console.look import Look, Standing, said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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

    def began(self, phase: object, look: Look) -> None:
        """A phase has begun; the same `phase` stands for it later."""

    def beat(self, looks: Mapping[object, Look], *, now_s: float) -> None:
        """So far are the phases that are going on."""

    def ended(self, phase: object, look: Look, standing: Standing) -> None:
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

    def began(self, phase: object, look: Look) -> None:
        """Say what is being done, if that is to be said at once."""
        if not self._quiet_s:
            self._tell(phase, look)

    def beat(self, looks: Mapping[object, Look], *, now_s: float) -> None:
        """Say what has begun, and how far it is, half a minute after the last line."""
        for phase, look in looks.items():
            if phase not in self._told and look.elapsed_s >= self._quiet_s:
                self._tell(phase, look)
        if looks and now_s - self._last_s >= self._every_s:
            self._say("; ".join(said(look) for look in looks.values()))

    def ended(self, phase: object, look: Look, standing: Standing) -> None:
        """Say what was done, if it is worth a line."""
        if phase in self._told and (look.is_counted or look.elapsed_s >= WORTH_S):
            self._say(said(look, standing))
        self._told.discard(phase)

    def _tell(self, phase: object, look: Look) -> None:
        self._told.add(phase)
        self._say(said(look))

    def _say(self, text: str) -> None:
        self._last_s = self._clock()
        self._write(f"{self._program}: {text}\n")


def display_for(program: str, *, clock: Callable[[], float], at_once: bool) -> Display:
    """Return bars where standard error is a terminal, and lines where it is none."""
    # A library that counts has no need of them.
    from rich.console import Console  # noqa: PLC0415

    console = Console(stderr=True, markup=False, highlight=False)
    if not console.is_terminal:
        return Lines(program, clock=clock, quiet_s=0.0 if at_once else QUIET_S)
    from rubric_judge.console.bars import Bars  # noqa: PLC0415  # as above

    return Bars(console)


def _to_stderr(text: str) -> None:
    # Nobody reads it any more, or there is no room: the work goes on.
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()
