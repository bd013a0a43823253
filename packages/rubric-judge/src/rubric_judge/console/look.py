"""One look at work in progress, and how it is put into words."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

Standing: TypeAlias = Literal["going on", "done", "stopped"]

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_SLOW: Final = 0.1
"""Rates below this are given as seconds for one."""
_WHOLE: Final = 10
"""Numbers from here on are given without decimals."""


class Look(NamedTuple):
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


def said(look: Look, standing: Standing = "going on") -> str:
    """Put a look into one line without a line break.

    Args:
        look: at a phase.
        standing: whether the phase goes on, was done, or was left before its end.
    """
    parts = [_count(look)] if look.is_counted else []
    if look.is_counted and look.rate is not None:
        parts.append(_rate(look.rate))
    if (time := _time(look, standing)) is not None:
        parts.append(time)
    name = f"{look.name}: {', '.join(parts)}" if parts else look.name
    return f"{name}; {look.note}" if look.note else name


def said_time(seconds: float) -> str:
    """Say a length of time as in 0.4 s, 12 s, 3 min 5 s or 2 h 10 min."""
    if seconds < _WHOLE:
        return f"{seconds:.1f} s"
    if (whole := round(seconds)) < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"


def _count(look: Look) -> str:
    counted = f"{look.done:,}" if look.total is None else f"{look.done:,} of {look.total:,}"
    return f"{counted} {look.unit}" if look.unit else counted


def _time(look: Look, standing: Standing) -> str | None:
    if standing != "going on":
        return f"{'done in' if standing == 'done' else 'stopped after'} {said_time(look.elapsed_s)}"
    if look.eta_s is not None:
        return f"{said_time(look.eta_s)} left"
    return f"{said_time(look.elapsed_s)} so far" if look.elapsed_s >= 1 else None


def _rate(rate: float) -> str:
    if rate < _SLOW:
        return f"{said_time(1 / rate)} each"
    return f"{rate:,.0f}/s" if rate >= _WHOLE else f"{rate:.2g}/s"
