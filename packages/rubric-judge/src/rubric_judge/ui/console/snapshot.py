"""How far a phase is at one moment, and the line that says so."""

from collections import deque
from typing import Literal, NamedTuple

PhaseState = Literal["going on", "done", "stopped"]

_MINUTE_S = 60
_HOUR_S = 3600
_SLOW = 0.1
"""Rates below this are given as seconds for one."""
_WHOLE = 10
"""Numbers from here on are given without decimals."""


class PhaseSnapshot(NamedTuple):
    """How far one phase is."""

    name: str
    done: int
    """Number done of `total`; 0 in a phase that counts nothing."""
    total: int | None
    """None while it is not known, or where nothing is counted."""
    unit: str
    """Noun of what is counted, such as "steps"; empty if the name says it."""
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
    return (
        f"{duration_text(snapshot.elapsed_s)} so far"
        if snapshot.elapsed_s >= 1
        else None
    )


def _rate(rate: float) -> str:
    if rate < _SLOW:
        return f"{duration_text(1 / rate)} each"
    return f"{rate:,.0f}/s" if rate >= _WHOLE else f"{rate:.2g}/s"


_CHANGES_KEPT = 30
_CLOSEST_S = 1.0
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
        return (
            (done - first) / (now_s - first_s)
            if done > first and now_s > first_s
            else None
        )
