"""Progress of a command, counted by the code that does the work and shown by another thread.

Counting is one addition, so that it may stand in any loop; the thread reads the counts and shows
them, also while a library is silent for minutes.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from contextvars import ContextVar, Token
from typing import Self

from rubric_judge.ui.console.display import Display, Lines
from rubric_judge.ui.console.snapshot import Pace, PhaseSnapshot, PhaseState, phase_line

QUIET_S = 1.0
"""Shortest phase that is reported in lines."""
_WATCHED_EVERY_S = 1.0
_current: ContextVar[Progress] = ContextVar("progress")


class Phase:
    """A piece of work that takes time: its name, and how far it is."""

    def __init__(
        self, name: str, *, total: int | None, unit: str, now_s: float
    ) -> None:
        """Begin a phase; use `Progress.phase`."""
        self.name = name
        self.total = total
        """Amount of work; None if unknown."""
        self.done = 0
        self.unit = unit
        self.note = ""
        """Momentary figures."""
        self.inner: Phase | None = None
        """The phase within this one."""
        self._started_s = now_s
        self._started_at = 0
        self._pace = Pace(0, now_s=now_s)

    def start_at(self, done: int) -> None:
        """Set what an earlier run has done already; it does not count for the rate."""
        self.done = done
        self._started_at = done
        self._pace = Pace(done, now_s=self._started_s)

    def advance(self, by: int = 1, *, note: str | None = None) -> None:
        """Count further work as done."""
        self.done += by
        if note is not None:
            self.note = note

    def snapshot(self, *, now_s: float, is_over: bool = False) -> PhaseSnapshot:
        """Return how far it is, and its inner phase; once over, the rate is that of all of it."""
        elapsed_s = now_s - self._started_s
        done = self.done - self._started_at
        if is_over:
            rate = done / elapsed_s if done > 0 and elapsed_s > 0 else None
        else:
            rate = self._pace.rate(self.done, now_s=now_s)
        parts = [self.note] if self.note else []
        inner = self.inner
        if inner is not None:
            parts.append(phase_line(inner.snapshot(now_s=now_s)))
        note = "; ".join(parts)
        return PhaseSnapshot(
            self.name, self.done, self.total, self.unit, note, elapsed_s, rate
        )


class Progress:
    """The phases of one command, and the thread that shows them.

    Enter it around all of a command's work. Phases follow each other; a phase that begins within
    another is shown as part of it. A library without a progress uses `Progress.silent()`.
    """

    def __init__(
        self, display: Display, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin without phases; use `Progress.of`, which chooses the display.

        Args:
            display: the display of the phases.
            clock: seconds that never go back.
        """
        self._display = display
        self._clock = clock
        self._watchers: list[Callable[[PhaseSnapshot], None]] = []
        self._phases: list[Phase] = []
        self._counts: dict[str, Phase] = {}
        self._telling = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._token: Token[Progress] | None = None

    @classmethod
    def of(cls, program: str, *, at_once: bool = False) -> Self:
        """Show the work of a program on standard error: bars on a terminal, lines elsewhere.

        Args:
            program: name at the start of each line.
            at_once: whether lines also report phases that last less than a second.
        """
        from rich.console import Console  # a library that only counts does not need it

        console = Console(stderr=True, markup=False, highlight=False)
        if console.is_terminal:
            from rubric_judge.ui.console.bars import Bars

            return cls(Bars(console))
        return cls(
            Lines(program, clock=time.monotonic, quiet_s=0.0 if at_once else QUIET_S)
        )

    @classmethod
    def silent(cls) -> Self:
        """Return a progress that shows nothing."""
        return cls(Display())

    def __enter__(self) -> Self:
        """Begin to show, and become the current progress."""
        self._token = _current.set(self)
        self._display.open()
        if self._display.beat_s is not None:
            self._start_thread(self._display.beat_s)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop showing."""
        if self._token is not None:
            _current.reset(self._token)
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        for phase in filter(_is_on, self._counts.values()):
            self._end(phase, "stopped")
        self._display.close()

    @contextlib.contextmanager
    def phase(
        self, name: str, *, total: int | None = None, unit: str = ""
    ) -> Generator[Phase]:
        """Report that something is being done, for as long as this context is open.

        Args:
            name: the work, as it is shown: "loading the model".
            total: amount of work.
            unit: noun of what is counted; empty if the name says it.
        """
        begun = Phase(
            name,
            total=total,
            unit=unit,
            now_s=self._clock(),
        )
        outer = self._phases[-1] if self._phases else None
        if outer is not None:
            outer.inner = begun
        else:
            self._begin(begun)
        self._phases.append(begun)
        state: PhaseState = "stopped"
        try:
            yield begun
            state = "done"
        finally:
            self._phases.pop()
            if outer is not None:
                outer.inner = None
            else:
                self._end(begun, state)

    def count(self, name: str, *, total: int, done: int | None = None) -> None:
        """Count on in one of several phases that run side by side.

        Args:
            name: name of the phase, which begins with the first call and ends with the last one.
            total: amount of work.
            done: work done so far; by default, one more than before.
        """
        if name not in self._counts:
            begun = Phase(
                name,
                total=total,
                unit="",
                now_s=self._clock(),
            )
            self._begin(begun)
            self._counts[name] = begun
        phase = self._counts[name]
        before = phase.done
        phase.done = before + 1 if done is None else done
        if before < total <= phase.done:
            self._end(phase, "done")

    @contextlib.contextmanager
    def watched(self, watcher: Callable[[PhaseSnapshot], None]) -> Generator[None]:
        """Call a function with the current phase: when one begins, and about once a second."""
        with self._telling:
            self._watchers.append(watcher)
        self._start_thread(_WATCHED_EVERY_S)
        try:
            yield
        finally:
            with self._telling:  # not while it is being called
                self._watchers.remove(watcher)

    def beat(self) -> None:
        """Take snapshots of the current phases and show them; the thread calls this."""
        with self._telling:
            now_s = self._clock()
            # Phases side by side are more informative than the phase that they are part of.
            phases = [*filter(_is_on, list(self._counts.values()))] or self._phases[:1]
            snapshots: dict[object, PhaseSnapshot] = {
                phase: phase.snapshot(now_s=now_s) for phase in phases
            }
            self._display.beat(snapshots, now_s=now_s)
            for snapshot in list(snapshots.values())[:1]:
                self._tell(snapshot)

    def _begin(self, phase: Phase) -> None:
        with self._telling:
            snapshot = phase.snapshot(now_s=self._clock())
            self._display.began(phase, snapshot)
            self._tell(snapshot)

    def _end(self, phase: Phase, state: PhaseState) -> None:
        with self._telling:
            over = phase.snapshot(now_s=self._clock(), is_over=True)
            self._display.ended(phase, over, state)

    def _tell(self, snapshot: PhaseSnapshot) -> None:
        for watcher in self._watchers:
            watcher(snapshot)

    def _start_thread(self, every_s: float) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, args=(every_s,), name="progress", daemon=True
            )
            self._thread.start()

    def _run(self, every_s: float) -> None:
        while not self._over.wait(every_s):
            self.beat()


class Steps(contextlib.ExitStack):
    """Phases that follow each other; each begins by name where the one before ends."""

    def __init__(self, progress: Progress) -> None:
        """Begin without a phase."""
        super().__init__()
        self._progress = progress
        self._phase: Phase | None = None

    def to(
        self, name: str, *, total: int | None = None, unit: str = "", done: int = 0
    ) -> Phase:
        """Move on to a phase, unless it is the current one.

        Args:
            name: as in `Progress.phase`.
            total: as in `Progress.phase`.
            unit: as in `Progress.phase`.
            done: work done when it begins.
        """
        if self._phase is None or self._phase.name != name:
            self.close()
            begun = self._progress.phase(name, total=total, unit=unit)
            self._phase = self.enter_context(begun)
            self._phase.start_at(done)
        return self._phase


def current() -> Progress:
    """Return the progress that a command has entered, or a silent one outside of commands."""
    return _current.get(None) or Progress.silent()


def _is_on(phase: Phase) -> bool:
    return phase.total is None or phase.done < phase.total
